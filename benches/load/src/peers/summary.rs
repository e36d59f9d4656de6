//! Medians over rounds, and ratios pair by pair: a round's disturbance meets both sides of a ratio.

use std::fmt;

use serde::Serialize;

use super::{
    kind::Kind,
    measured::Measured,
    scenario::Scenario,
    tables::{Column, Compared, columns},
};

/// What costs are set against, where it takes part.
const BASES: [Kind; 3] = [Kind::Haproxy, Kind::Relay, Kind::Other];

/// Median and range over rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

/// One column of a table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Metric {
    pub(super) name: String,
    /// One value for each contestant, in the order of the table.
    pub(super) values: Vec<Option<Spread>>,
    #[serde(skip)]
    digits: usize,
}

/// Someone who did not see the end of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LeftOut {
    pub(super) kind: Kind,
    pub(super) reason: String,
}

/// A scenario's table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    scenario: Scenario,
    contestants: Vec<Kind>,
    metrics: Vec<Metric>,
    failed: Vec<u64>,
    unsent: Vec<u64>,
    left_out: Vec<LeftOut>,
    rounds: Vec<Vec<Measured>>,
}

// === impl Spread ===

impl Spread {
    /// Of the values of all rounds; `None` when there are none.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { values[middle - 1].midpoint(values[middle]) };
        Some(Self { median, min, max })
    }

    fn text(self, digits: usize) -> String {
        let Self { median, min, max } = self;
        if min < max {
            format!("{median:.digits$} [{min:.digits$}–{max:.digits$}]")
        } else {
            format!("{median:.digits$}")
        }
    }
}

// === impl Summary ===

impl Summary {
    /// Sums rounds up, for those of `kinds` that were in any of them.
    pub(super) fn new(
        scenario: Scenario,
        kinds: &[Kind],
        rounds: Vec<Vec<Measured>>,
        left_out: Vec<LeftOut>,
    ) -> Self {
        let took_part = |kind: &Kind| rounds.iter().flatten().any(|measured| measured.kind == *kind);
        let contestants: Vec<Kind> = kinds.iter().copied().filter(took_part).collect();
        let mut metrics = Vec::new();
        for column in columns(scenario) {
            let added = column.compared == Compared::Added;
            metrics.push(metric(column, &contestants, &rounds, column.name.to_owned(), |value, round| {
                if added { Some(value - of(round, Kind::Direct, column)?) } else { Some(value) }
            }));
            if column.compared == Compared::Ratios {
                for base in BASES.into_iter().filter(|kind| contestants.contains(kind)) {
                    let name = format!("/ {}", base.name());
                    let mut ratios = metric(column, &contestants, &rounds, name, |value, round| {
                        of(round, base, column).filter(|base| *base > 0.0).map(|base| value / base)
                    });
                    ratios.digits = 2;
                    metrics.push(ratios);
                }
            }
        }
        let sum = |count: fn(&Measured) -> u64| {
            contestants
                .iter()
                .map(|kind| rounds.iter().flatten().filter(|turn| turn.kind == *kind).map(count).sum())
                .collect()
        };
        Self {
            scenario,
            failed: sum(Measured::failed),
            unsent: sum(|measured| measured.unsent),
            contestants,
            metrics,
            left_out,
            rounds,
        }
    }

    /// The table as text, its head first.
    fn rows(&self) -> Vec<Vec<String>> {
        let mut head = vec![String::new()];
        head.extend(self.metrics.iter().map(|metric| metric.name.clone()));
        head.extend(["failed".to_owned(), "never sent".to_owned()]);
        let mut rows = vec![head];
        for (index, kind) in self.contestants.iter().enumerate() {
            let mut row = vec![kind.name().to_owned()];
            row.extend(self.metrics.iter().map(|metric| {
                metric.values[index].map_or_else(|| "–".to_owned(), |spread| spread.text(metric.digits))
            }));
            row.extend([self.failed[index].to_string(), self.unsent[index].to_string()]);
            rows.push(row);
        }
        rows
    }
}

fn of(round: &[Measured], kind: Kind, column: &Column) -> Option<f64> {
    let measured = round.iter().find(|measured| measured.kind == kind)?;
    measured.values.get(&column.quantity).copied()
}

fn metric(
    column: &Column,
    contestants: &[Kind],
    rounds: &[Vec<Measured>],
    name: String,
    relate: impl Fn(f64, &[Measured]) -> Option<f64>,
) -> Metric {
    let values = contestants
        .iter()
        .map(|kind| {
            let values = rounds.iter().filter_map(|round| relate(of(round, *kind, column)?, round)).collect();
            Spread::of(values)
        })
        .collect();
    Metric { name, values, digits: column.digits }
}

/// As a table in Markdown, its columns aligned; below it what went wrong.
impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}, rounds: {}, median [min–max]\n", self.scenario, self.rounds.len())?;
        let rows = self.rows();
        let widths: Vec<usize> = (0..rows[0].len())
            .map(|index| rows.iter().map(|row| row[index].chars().count()).max().unwrap_or(0).max(3))
            .collect();
        for (number, row) in rows.iter().enumerate() {
            for (cell, width) in row.iter().zip(&widths) {
                write!(out, "| {cell:width$} ")?;
            }
            writeln!(out, "|")?;
            if number == 0 {
                for width in &widths {
                    write!(out, "| {:-<width$} ", "")?;
                }
                writeln!(out, "|")?;
            }
        }
        writeln!(out)?;
        for (number, round) in self.rounds.iter().enumerate() {
            for measured in round {
                for (failure, count) in &measured.failures {
                    let kind = measured.kind.name();
                    writeln!(out, "round {}, {kind}: {count} failed: {failure}", number + 1)?;
                }
            }
        }
        for LeftOut { kind, reason } in &self.left_out {
            writeln!(out, "left out: {}: {reason}", kind.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::peers::measured::Quantity;

    fn measured(kind: Kind, cost: f64, p50: f64) -> Measured {
        Measured {
            kind,
            values: BTreeMap::from([(Quantity::CpuSPer100kRequests, cost), (Quantity::P50Us, p50)]),
            failures: BTreeMap::from([("status 503".to_owned(), 1)]),
            unsent: 0,
        }
    }

    #[test]
    fn spreads_are_median_and_range() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of(vec![4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn ratios_and_additions_are_taken_within_each_round() {
        let rounds = vec![
            vec![
                measured(Kind::Direct, 1.0, 100.0),
                measured(Kind::Haproxy, 2.0, 200.0),
                measured(Kind::Nginx, 3.0, 200.0),
                measured(Kind::Gateway, 1.0, 150.0),
            ],
            // One of them did not get so far.
            vec![
                measured(Kind::Direct, 1.0, 300.0),
                measured(Kind::Haproxy, 4.0, 400.0),
                measured(Kind::Gateway, 3.0, 380.0),
            ],
        ];
        let kinds = [Kind::Direct, Kind::Haproxy, Kind::Nginx, Kind::Envoy, Kind::Gateway];
        let left_out = vec![LeftOut { kind: Kind::Nginx, reason: "it ended".to_owned() }];
        let summary = Summary::new(Scenario::Json, &kinds, rounds, left_out);
        assert_eq!(summary.contestants, [Kind::Direct, Kind::Haproxy, Kind::Nginx, Kind::Gateway]);
        let find = |name: &str| summary.metrics.iter().find(|metric| metric.name == name).unwrap();
        let ratios = &find("/ haproxy").values;
        assert_eq!(ratios[3], Some(Spread { median: 0.625, min: 0.5, max: 0.75 }));
        assert_eq!(ratios[2], Some(Spread { median: 1.5, min: 1.5, max: 1.5 }));
        assert_eq!(find("added p50 µs").values[3], Some(Spread { median: 65.0, min: 50.0, max: 80.0 }));
        assert_eq!(find("added p99 µs").values[3], None);
        assert_eq!(summary.failed, [2, 2, 1, 2]);
        assert!(summary.metrics.iter().all(|metric| metric.name != "/ relay"));
        let text = summary.to_string();
        assert!(text.contains("\n| gateway | 2.00 [1.00–3.00] "), "{text}");
        assert!(
            text.contains("\nround 2, gateway: 1 failed: status 503\nleft out: nginx: it ended\n"),
            "{text}"
        );
    }
}
