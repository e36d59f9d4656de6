//! A small scenario that tests know every number of, and what it takes to run it.

use toml::{Table, Value};

use super::scenario::{Grid, Point};

/// One gateway beside one engine with one slot, which prefills a prompt in a second and answers with one token.
pub(super) const SMALL: &str = r#"
title = "Small"
about = "For tests."
seeds = [1]
warmup_s = 0
measured_s = 10
policies = ["random"]
[network]
regions = ["here", "there"]
rtt_ms = [[0, 100], [100, 0]]
[gateways]
per_region = 1
[engines.plain]
kind = "slots"
slots = 1
prefill_tps = 1000
decode_tps = 100
[[clusters]]
engine = "plain"
region = "here"
count = 1
[reports]
heartbeat_ms = 1000
[clients]
region = "here"
sessions = 4
prompt_tokens = 1000
output_tokens = 1
slo_ms = 1500
timeout_ms = 2500
[clients.arrivals]
rate = 1
"#;

/// Changes as paths and TOML values.
pub(super) type Changes<'a> = [(&'a str, &'a str)];

/// A scenario with changes.
pub(super) fn grid(text: &str, changes: &Changes<'_>) -> anyhow::Result<Grid> {
    let change = |(path, value): &(&str, &str)| {
        let mut table: Table = format!("value = {value}").parse().expect("a value");
        ((*path).to_owned(), table.remove("value").unwrap_or(Value::Boolean(false)))
    };
    Grid::read("test", text, &changes.iter().map(change).collect::<Vec<_>>())
}

/// The only point of the small scenario with changes.
pub(super) fn small(changes: &Changes<'_>) -> Point {
    point(SMALL, changes)
}

/// The first point of a scenario with changes.
pub(super) fn point(text: &str, changes: &Changes<'_>) -> Point {
    let points = grid(text, changes).and_then(|grid| grid.points());
    points.expect("points").into_iter().next().expect("a point")
}
