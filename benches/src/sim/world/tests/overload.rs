//! The ways in which gateways save looking at waiters change nothing but time.

use super::{shown, world};
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

#[test]
fn shortcuts_change_nothing() {
    for reports in ["{ heartbeat_ms = 500, hand_over = true }", "{ on_change_ms = 10 }"] {
        for policy in ["recommended", "published", "timed-widening", "wait-and-widen", "instant-walk"] {
            let point = overloaded(policy, reports);
            for seed in 1..=2 {
                let (with, without) = (outcome(&point, seed, true), outcome(&point, seed, false));
                assert!(with.rejected_per_s > 1.0, "{policy} is not overloaded: {}", with.rejected_per_s);
                assert_eq!(shown(&with), shown(&without), "{policy} with {reports}");
            }
        }
    }
}
