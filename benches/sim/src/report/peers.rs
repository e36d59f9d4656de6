//! What `stargate-bench peers --json` measured, as tables. Only the shape is known here: which scenarios, contestants and
//! metrics there are is for the measurement to say.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

use super::{
    figure::shown,
    table::{Cell, Table},
};

/// Digits of a figure, so that a cost of 1.57 and one of 13 516 both say what they can.
const DIGITS: i32 = 3;

/// A measurement of the gateway beside its peers.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Peers {
    /// How much of everything was sent.
    #[serde(default)]
    pub(super) sizes: BTreeMap<String, Value>,
    scenarios: Vec<Measured>,
}

/// One scenario of it.
#[derive(Clone, Debug, Deserialize)]
struct Measured {
    scenario: String,
    contestants: Vec<String>,
    metrics: Vec<Metric>,
    #[serde(default)]
    failed: Vec<u64>,
    #[serde(default)]
    unsent: Vec<u64>,
    #[serde(default)]
    left_out: Vec<LeftOut>,
    #[serde(default)]
    rounds: Vec<Value>,
}

#[derive(Clone, Debug, Deserialize)]
struct Metric {
    name: String,
    /// For each contestant.
    values: Vec<Option<Rounds>>,
}

/// A metric over rounds.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Rounds {
    median: f64,
    min: f64,
    max: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct LeftOut {
    kind: String,
    reason: String,
}

/// A scenario of the peers, ready to be shown.
#[derive(Clone, Debug)]
pub(super) struct PeerTable {
    pub(super) scenario: String,
    pub(super) rounds: usize,
    /// A row for each contestant.
    pub(super) table: Table,
    /// Who did not see the end of it, and why.
    pub(super) left_out: Vec<String>,
}

// === impl Peers ===

impl Peers {
    /// Reads it.
    pub(crate) fn read(json: &str) -> anyhow::Result<Self> {
        serde_json::from_str(json).context("not what `stargate-bench peers --json` prints")
    }

    /// One table for each scenario.
    pub(super) fn tables(&self) -> impl Iterator<Item = PeerTable> {
        self.scenarios.iter().map(Measured::table)
    }

    /// The sizes as one line of text.
    pub(super) fn sizes(&self) -> String {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => {
                number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string())
            }
            other => other.to_string(),
        };
        let sizes =
            self.sizes.iter().map(|(name, value)| format!("{} {}", name.replace('_', " "), text(value)));
        sizes.collect::<Vec<_>>().join(", ")
    }
}

// === impl Measured ===

impl Measured {
    fn table(&self) -> PeerTable {
        let counts = [("failed", &self.failed), ("never sent", &self.unsent)];
        let mut head = vec![String::new()];
        head.extend(self.metrics.iter().map(|metric| match metric.name.strip_prefix("/ ") {
            // A ratio's name is one word.
            Some(base) => format!("/\u{a0}{base}"),
            None => metric.name.clone(),
        }));
        head.extend(counts.map(|(name, _)| name.to_owned()));
        let rows = self.contestants.iter().enumerate().map(|(index, contestant)| {
            let figures =
                self.metrics.iter().map(|metric| Cell::of(metric.values.get(index).copied().flatten()));
            let counts = counts.map(|(_, counts)| match counts.get(index) {
                Some(count) => Cell::plain(&count.to_string()),
                None => Cell::of(None),
            });
            [Cell::plain(contestant)].into_iter().chain(figures).chain(counts).collect()
        });
        PeerTable {
            scenario: self.scenario.clone(),
            rounds: self.rounds.len(),
            table: Table { head, names: 1, rows: rows.collect() },
            left_out: self
                .left_out
                .iter()
                .map(|LeftOut { kind, reason }| format!("{kind}: {reason}"))
                .collect(),
        }
    }
}

impl Cell {
    fn of(rounds: Option<Rounds>) -> Self {
        let Some(Rounds { median, min, max }) = rounds else { return Self::plain(super::table::NONE) };
        let largest = median.abs().max(max.abs());
        let before = if largest >= 1.0 { largest.log10().floor() as i32 + 1 } else { 1 };
        let digits = (DIGITS - before).clamp(0, DIGITS) as usize;
        let range = (min < max).then(|| format!("{}–{}", shown(min, digits), shown(max, digits)));
        Self { value: shown(median, digits), range }
    }
}

/// What a measurement prints, shortened.
#[cfg(test)]
pub(super) const EXAMPLE: &str = r#"{
    "sizes": {"requests": 1000, "open_rate": 2000.0, "mode": "x"},
    "scenarios": [{
        "scenario": "json", "contestants": ["direct", "gateway"], "failed": [0, 2], "unsent": [0, 0],
        "metrics": [
            {"name": "CPU-s / 100k", "values": [null, {"median": 1.567, "min": 1.5, "max": 1.6}]},
            {"name": "RSS KB", "values": [{"median": 13516.0, "min": 13516.0, "max": 13516.0}]}
        ],
        "left_out": [{"kind": "envoy", "reason": "it <ended>"}],
        "rounds": [[], []], "later": true
    }]
}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_a_row_for_each_contestant() {
        let peers = Peers::read(EXAMPLE).expect("peers");
        assert_eq!(peers.sizes(), "mode x, open rate 2000, requests 1000");
        let tables: Vec<PeerTable> = peers.tables().collect();
        assert_eq!(tables.len(), 1);
        assert_eq!((tables[0].scenario.as_str(), tables[0].rounds), ("json", 2));
        assert_eq!(tables[0].left_out, ["envoy: it <ended>"]);
        assert_eq!(
            tables[0].table.markdown(),
            "|  | CPU-s / 100k | RSS KB | failed | never sent |\n\
             | --- | ---: | ---: | ---: | ---: |\n\
             | direct | – | 13516 | 0 | 0 |\n\
             | gateway | 1.57 [1.50–1.60] | – | 2 | 0 |\n"
        );
    }

    #[test]
    fn something_else_is_an_error() {
        let error = Peers::read("{}").expect_err("an error");
        assert!(format!("{error:#}").contains("peers --json"), "{error:#}");
    }
}
