use proptest::{option::of as some, prelude::*};
use serde_json::json;

use super::*;

fn stats(json: serde_json::Value) -> ModelStats {
    serde_json::from_value(json).unwrap()
}

fn member(stats: &ModelStats, report: u64, input_tps: f64, rtt: Option<u64>) -> Member<'_> {
    Member { stats, report, input_tps, rtt: rtt.map(Nanos) }
}

#[test]
fn nothing_makes_nothing() {
    assert_eq!(aggregate(&[]), ClusterStats::default());
}

#[test]
fn each_stat_is_aggregated_by_its_own_rule() {
    let first = stats(json!({
        "max_input_tps": 100, "output_tps": 5, "max_output_tps": 50, "queue_size": 1,
        "queued_input_size": 10, "input_processing_queries": 2, "output_generation_queries": 3,
        "num_running_queries": 4, "max_engine_concurrency": 8, "total_query_input_size": 30,
        "queue_time_estimate_ms_by_priority": { "0": 12.5, "10": 1 },
        "kv_cache_capacity_tokens": 1000, "kv_cache_used_tokens": 400, "kv_cache_free_tokens": 600
    }));
    let second = stats(json!({
        "max_input_tps": 200, "output_tps": 7, "max_output_tps": 70, "queue_size": 2,
        "queued_input_size": 20, "input_processing_queries": 4, "output_generation_queries": 6,
        "num_running_queries": 5, "max_engine_concurrency": 16, "total_query_input_size": 60,
        "kv_cache_free_tokens": 700
    }));
    let cluster = aggregate(&[member(&first, 2, 90.0, Some(100)), member(&second, 1, 180.0, Some(301))]);
    let expected = ClusterStats {
        last_mean_input_tps: TokensPerSecond(270.0),
        max_input_tps: Some(TokensPerSecond(300.0)),
        output_tps: TokensPerSecond(12.0),
        max_output_tps: TokensPerSecond(50.0),
        queue_size: 3,
        queued_input: Tokens(30),
        input_processing_queries: 6,
        output_generation_queries: 9,
        num_running_queries: 4,
        max_engine_concurrency: 8,
        total_query_input: Tokens(30),
        queue_time_estimates: [(0, Nanos(12_500_000)), (10, Nanos(1_000_000))].into(),
        kv_capacity: Some(Tokens(1000)),
        kv_used: Some(Tokens(400)),
        kv_free: Some(Tokens(600)),
        rtt: Nanos(200),
        accounting: stargate_routing::Accounting::InFlight,
        room_share: RoomShare::default(),
    };
    assert_eq!(cluster, expected);
    // The second's report becomes the latest: what it has wins, what it lacks stays the first's.
    let cluster = aggregate(&[member(&first, 2, 90.0, None), member(&second, 3, 180.0, None)]);
    assert_eq!(cluster.num_running_queries, 5);
    assert_eq!(cluster.kv_free, Some(Tokens(700)));
    assert_eq!(cluster.kv_used, Some(Tokens(400)));
    assert_eq!(cluster.rtt, Nanos(0));
}

#[test]
fn max_input_tps_is_all_or_none() {
    let (some, none, zero) =
        (stats(json!({ "max_input_tps": 5 })), stats(json!({})), stats(json!({ "max_input_tps": 0 })));
    let of = |stats: &[&ModelStats]| {
        let members: Vec<_> = stats.iter().map(|stats| member(stats, 1, 1.0, None)).collect();
        aggregate(&members).max_input_tps
    };
    assert_eq!(of(&[&some, &some]), Some(TokensPerSecond(10.0)));
    assert_eq!(of(&[&some, &none]), None);
    assert_eq!(of(&[&some, &zero]), None);
}

#[test]
fn a_latest_report_of_no_slots_withdraws_them() {
    let (before, after) =
        (stats(json!({ "max_engine_concurrency": 8 })), stats(json!({ "max_engine_concurrency": 0 })));
    let cluster = aggregate(&[member(&before, 1, 1.0, None), member(&after, 2, 1.0, None)]);
    assert_eq!(cluster.max_engine_concurrency, 0);
}

#[test]
fn reservations_count_only_where_every_member_follows() {
    let hands_over = stats(json!({ "attempts": {} }));
    let change_driven = stats(json!({ "stats_capabilities": ["change-driven"] }));
    let polled = stats(json!({ "stats_capabilities": ["else"] }));
    for (members, expected) in [
        (vec![&hands_over], Accounting::Reservations),
        (vec![&change_driven], Accounting::Reservations),
        (vec![&hands_over, &change_driven], Accounting::Reservations),
        (vec![&polled], Accounting::InFlight),
        (vec![&hands_over, &change_driven, &polled], Accounting::InFlight),
    ] {
        let members: Vec<_> = members.into_iter().map(|stats| member(stats, 1, 1.0, None)).collect();
        assert_eq!(aggregate(&members).accounting, expected);
    }
}

fn any_member() -> impl Strategy<Value = (ModelStats, u32, Option<u64>)> {
    (
        some(0u64..1000),
        some(0u64..1000),
        some(0u32..1000),
        some(0u64..1000),
        1u32..1000,
        some(0u64..1_000_000),
    )
        .prop_map(|(queue, running, max_tps, kv, tps, rtt)| {
            let stats = stats(json!({
                "queue_size": queue, "num_running_queries": running, "max_input_tps": max_tps,
                "kv_cache_free_tokens": kv
            }));
            (stats, tps, rtt)
        })
}

proptest! {
    #[test]
    fn order_never_matters_and_every_value_comes_from_a_member(
        members in proptest::collection::vec(any_member(), 1..8)
    ) {
        let views: Vec<Member<'_>> = members
            .iter()
            .enumerate()
            .map(|(position, (stats, tps, rtt))| member(stats, position as u64, f64::from(*tps), *rtt))
            .collect();
        let forward = aggregate(&views);
        let backward: Vec<Member<'_>> = views.iter().rev().copied().collect();
        prop_assert_eq!(&forward, &aggregate(&backward));

        let queue: u64 = members.iter().filter_map(|(stats, ..)| stats.queue_size).map(Requests::get).sum();
        prop_assert_eq!(forward.queue_size, queue);
        let running = members.iter().rev().find_map(|(stats, ..)| stats.num_running_queries);
        prop_assert_eq!(forward.num_running_queries, running.map_or(0, Requests::get));
        let all_report = members.iter().all(|(stats, ..)| stats.max_input_tps.is_some_and(|tps| tps.get() > 0.0));
        prop_assert_eq!(forward.max_input_tps.is_some(), all_report);
        let rtts: Vec<u64> = members.iter().filter_map(|(.., rtt)| *rtt).collect();
        let within = rtts.iter().min().copied().unwrap_or(0)..=rtts.iter().max().copied().unwrap_or(0);
        prop_assert!(within.contains(&forward.rtt.0));
    }
}
