//! What engines do at best and at worst, as can be worked out by hand.

use super::Bound;
use crate::{
    catalogue,
    testing::{Changes, point, small},
};

/// Requests a second of the fleet, from warm and from cold caches.
fn per_s(point: &crate::scenario::Point) -> (f64, f64) {
    let bound = Bound::of(&point.scenario).expect("a bound");
    (bound.warm_per_s(&point.scenario), bound.cold_per_s(&point.scenario))
}

fn assert_near((warm, cold): (f64, f64), (wanted_warm, wanted_cold): (f64, f64)) {
    let is_near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.01;
    assert!(is_near(warm, wanted_warm) && is_near(cold, wanted_cold), "{warm} {cold}");
}

#[test]
fn the_five_regions_engines_do_12_and_a_half_from_warm_caches_and_10_from_cold_ones() {
    let text = catalogue::text("five-regions").expect("a scenario");
    // Cold: a prefill of 0.1 s. Warm: 25 slots for 0.004 + 255 / 128.6 = 1.987 s each.
    assert_near(per_s(&point(&text, &[])), (20.0 * 12.58, 20.0 * 10.0));
}

#[test]
fn the_fleet_counts_with_its_speeds_and_times() {
    let shared = ("clients.shared", "0.8");
    let fleet = |changes: &Changes<'_>| per_s(&small(changes));
    // A prefill of a fifth of a second, or of a whole one.
    assert_near(fleet(&[shared]), (5.0, 1.0));
    assert_near(fleet(&[shared, ("clusters.0.count", "3"), ("clusters.0.speed", "0.5")]), (7.5, 1.5));
    // There for 6 of 10 s.
    assert_near(fleet(&[shared, ("clusters.0.from_s", "2"), ("clusters.0.until_s", "8")]), (3.0, 0.6));
    // 3 s at 1 and 5 s at 0.5.
    let speeds = ("clusters.0.speeds", "[{ from_s = 3, speed = 0.5 }]");
    assert_near(fleet(&[shared, ("clusters.0.until_s", "8"), speeds]), (2.75, 0.55));
    // Counted is the second half only.
    let half = [("warmup_s", "10"), ("clusters.0.until_s", "15"), shared];
    assert_near(fleet(&half), (2.5, 0.5));
}

#[test]
fn requests_that_share_nothing_are_never_warm() {
    let distinct = [("clients.shared", "0.75"), ("clients.popularity", "'distinct'")];
    assert_near(per_s(&small(&distinct)), (1.0, 1.0));
}
