//! The ways in which gateways save looking at waiters change what a run takes, and not what it comes to.

use super::world;
use crate::sim::{
    outcome::Outcome,
    scenario::Point,
    testing::{Changes, small},
};

/// Four engines near and far at 1.5 times what they do, with prefixes that three gateways keep apart.
fn overloaded(policy: &str, reports: &str) -> Point {
    let policies = format!("['{policy}']");
    let changes: &Changes<'_> = &[
        ("policies", &policies),
        ("reports", reports),
        ("measured_s", "20"),
        ("gateways.per_region", "3"),
        ("engines.plain.slots", "4"),
        ("engines.plain.prefill_tps", "20_000"),
        (
            "clusters",
            "[{ engine = 'plain', region = 'here', count = 2 }, { engine = 'plain', region = 'there', count = 2 }]",
        ),
        ("clients.sessions", "40"),
        ("clients.shared", "0.9"),
        ("clients.output_tokens", "20"),
        ("clients.timeout_ms", "20_000"),
        ("clients.slo_ms", "3000"),
        ("clients.arrivals.rate", "120"),
    ];
    small(changes)
}

fn outcome(point: &Point, seed: u64, takes_shortcuts: bool) -> Outcome {
    let world = world(point, seed, |world| {
        for gateway in &mut world.gateways {
            gateway.takes_shortcuts = takes_shortcuts;
        }
    });
    let ended = ("overloaded", "test", seed);
    world.tally.into_outcome(ended, point.labels.clone(), 1.0, 16, std::time::Duration::ZERO)
}

/// Whoever waits in vain leaves a little later with them, and an overload remembers: runs are not the same event by event,
/// but they come to the same where the fleet does not collapse.
#[test]
fn shortcuts_change_no_figure_by_more_than_noise() {
    const SEEDS: u64 = 4;
    let point = overloaded("recommended", "{ heartbeat_ms = 500, hand_over = true }");
    let figures: [(&str, fn(&Outcome) -> f64); 3] = [
        ("goodput", |outcome| outcome.goodput_per_s),
        ("rejected", |outcome| outcome.rejected_per_s),
        ("reuse", |outcome| outcome.token_reuse),
    ];
    for (name, figure) in figures {
        let mean = |takes_shortcuts: bool| {
            (1..=SEEDS).map(|seed| figure(&outcome(&point, seed, takes_shortcuts))).sum::<f64>()
                / SEEDS as f64
        };
        let (with, without) = (mean(true), mean(false));
        let is_near = (with - without).abs() <= 0.05 * without;
        assert!(is_near, "{name}: {with} with shortcuts, {without} without");
    }
}
