//! A scenario's summary as JSON: one row a line, so that versions can be compared.

use serde_json::{Value, json};

use super::{chapter::Chapter, figure::FIGURES, spread::six_digits};
use crate::outcome::Outcome;

/// What the arrays are.
const FIGURE_FORM: &str = "[mean, least, greatest] over seeds";

/// All figures of a scenario, and second by second the runs that its plots over time show.
pub(crate) fn to_json(chapter: &Chapter) -> anyhow::Result<String> {
    let summary = chapter.summary()?;
    let units: serde_json::Map<String, Value> =
        FIGURES.iter().map(|figure| (figure.name.to_owned(), figure.unit.into())).collect();
    let rows = summary.rows.iter().map(|row| {
        let point: serde_json::Map<String, Value> =
            summary.point(row).map(|(axis, value)| (axis.name.clone(), value.into())).collect();
        let figures: serde_json::Map<String, Value> = row
            .figures()
            .map(|(name, spread)| Ok((name.to_owned(), serde_json::to_value(spread)?)))
            .collect::<serde_json::Result<_>>()?;
        Ok(json!({"point": point, "policy": summary.policies[row.policy], "seeds": row.seeds, "figures": figures}))
    });
    let mut runs = Vec::new();
    for plot in &chapter.plots {
        runs.extend(plot.runs_over_time(chapter)?);
    }
    runs.sort_unstable();
    runs.dedup();
    let parts = [
        ("scenario", json!(chapter.name).to_string()),
        ("title", json!(chapter.title).to_string()),
        ("description", json!(chapter.description).to_string()),
        ("axes", serde_json::to_string(&chapter.axes)?),
        ("policies", json!(chapter.policies).to_string()),
        ("units", json!(units).to_string()),
        ("figures", json!(FIGURE_FORM).to_string()),
        ("rows", lines(&rows.collect::<anyhow::Result<Vec<_>>>()?)),
        ("seconds", lines(&runs.iter().map(|run| seconds(&chapter.outcomes[*run])).collect::<Vec<_>>())),
    ];
    let parts = parts.map(|(name, value)| format!("\"{name}\": {value}"));
    Ok(format!("{{\n{}\n}}\n", parts.join(",\n")))
}

/// A run second by second, an array for each count.
fn seconds(outcome: &Outcome) -> Value {
    let Outcome { point, policy, seed, bound_per_s, seconds, .. } = outcome;
    let counts =
        |count: fn(&crate::outcome::Second) -> u64| -> Vec<u64> { seconds.iter().map(count).collect() };
    json!({
        "point": point,
        "policy": policy,
        "seed": seed,
        "bound": six_digits(*bound_per_s),
        "offered": counts(|second| second.offered.into()),
        "good": counts(|second| second.good.into()),
        "rejected": counts(|second| second.rejected.into()),
        "prompt_tokens": counts(|second| second.prompt_tokens),
        "cached_tokens": counts(|second| second.cached_tokens),
        "waiting": counts(|second| second.waiting.into()),
    })
}

fn lines(values: &[Value]) -> String {
    let values: Vec<String> = values.iter().map(Value::to_string).collect();
    if values.is_empty() { "[]".to_owned() } else { format!("[\n{}\n]", values.join(",\n")) }
}

#[cfg(test)]
mod tests {
    use super::{super::synthetic::chapter, *};

    #[test]
    fn rows_hold_every_figure_and_seconds_only_what_a_plot_shows() {
        let chapter = chapter();
        let text = to_json(&chapter).expect("JSON");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let row = &value["rows"][0];
        assert_eq!(row["point"]["load"], "0.8");
        assert_eq!(row["seeds"], json!([1, 2]));
        assert_eq!(row["figures"]["goodput"], json!([81.5, 81.0, 82.0]));
        assert_eq!(row["figures"].as_object().map(serde_json::Map::len), Some(FIGURES.len()));
        assert_eq!(value["units"]["reuse"], "%");
        let seconds = value["seconds"].as_array().expect("an array");
        assert_eq!(seconds.len(), 2, "two policies at one load with one seed");
        assert_eq!(seconds[0]["waiting"][59], 59);
        assert_eq!(text.lines().filter(|line| line.starts_with("{\"figures\"")).count(), 6);
    }
}
