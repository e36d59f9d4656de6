//! Medians over rounds, and ratios pair by pair: a round's disturbance meets both sides of a ratio.

use std::fmt;

use serde::Serialize;

use super::{
    contestant::Kind,
    rounds::{Measured, Scenario},
};

/// One metric of a table.
#[derive(Clone, Copy)]
struct Metric {
    name: &'static str,
    digits: usize,
    value: fn(&Measured) -> Option<f64>,
    compared: Compared,
}

/// How a metric is set against others'.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// On its own.
    Plain,
    /// What it adds to the direct way of the same round.
    Added,
    /// Its ratio to the relay's, to `HAProxy`'s and to the other gateway's in the same round, too.
    Ratios,
}

const JSON_METRICS: &[Metric] = &[
    Metric {
        name: "CPU-s / 100k requests",
        digits: 2,
        value: |measured| measured.cpu_s_per_100k_requests,
        compared: Compared::Ratios,
    },
    Metric {
        name: "requests/s",
        digits: 0,
        value: |measured| measured.requests_per_s,
        compared: Compared::Plain,
    },
    Metric {
        name: "requests/s a core",
        digits: 0,
        value: |measured| measured.cpu_s_per_100k_requests.filter(|cost| *cost > 0.0).map(|cost| 1e5 / cost),
        compared: Compared::Plain,
    },
    Metric {
        name: "CPU-s / 100k at the open rate",
        digits: 2,
        value: |measured| measured.cpu_s_per_100k_requests_open,
        compared: Compared::Ratios,
    },
    Metric { name: "p50 µs", digits: 0, value: |measured| measured.p50_us, compared: Compared::Plain },
    Metric { name: "added p50 µs", digits: 0, value: |measured| measured.p50_us, compared: Compared::Added },
    Metric { name: "added p99 µs", digits: 0, value: |measured| measured.p99_us, compared: Compared::Added },
    RSS,
];

const SSE_METRICS: &[Metric] = &[
    Metric {
        name: "CPU-s / 100k SSE chunks",
        digits: 2,
        value: |measured| measured.cpu_s_per_100k_chunks,
        compared: Compared::Ratios,
    },
    Metric {
        name: "chunks/s",
        digits: 0,
        value: |measured| measured.chunks_per_s,
        compared: Compared::Plain,
    },
    Metric {
        name: "chunk gap p99 µs",
        digits: 0,
        value: |measured| measured.chunk_gap_p99_us,
        compared: Compared::Plain,
    },
    RSS,
];

const RSS: Metric =
    Metric { name: "RSS KB", digits: 0, value: |measured| Some(measured.rss_kb), compared: Compared::Plain };

/// Median and range over rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// One line of a table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) metric: String,
    /// One value for each contestant, in the order of the rounds.
    pub(crate) values: Vec<Option<Spread>>,
    #[serde(skip)]
    digits: usize,
}

/// A scenario's table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) scenario: Scenario,
    pub(crate) contestants: Vec<Kind>,
    pub(crate) failed: Vec<u64>,
    pub(crate) unsent: Vec<u64>,
    pub(crate) lines: Vec<Line>,
    pub(crate) rounds: Vec<Vec<Measured>>,
}

// === impl Spread ===

impl Spread {
    /// Of the values of all rounds; `None` when there are none.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { values[middle - 1].midpoint(values[middle]) };
        Some(Self { median, min, max })
    }
}

// === impl Summary ===

impl Summary {
    /// Sums rounds up; each has the same contestants in the same order.
    pub(crate) fn new(scenario: Scenario, rounds: Vec<Vec<Measured>>) -> Self {
        let contestants: Vec<Kind> = rounds
            .first()
            .map(|round| round.iter().map(|measured| measured.kind).collect())
            .unwrap_or_default();
        let metrics = if scenario == Scenario::Json { JSON_METRICS } else { SSE_METRICS };
        let mut lines = Vec::new();
        for metric in metrics {
            let baseline = if metric.compared == Compared::Added { Some(Kind::Direct) } else { None };
            lines.push(line(metric, &contestants, &rounds, metric.name.to_owned(), |value, round| {
                match baseline {
                    Some(kind) => Some(value - of(round, kind, metric)?),
                    None => Some(value),
                }
            }));
            if metric.compared == Compared::Ratios {
                for other in [Kind::Haproxy, Kind::Relay, Kind::Other]
                    .into_iter()
                    .filter(|kind| contestants.contains(kind))
                {
                    let mut ratios = line(
                        metric,
                        &contestants,
                        &rounds,
                        format!("  / {}", other.name()),
                        |value, round| {
                            of(round, other, metric).filter(|base| *base > 0.0).map(|base| value / base)
                        },
                    );
                    ratios.digits = 2;
                    lines.push(ratios);
                }
            }
        }
        let sum = |count: fn(&Measured) -> u64| {
            (0..contestants.len())
                .map(|index| rounds.iter().map(|round| count(&round[index])).sum())
                .collect()
        };
        Self {
            scenario,
            failed: sum(|measured| measured.failed),
            unsent: sum(|measured| measured.unsent),
            contestants,
            lines,
            rounds,
        }
    }
}

fn of(round: &[Measured], kind: Kind, metric: &Metric) -> Option<f64> {
    round.iter().find(|measured| measured.kind == kind).and_then(metric.value)
}

fn line(
    metric: &Metric,
    contestants: &[Kind],
    rounds: &[Vec<Measured>],
    name: String,
    relate: impl Fn(f64, &[Measured]) -> Option<f64>,
) -> Line {
    let values = contestants
        .iter()
        .map(|kind| {
            let values = rounds.iter().filter_map(|round| relate(of(round, *kind, metric)?, round)).collect();
            Spread::of(values)
        })
        .collect();
    Line { metric: name, values, digits: metric.digits }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:?}, median [min–max] of {} rounds", self.scenario, self.rounds.len())?;
        write!(out, "{:32}", "")?;
        for kind in &self.contestants {
            let note = if *kind == Kind::Direct { "direct (engine)" } else { kind.name() };
            write!(out, "{note:>26}")?;
        }
        writeln!(out)?;
        for line in &self.lines {
            write!(out, "{:32}", line.metric)?;
            for value in &line.values {
                let text = value.map_or_else(
                    || "–".to_owned(),
                    |Spread { median, min, max }| {
                        let digits = line.digits;
                        format!("{median:.digits$} [{min:.digits$}–{max:.digits$}]")
                    },
                );
                write!(out, "{text:>26}")?;
            }
            writeln!(out)?;
        }
        for (name, counts) in [("failed", &self.failed), ("never sent", &self.unsent)] {
            write!(out, "{name:32}")?;
            for count in counts {
                write!(out, "{count:>26}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(kind: Kind, cost: f64, p50: f64) -> Measured {
        Measured {
            kind,
            failed: 1,
            unsent: 0,
            rss_kb: 1.0,
            cpu_s_per_100k_requests: Some(cost),
            requests_per_s: Some(1.0),
            cpu_s_per_100k_requests_open: None,
            p50_us: Some(p50),
            p99_us: None,
            cpu_s_per_100k_chunks: None,
            chunks_per_s: None,
            chunk_gap_p99_us: None,
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
                measured(Kind::Gateway, 1.0, 150.0),
            ],
            vec![
                measured(Kind::Direct, 1.0, 300.0),
                measured(Kind::Haproxy, 4.0, 400.0),
                measured(Kind::Gateway, 3.0, 380.0),
            ],
        ];
        let summary = Summary::new(Scenario::Json, rounds);
        let find = |name: &str| summary.lines.iter().find(|line| line.metric == name).unwrap();
        assert_eq!(find("  / haproxy").values[2], Some(Spread { median: 0.625, min: 0.5, max: 0.75 }));
        assert_eq!(find("added p50 µs").values[2], Some(Spread { median: 65.0, min: 50.0, max: 80.0 }));
        assert_eq!(find("added p99 µs").values[2], None);
        assert_eq!(summary.failed, [2, 2, 2]);
        assert!(summary.lines.iter().all(|line| line.metric != "  / relay"));
    }
}
