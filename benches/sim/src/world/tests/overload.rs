//! What gateways tell of waiters without deciding them changes what a run takes, and not what it comes to.

use std::time::Duration;

use super::world;
use crate::{
    gateway::Gateway,
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

/// All that a run comes to.
fn outcome(point: &Point, seed: u64, has_foresight: bool) -> String {
    let world = world(point, seed, |world| {
        if !has_foresight {
            world.gateways.iter_mut().for_each(Gateway::decide_without_foresight);
        }
    });
    let ended = ("overloaded", "test", seed);
    format!("{:?}", world.tally.into_outcome(ended, point.labels.clone(), 1.0, 16, Duration::ZERO))
}

#[test]
fn what_is_told_of_waiters_without_deciding_them_changes_nothing() {
    for reports in [
        "{ heartbeat_ms = 500, hand_over = true }",
        "{ heartbeat_ms = 500 }",
        "{ on_change_ms = 10, heartbeat_ms = 1000 }",
    ] {
        for policy in ["recommended", "published"] {
            let point = overloaded(policy, reports);
            let (with, without) = (outcome(&point, 1, true), outcome(&point, 1, false));
            assert_eq!(with, without, "{policy}, {reports}");
        }
    }
}
