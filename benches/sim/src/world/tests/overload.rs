//! The ways in which gateways save looking at waiters change what a run takes, and not what it comes to.

use super::world;
use crate::{
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

const SEEDS: u64 = 4;

/// Goodput, rejections and reuse, summed over seeds.
fn sums(point: &Point, takes_shortcuts: bool) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for seed in 1..=SEEDS {
        let Outcome { goodput_per_s, rejected_per_s, token_reuse, .. } =
            outcome(point, seed, takes_shortcuts);
        for (sum, figure) in sums.iter_mut().zip([goodput_per_s, rejected_per_s, token_reuse]) {
            *sum += figure;
        }
    }
    sums
}

/// Whoever waits in vain leaves a little later with them, and an overload remembers: runs are not the same event by event,
/// but they come to the same where the fleet does not collapse.
#[test]
fn shortcuts_change_no_figure_by_more_than_noise() {
    let point = overloaded("recommended", "{ heartbeat_ms = 500, hand_over = true }");
    let (with, without) = (sums(&point, true), sums(&point, false));
    for (with, without) in with.into_iter().zip(without) {
        assert!((with - without).abs() <= 0.05 * without, "{with} with shortcuts, {without} without");
    }
}
