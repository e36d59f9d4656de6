//! What the command line changes in a scenario before it is read.

use anyhow::anyhow;
use toml::{Table, Value};

use crate::RunArgs;

/// All changes of a scenario's text that were asked for, as paths and values.
pub(super) fn settings(args: &RunArgs) -> anyhow::Result<Vec<(String, Value)>> {
    let mut settings = args.set.iter().map(|text| setting(text)).collect::<anyhow::Result<Vec<_>>>()?;
    if !args.policy.is_empty() {
        let policies = args.policy.iter().cloned().map(Value::String).collect();
        settings.push(("policies".to_owned(), Value::Array(policies)));
    }
    if !args.seeds.is_empty() {
        let seeds = args.seeds.iter().map(|seed| Value::Integer((*seed).into())).collect();
        settings.push(("seeds".to_owned(), Value::Array(seeds)));
    }
    Ok(settings)
}

/// `path=value`, the value as TOML writes it; a bare word is a text.
fn setting(text: &str) -> anyhow::Result<(String, Value)> {
    let (path, value) = text.split_once('=').ok_or_else(|| anyhow!("--set {text}: allowed: path=value"))?;
    let parsed = format!("value = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    Ok((path.to_owned(), parsed.unwrap_or_else(|| Value::String(value.to_owned()))))
}

/// `axis=value,value`: an axis, and those of its values that are run.
pub(super) fn selection(text: &str) -> anyhow::Result<(&str, Vec<String>)> {
    let (axis, labels) =
        text.split_once('=').ok_or_else(|| anyhow!("--only {text}: allowed: axis=value,value"))?;
    Ok((axis, labels.split(',').map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_toml_or_else_a_text() {
        let read = |text| setting(text).expect("a setting");
        assert_eq!(read("clients.sessions=100"), ("clients.sessions".to_owned(), Value::Integer(100)));
        assert_eq!(read("a=[1, 2]").1, Value::Array(vec![Value::Integer(1), Value::Integer(2)]));
        assert_eq!(read("clients.region=west").1, Value::String("west".to_owned()));
        assert_eq!(setting("a").expect_err("an error").to_string(), "--set a: allowed: path=value");
    }

    #[test]
    fn a_selection_names_an_axis_and_values() {
        let labels = vec!["0.8".to_owned(), "1.0".to_owned()];
        assert_eq!(selection("load=0.8,1.0").expect("a selection"), ("load", labels));
        assert_eq!(
            selection("load").expect_err("an error").to_string(),
            "--only load: allowed: axis=value,value"
        );
    }
}
