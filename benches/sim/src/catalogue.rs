//! The scenarios that come with the program, in the order of the report.

use anyhow::{Context, anyhow};
use toml::{Table, Value};

/// Name and text.
const SCENARIOS: &[(&str, &str)] = &[
    ("five-regions", include_str!("../scenarios/five-regions.toml")),
    ("recommended", include_str!("../scenarios/recommended.toml")),
    ("gateways", include_str!("../scenarios/gateways.toml")),
    ("distinct", include_str!("../scenarios/distinct.toml")),
    ("recovery", include_str!("../scenarios/recovery.toml")),
    ("routers", include_str!("../scenarios/routers.toml")),
    ("batching", include_str!("../scenarios/batching.toml")),
    ("max-queued", include_str!("../scenarios/max-queued.toml")),
    ("reservations", include_str!("../scenarios/reservations.toml")),
    ("waiting", include_str!("../scenarios/waiting.toml")),
    ("staleness", include_str!("../scenarios/staleness.toml")),
    ("sweeps", include_str!("../scenarios/sweeps.toml")),
    ("queue-slo", include_str!("../scenarios/queue-slo.toml")),
    ("low-load", include_str!("../scenarios/low-load.toml")),
    ("workers", include_str!("../scenarios/workers.toml")),
    ("heterogeneous", include_str!("../scenarios/heterogeneous.toml")),
    ("stories", include_str!("../scenarios/stories.toml")),
];

/// Tables whose keys exclude each other: they are replaced as a whole.
const ALTERNATIVES: [&str; 4] = ["arrivals", "engines", "popularity", "reports"];

/// The names of all.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SCENARIOS.iter().map(|(name, _)| *name)
}

/// The text of a scenario: one that comes with the program, or a file.
pub(super) fn text(name: &str) -> anyhow::Result<String> {
    if let Some((_, text)) = SCENARIOS.iter().find(|(known, _)| *known == name) {
        return Ok((*text).to_owned());
    }
    std::fs::read_to_string(name).with_context(|| {
        let known: Vec<&str> = names().collect();
        format!("{name}: neither a file nor one of {}", known.join(", "))
    })
}

/// The table of a scenario, on top of that of its `base`: tables are put together, anything else replaces.
pub(super) fn table(text: &str) -> anyhow::Result<Table> {
    let mut table: Table = text.parse()?;
    let Some(base) = table.remove("base") else { return Ok(table) };
    let base = base.as_str().ok_or_else(|| anyhow!("base: allowed: the name of a scenario"))?;
    let mut whole = self::table(&self::text(base)?).with_context(|| format!("base {base}"))?;
    // These belong to one scenario only.
    for own in ["axes", "plots"] {
        whole.remove(own);
    }
    lay_over(&mut whole, table);
    Ok(whole)
}

fn lay_over(whole: &mut Table, over: Table) {
    for (key, value) in over {
        match (whole.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(over)) if !ALTERNATIVES.contains(&key.as_str()) => {
                lay_over(below, over);
            }
            (_, value) => {
                whole.insert(key, value);
            }
        }
    }
}
