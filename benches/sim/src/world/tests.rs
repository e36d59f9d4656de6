//! Runs of a few requests as worked out by hand, and what holds for all runs.

mod overload;

use std::{fs, time::Duration};

use super::{World, run};
use crate::{
    bound::Bound,
    outcome::Outcome,
    scenario::Point,
    testing::{Changes, small},
};

/// Runs a point's first policy.
fn outcome(point: &Point, seed: u64) -> Outcome {
    let (_, policy) = &point.policies[0];
    let named = super::Run { scenario: "test", policy: "test", point: &point.labels, seed };
    let bound = Bound::of(&point.scenario).expect("a bound");
    run(named, &point.scenario, policy, &bound).expect("an outcome")
}

/// Runs a point's first policy to its end, with all that is left of it. Of `change` the world is told before it begins.
fn world<'a>(point: &'a Point, seed: u64, change: impl FnOnce(&mut World<'a>)) -> World<'a> {
    let bound = Bound::of(&point.scenario).expect("a bound");
    let mut world = World::new(&point.scenario, &point.policies[0].1, &bound, seed).expect("a world");
    change(&mut world);
    let end = world.tally.end();
    while let Some(event) = world.events.next(end) {
        world.handle(event);
    }
    world
}

/// The small scenario, whose requests come as a trace says.
fn traced<T>(trace: &str, changes: &Changes<'_>, test: impl FnOnce(Point) -> T) -> T {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.csv");
    fs::write(&path, trace).expect("a file");
    let arrivals = format!("{{ trace = '{}' }}", path.display());
    let mut all = vec![("clients.arrivals", arrivals.as_str())];
    all.extend_from_slice(changes);
    test(small(&all))
}

fn near(found: f64, wanted: f64) {
    assert!((found - wanted).abs() <= 0.002 * wanted, "{found}, not {wanted}");
}

#[test]
fn three_requests_take_the_time_that_they_must() {
    // 50 ms there and back each, 100 ms of prefill one after the other, 100 ms of decode, two slots.
    // 1: 50, prefill to 150, token back at 200, ended at 250, answer at 300.
    // 2: 60, prefill to 250, token back at 300, ended at 350, answer at 400.
    // 3: 70, slot and prefill from 250 to 350, token back at 400, ended at 450, answer at 500.
    let changes = [("clusters.0.region", "'there'"), ("engines.plain.slots", "2"), ("clients.slo_ms", "300")];
    let found = traced("0,1,100,11\n0.01,2,100,11\n0.02,3,100,11", &changes, |point| outcome(&point, 1));
    near(found.ttft_ms.mean, (200.0 + 290.0 + 380.0) / 3.0);
    near(found.ttft_ms.p50, 290.0);
    near(found.ttft_ms.p99, 380.0);
    near(found.e2e_ms.mean, (300.0 + 390.0 + 480.0) / 3.0);
    assert_eq!((found.seconds[0].offered, found.seconds[0].good), (3, 2));
    near(found.completed_per_s, 0.3);
    near(found.goodput_per_s, 0.2);
    near(found.queued_share, 1.0 / 3.0);
    assert!(found.misrouted_share == 0.0 && found.token_reuse == 0.0, "one engine, and no shared prompt");
    // 0.2 + 0.29 + 0.2 s of two slots for 10 s.
    near(found.busy_share, 0.69 / 20.0);
}

#[test]
fn a_session_finds_its_prefix_again() {
    // The second prompt has 80 of 100 tokens in the cache, whose blocks are of 16: prefill takes 20 ms.
    let changes = [("clients.shared", "0.8")];
    let found = traced("0,1,100,1\n1,1,100,1", &changes, |point| outcome(&point, 1));
    near(found.token_reuse, 0.4);
    near(found.ttft_ms.p50, 20.0);
    near(found.ttft_ms.p99, 100.0);
}

#[test]
fn clients_that_leave_take_their_work_out_of_the_engine() {
    // A second each, one after the other, and all leave after 2.5 s.
    let trace = "0,1,1000,1\n".repeat(10);
    traced(&trace, &[], |point| {
        let world = world(&point, 1, |_| {});
        let state = world.engines[0].state();
        assert_eq!((state.running, state.queued, state.queued_tokens), (0, 0, 0));
        assert_eq!((world.requests.len(), world.attempts.iter().count()), (0, 0));
        let found = outcome(&point, 1);
        near(found.completed_per_s, 0.2);
        near(found.goodput_per_s, 0.1);
        near(found.timed_out_per_s, 0.8);
        near(found.busy_share, 0.25);
    });
}

#[test]
fn a_refused_client_tries_again_a_second_later() {
    // The engine joins at 4.5 s, and is known 50 ms later. Tries at 0, 1, 2; at 2.9, 3.9 and 4.9, where it is found.
    let changes = [("clients.retries", "2"), ("clusters.0.from_s", "4.5"), ("clients.timeout_ms", "9000")];
    let found = traced("0,1,1000,1\n2.9,2,1000,1", &changes, |point| outcome(&point, 1));
    near(found.rejected_per_s, 0.5);
    near(found.completed_per_s, 0.1);
    // From the first try on.
    near(found.ttft_ms.p50, 3000.0);
}

#[test]
fn workers_ask_again_when_they_have_their_answer() {
    let workers = ("clients.arrivals", "{ workers = 2 }");
    let found = outcome(&small(&[workers]), 1);
    // One prefill after the other; at 10 s ten are answered.
    near(found.completed_per_s, 1.0);
    near(found.offered_per_s, 1.2);
    near(found.ttft_ms.p99, 2000.0);
}

#[test]
fn what_a_dying_cluster_had_goes_elsewhere() {
    let changes = [
        (
            "clusters",
            "[{ engine = 'plain', region = 'here', count = 2 }, { engine = 'plain', region = 'there', count = 2, until_s = 4.05 }]",
        ),
        ("engines.plain.slots", "9"),
        ("engines.plain.prefill_tps", "10_000"),
        ("clients.arrivals.rate", "8"),
        ("clients.timeout_ms", "60_000"),
    ];
    let point = small(&changes);
    let world = world(&point, 3, |_| {});
    assert!(world.engines[2..].iter().all(|engine| engine.state().running == 0));
    let left = world.requests.len() as f64;
    let found = outcome(&point, 3);
    near(10.0 * found.completed_per_s + left, 10.0 * found.offered_per_s);
    assert!(
        found.rejected_per_s == 0.0 && found.attempts_per_request > 1.0,
        "{}",
        found.attempts_per_request
    );
}

#[test]
fn a_report_tells_the_speed_that_an_engine_has() {
    let point = small(&[("clusters.0.speeds", "[{ from_s = 5, speed = 0.25 }]")]);
    let world = world(&point, 1, |_| {});
    let (_, report) = world.pylons[0].latest_after(0, |_| true).expect("a report");
    assert!(report.at > Duration::from_secs(8));
    near(report.input_tps, 250.0);
}

#[test]
fn every_request_ends_once_and_a_seed_is_one_run() {
    for seed in 1..=5 {
        let point = small(&[("clients.arrivals.rate", "3"), ("policies", "['recommended']")]);
        let left = world(&point, seed, |_| {}).requests.len() as f64;
        let found = outcome(&point, seed);
        let ended = found.completed_per_s + found.rejected_per_s + found.timed_out_per_s;
        near(10.0 * ended + left, 10.0 * found.offered_per_s);
        assert_eq!(shown(&found), shown(&outcome(&point, seed)));
    }
    let point = small(&[]);
    assert_ne!(shown(&outcome(&point, 1)), shown(&outcome(&point, 2)));
}

/// All that an outcome says.
fn shown(outcome: &Outcome) -> String {
    serde_json::to_string(outcome).expect("JSON")
}
