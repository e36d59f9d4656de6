//! Outcomes that were made up, so that tests know every number.

use std::{collections::BTreeMap, time::Duration};

use super::{
    super::outcome::{Outcome, Quantiles, Second},
    Axis, Chapter, Finding, PlotReference, PlotSpec, Report, Verdict,
};

/// Seconds of a synthetic run.
const SECONDS: u32 = 60;

/// Of the scenario `small`, whose only axis is the load.
pub(super) fn outcome(load: &str, policy: &str, seed: u64, goodput_per_s: f64) -> Outcome {
    let second = |index: u32| Second {
        offered: 100,
        good: (goodput_per_s as u32 + index % 3).min(100),
        rejected: 1,
        prompt_tokens: 1000,
        cached_tokens: 750,
        waiting: index,
    };
    Outcome {
        scenario: "small".to_owned(),
        point: BTreeMap::from([("load".to_owned(), load.to_owned())]),
        policy: policy.to_owned(),
        seed,
        offered_per_s: 120.0,
        completed_per_s: goodput_per_s,
        goodput_per_s,
        bound_per_s: 100.0,
        rejected_per_s: 1.0,
        timed_out_per_s: 0.0,
        ttft_ms: Quantiles { p50: 100.0, p90: 400.0, p99: 1000.0 + goodput_per_s, mean: 150.0 },
        e2e_ms: Quantiles { p50: 1000.0, p90: 2000.0, p99: 4000.0, mean: 1200.0 },
        token_reuse: 0.75,
        overflow_share: 0.05,
        attempts_per_request: 1.25,
        fairness: 0.987,
        misrouted_share: 0.01,
        queued_share: 0.2,
        busy_share: 0.9,
        seconds: (0..SECONDS).map(second).collect(),
        cpu_time: Duration::ZERO,
    }
}

pub(super) fn axes() -> Vec<Axis> {
    vec![Axis { name: "load".to_owned(), values: ["0.8", "1.3", "1.6"].map(str::to_owned).to_vec() }]
}

pub(super) fn policies() -> Vec<String> {
    ["a", "b"].map(str::to_owned).to_vec()
}

pub(super) fn plot(toml: &str) -> PlotSpec {
    toml::from_str(toml).expect("a plot")
}

/// Two policies at three loads with two seeds.
pub(super) fn chapter() -> Chapter {
    let mut outcomes = Vec::new();
    for (load, goodput) in [("0.8", 80.0), ("1.3", 95.0), ("1.6", 60.0)] {
        for seed in [1, 2] {
            outcomes.push(outcome(load, "a", seed, goodput + seed as f64));
            outcomes.push(outcome(load, "b", seed, goodput / 2.0));
        }
    }
    Chapter {
        name: "small".to_owned(),
        title: "A small one".to_owned(),
        description: "Two policies & three loads.\n\nWith `code` in <brackets>.".to_owned(),
        axes: axes(),
        policies: policies(),
        plots: vec![
            plot("title = 'Goodput'\nx = 'load'\ny = 'goodput'"),
            plot("title = 'Overload'\nx = 'time'\ny = 'goodput'\nwhere = { load = 1.3 }"),
        ],
        outcomes,
    }
}

pub(super) fn report() -> Report {
    let finding = Finding {
        id: "1a".to_owned(),
        claim: "Goodput <holds> with `max_queued`.".to_owned(),
        verdict: Verdict::Partly,
        evidence: "96.5 of 100 at 1.3".to_owned(),
        reason: "Queues & caches.".to_owned(),
        plots: vec![PlotReference { scenario: "small".to_owned(), title: "Goodput".to_owned() }],
    };
    Report {
        date: Some("2026-11-30".to_owned()),
        findings: vec![finding],
        chapters: vec![chapter()],
        peers: None,
    }
}
