#![allow(clippy::float_cmp, reason = "shares of powers of two, and draws that are the same ones or are not")]

use serde_json::{Value, json};
use stargate_routing::{Counted, Tokens};

use super::*;
use crate::publish::tests::{Fixture, body, cluster};

const OURS: &str = "00000001";
const OTHER: &str = "00000002";

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Of an engine that reports every change.
fn running(count: u64) -> Value {
    json!({ "num_running_queries": count, "max_engine_concurrency": 8, "stats_capabilities": ["change-driven"] })
}

/// Of an engine that is polled.
fn polled(count: u64) -> Value {
    json!({ "num_running_queries": count, "max_engine_concurrency": 8 })
}

/// Of an engine that says whose attempts its stats include.
fn handed_over(count: u64, gateways: &[&str]) -> Value {
    let attempts: serde_json::Map<String, Value> =
        gateways.iter().map(|gateway| ((*gateway).to_owned(), json!({ "0": { "through": 9 } }))).collect();
    json!({ "num_running_queries": count, "max_engine_concurrency": 8, "attempts": attempts })
}

/// Two clusters, a and b.
fn fleet() -> Fixture {
    let mut fixture = Fixture::new("");
    fixture.register("a", body(1, "a"));
    fixture.register("b", body(2, "b"));
    fixture
}

fn published(fixture: &mut Fixture, id: &str) -> RoomShare {
    cluster(&fixture.publish(), id).stats.room_share
}

fn enter(fixture: &mut Fixture, id: &str, count: usize) -> Vec<Counted> {
    let snapshot = fixture.publish();
    (0..count).map(|_| cluster(&snapshot, id).load.enter(Tokens(1))).collect()
}

#[test]
fn the_share_is_what_this_gateway_has_in_flight_of_all_that_runs() {
    let mut fixture = fleet();
    let _ours = (enter(&mut fixture, "a", 1), enter(&mut fixture, "b", 2));
    fixture.report("a", &running(4));
    fixture.report("b", &running(8));
    for id in ["a", "b"] {
        assert_eq!(published(&mut fixture, id).share, 0.25);
    }
    fixture.report("b", &running(2));
    assert_eq!(published(&mut fixture, "a").share, 0.5);
}

#[test]
fn the_share_is_above_0_and_at_most_all() {
    let mut fixture = fleet();
    fixture.report("a", &running(8));
    assert_eq!(published(&mut fixture, "a").share, 0.125, "as if one of its own ran");
    let _ours = enter(&mut fixture, "a", 9);
    fixture.report("a", &running(7));
    assert_eq!(published(&mut fixture, "a"), RoomShare::default());
    fixture.report("a", &running(0));
    assert_eq!(published(&mut fixture, "a"), RoomShare::default(), "nothing runs");
}

#[test]
fn only_clusters_whose_stats_follow_count_and_share() {
    let mut fixture = fleet();
    let _ours = (enter(&mut fixture, "a", 1), enter(&mut fixture, "b", 7));
    fixture.report("a", &running(4));
    fixture.report("b", &polled(8));
    assert_eq!(published(&mut fixture, "a").share, 0.25);
    assert_eq!(published(&mut fixture, "b"), RoomShare::default());
}

#[test]
fn a_share_is_held_against_noise() {
    let mut fixture = fleet();
    let _ours = enter(&mut fixture, "a", 10);
    for (reported, expected) in
        [(11, 1.0), (12, 10.0 / 12.0), (11, 10.0 / 12.0), (13, 10.0 / 12.0), (20, 0.5)]
    {
        fixture.report("a", &running(reported));
        assert_eq!(published(&mut fixture, "a").share, expected, "{reported} running");
    }
}

#[test]
fn a_gateway_that_no_report_names_another_beside_has_all_of_it() {
    let mut fixture = fleet();
    fixture.publisher.set_gateway(OURS.parse().unwrap());
    for (gateways, expected) in
        [(&[OURS][..], 1.0), (&[][..], 1.0), (&[OTHER, OURS][..], 0.125), (&[OTHER][..], 0.125)]
    {
        fixture.report("b", &handed_over(0, &[OURS]));
        fixture.report("a", &handed_over(8, gateways));
        assert_eq!(published(&mut fixture, "a").share, expected, "{gateways:?}");
    }
    // One that does not say may run anybody's.
    fixture.report("a", &running(8));
    assert_eq!(published(&mut fixture, "a").share, 0.125);
}

#[tokio::test(start_paused = true)]
async fn a_draw_is_held_until_a_report_comes_that_what_was_sent_after_it_can_be_in() {
    let (mut draw, mut rng) = (HeldDraw::default(), fastrand::Rng::with_seed(1));
    let start = Instant::now();
    let mut drawn = |report, at| {
        draw.follow(report, ms(20), start + at, &mut rng);
        draw.of(0.5).draw
    };
    let first = drawn(1, ms(0));
    assert!((0.0..1.0).contains(&first));
    assert_eq!(drawn(1, ms(50)), first, "no report has come");
    let second = drawn(2, ms(50));
    assert_ne!(second, first);
    assert_eq!(drawn(3, ms(69)), second, "too early to show what was sent since");
    assert_eq!(drawn(3, ms(90)), second, "that report still");
    assert_ne!(drawn(4, ms(90)), second);
}

#[test]
fn the_draw_of_a_cluster_changes_with_its_own_reports_alone() {
    let mut fixture = fleet();
    fixture.report("a", &running(4));
    fixture.report("b", &running(4));
    let before = (published(&mut fixture, "a"), published(&mut fixture, "b"));
    assert_eq!((before.0.share, before.1.share), (0.125, 0.125));
    assert_ne!(before.0.draw, before.1.draw);
    // The same stats again are news: nobody has taken the place that they show.
    let version = fixture.publish().version;
    fixture.report("a", &running(4));
    let after = (published(&mut fixture, "a"), published(&mut fixture, "b"));
    assert_ne!(after.0.draw, before.0.draw);
    assert_eq!(after.1, before.1);
    assert_eq!(fixture.publish().version, version + 1);
    fixture.register("a", body(1, "a"));
    assert_eq!(published(&mut fixture, "a"), after.0, "a renewal is no report");
}
