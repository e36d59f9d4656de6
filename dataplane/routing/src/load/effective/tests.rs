use std::sync::Arc;

use super::*;
use crate::{
    Nanos, RoomShare, RoutingRequest, TokensPerSecond,
    core_loads::attempt::Charge,
    load::{Change, ChangeSum},
};

const INFINITE: Seconds = Seconds::INFINITE;

fn effective(stats: &ClusterStats) -> EffectiveStats<'_> {
    effective_for(stats, 0)
}

fn effective_for(stats: &ClusterStats, priority: u32) -> EffectiveStats<'_> {
    EffectiveStats::new(stats, &ClusterLoad::default(), priority)
}

fn busy() -> ClusterStats {
    ClusterStats {
        last_mean_input_tps: TokensPerSecond(1_000.0),
        queued_input: Tokens(5_000),
        num_running_queries: 3,
        max_engine_concurrency: 4,
        input_processing_queries: 3,
        total_query_input: Tokens(1_000_000),
        rtt: Nanos(2_000_000),
        ..ClusterStats::default()
    }
}

fn with_estimates(estimates: &[(u32, u64)]) -> ClusterStats {
    ClusterStats {
        queue_time_estimates: estimates.iter().map(|(priority, ns)| (*priority, Nanos(*ns))).collect(),
        max_engine_concurrency: 3,
        ..busy()
    }
}

#[test]
fn a_free_slot_means_no_wait_however_large_the_prefill() {
    let stats = busy();
    assert_eq!(effective(&stats).queue_delay(), Seconds::ZERO);
    let unknown_throughput = ClusterStats { last_mean_input_tps: TokensPerSecond(0.0), ..busy() };
    assert_eq!(effective(&unknown_throughput).queue_delay(), Seconds::ZERO);
}

#[test]
fn a_free_slot_also_hides_published_estimates() {
    let stats = ClusterStats { max_engine_concurrency: 4, ..with_estimates(&[(0, 9_000_000_000)]) };
    assert_eq!(effective(&stats).queue_delay(), Seconds::ZERO);
    assert_eq!(effective(&stats).backlog(), Seconds(9.0));
}

#[test]
fn filling_the_last_slot_restores_the_queue() {
    let stats = busy();
    let load = Arc::new(ClusterLoad::default());
    let running: Vec<_> = (0..3).map(|_| load.enter(Tokens(1))).collect();
    assert_eq!(EffectiveStats::new(&stats, &load, 0).queue_delay(), Seconds::ZERO);
    let last = load.enter(Tokens(1));
    assert_eq!(EffectiveStats::new(&stats, &load, 0).queue_delay(), Seconds(5.0));
    drop(last);
    assert_eq!(EffectiveStats::new(&stats, &load, 0).queue_delay(), Seconds::ZERO);
    drop(running);
}

#[test]
fn an_unreported_concurrency_is_no_free_slot() {
    let stats = ClusterStats { max_engine_concurrency: 0, num_running_queries: 0, ..busy() };
    assert_eq!(effective(&stats).queue_delay(), Seconds(5.0));
}

#[test]
fn the_estimate_of_the_greatest_priority_not_above_applies() {
    let stats = with_estimates(&[(2, 1_000_000_000), (5, 3_000_000_000)]);
    for (priority, expected) in [(0, 0.0), (1, 0.0), (2, 1.0), (4, 1.0), (5, 3.0), (u32::MAX, 3.0)] {
        assert_eq!(effective_for(&stats, priority).queue_delay(), Seconds(expected), "priority {priority}");
    }
}

#[test]
fn without_estimates_every_priority_waits_for_all_queued_input() {
    let stats = ClusterStats { max_engine_concurrency: 3, ..busy() };
    assert_eq!(effective(&stats).queue_delay(), Seconds(5.0));
    assert_eq!(effective_for(&stats, 7).queue_delay(), Seconds(5.0));
}

#[test]
fn no_work_takes_no_time_and_work_without_a_valid_capacity_never_ends() {
    for invalid in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let stats = ClusterStats {
            last_mean_input_tps: TokensPerSecond(invalid),
            max_engine_concurrency: 0,
            queued_input: Tokens(0),
            rtt: Nanos(0),
            ..ClusterStats::default()
        };
        assert_eq!(effective(&stats).queue_delay(), Seconds::ZERO, "capacity {invalid}");
        assert_eq!(effective(&stats).ttft(Tokens(0)), Seconds::ZERO, "capacity {invalid}");
        assert_eq!(effective(&stats).ttft(Tokens(1)), INFINITE, "capacity {invalid}");
        let queued = ClusterStats { queued_input: Tokens(1), ..stats };
        assert_eq!(effective(&queued).queue_delay(), INFINITE, "capacity {invalid}");
        assert_eq!(effective(&queued).ttft(Tokens(0)), INFINITE, "capacity {invalid}");
    }
    assert_eq!(INFINITE.to_duration(), None);
}

#[test]
fn ttft_is_rtt_and_queue_delay_and_prefill() {
    let stats = ClusterStats { max_engine_concurrency: 3, ..busy() };
    assert_eq!(effective(&stats).ttft(Tokens(2_000)), Seconds(0.002 + 5.0 + 2.0));
}

#[test]
fn a_free_slot_hides_the_queue_from_ttft_but_not_from_ttft_backlog() {
    let stats = busy();
    assert_eq!(effective(&stats).ttft(Tokens(2_000)), Seconds(0.002 + 2.0));
    assert_eq!(effective(&stats).ttft_backlog(Tokens(2_000)), Seconds(0.002 + 5.0 + 2.0));
}

#[test]
fn the_larger_of_reported_and_in_flight_counts() {
    let reported = ClusterStats {
        queue_size: 2,
        num_running_queries: 1,
        queued_input: Tokens(100),
        ..ClusterStats::default()
    };
    let load = Arc::new(ClusterLoad::default());
    let _running = [load.enter(Tokens(30)), load.enter(Tokens(30))];
    let stats = EffectiveStats::new(&reported, &load, 0);
    assert_eq!((stats.queue_size, stats.num_running_queries, stats.queued_input), (2, 2, Tokens(100)));
    let mut answered = load.enter(Tokens(60));
    let stats = EffectiveStats::new(&reported, &load, 0);
    assert_eq!((stats.queue_size, stats.num_running_queries, stats.queued_input), (3, 3, Tokens(120)));
    answered.first_byte();
    let stats = EffectiveStats::new(&reported, &load, 0);
    assert_eq!((stats.queue_size, stats.num_running_queries, stats.queued_input), (2, 3, Tokens(100)));
}

/// Stats accounted for by reservations, and a load with these pending, and so many ended.
fn reserved<'a>(stats: &'a mut ClusterStats, tokens: &[u64], ended: u64) -> EffectiveStats<'a> {
    stats.accounting = Accounting::Reservations;
    let mut changes = ChangeSum::default();
    for tokens in tokens {
        let request = RoutingRequest { input_tokens: Tokens(*tokens), ..RoutingRequest::default() };
        changes.add(&Charge::new(stats, &request).change());
    }
    changes.add(&Change { ended, ..Change::default() });
    let load = ClusterLoad::default();
    load.add(&changes);
    EffectiveStats::new(stats, &load, 0)
}

fn counts(stats: EffectiveStats<'_>) -> (u64, u64, u64) {
    (stats.queue_size, stats.num_running_queries, stats.queued_input.0)
}

#[test]
fn reservations_come_on_top_of_the_report() {
    let mut reported = ClusterStats {
        queue_size: 2,
        num_running_queries: 7,
        queued_input: Tokens(100),
        ..ClusterStats::default()
    };
    assert_eq!(counts(reserved(&mut reported, &[], 0)), (2, 7, 100));
    assert_eq!(counts(reserved(&mut reported, &[30, 0, 50], 0)), (5, 10, 180));
    let mut most = ClusterStats {
        queue_size: u64::MAX,
        num_running_queries: u64::MAX - 1,
        queued_input: Tokens(u64::MAX),
        ..reported
    };
    assert_eq!(counts(reserved(&mut most, &[1, 2], 0)), (u64::MAX, u64::MAX, u64::MAX));
}

#[test]
fn what_ended_comes_off_the_queue_first_and_off_what_runs_when_none_is_queued() {
    for (ended, expected) in [
        (1, (2, 5, 67)),
        (2, (1, 5, 34)),
        (3, (0, 5, 0)),
        (4, (0, 4, 0)),
        (8, (0, 0, 0)),
        (u64::MAX, (0, 0, 0)),
    ] {
        let mut reported = ClusterStats {
            queue_size: 3,
            num_running_queries: 5,
            queued_input: Tokens(100),
            ..ClusterStats::default()
        };
        assert_eq!(counts(reserved(&mut reported, &[], ended)), expected, "{ended} ended");
    }
    let mut most =
        ClusterStats { queue_size: u64::MAX, queued_input: Tokens(u64::MAX), ..ClusterStats::default() };
    assert_eq!(counts(reserved(&mut most, &[7], 2)), (u64::MAX - 1, 1, u64::MAX));
}

#[test]
fn what_is_in_flight_counts_under_one_accounting_and_what_is_reserved_under_the_other() {
    let stats = ClusterStats { queue_size: 3, ..ClusterStats::default() };
    let mut changes = ChangeSum::default();
    let five = Amount::entering(Tokens(5));
    changes.add(&Change {
        in_flight: five.plus(five).plus(five).plus(five),
        reserved: five,
        ended: 1,
        lane: None,
    });
    let load = ClusterLoad::default();
    load.add(&changes);
    assert_eq!(EffectiveStats::new(&stats, &load, 0).queue_size, 4);
    let stats = ClusterStats { accounting: Accounting::Reservations, ..stats };
    assert_eq!(EffectiveStats::new(&stats, &load, 0).queue_size, 3);
}

#[test]
fn reserved_work_is_added_to_the_estimates_of_its_priority_and_the_less_urgent_ones() {
    let estimates = [(2, 1_000_000_000), (5, 3_000_000_000)];
    let reserving = |tps| ClusterStats {
        accounting: Accounting::Reservations,
        last_mean_input_tps: tps,
        ..with_estimates(&estimates)
    };
    let stats = reserving(TokensPerSecond(1_024.0));
    let load = ClusterLoad::default();
    let reserve = |priority, tokens| {
        let request = RoutingRequest { priority, input_tokens: Tokens(tokens), ..RoutingRequest::default() };
        let mut changes = ChangeSum::default();
        changes.add(&Charge::new(&stats, &request).change());
        load.add(&changes);
    };
    reserve(3, 512);
    reserve(20, 256);
    for (priority, expected) in
        [(0, 0.0), (2, 1.0), (3, 1.5), (4, 1.5), (5, 3.5), (14, 3.5), (15, 3.75), (u32::MAX, 3.75)]
    {
        let delay = EffectiveStats::new(&stats, &load, priority).backlog();
        assert_eq!(delay, Seconds(expected), "priority {priority}");
    }
    let unknown = reserving(TokensPerSecond(0.0));
    assert_eq!(EffectiveStats::new(&unknown, &load, 2).backlog(), Seconds(1.0), "none before it");
    assert_eq!(EffectiveStats::new(&unknown, &load, 3).backlog(), INFINITE);
    let polled = ClusterStats { accounting: Accounting::InFlight, ..stats.clone() };
    assert_eq!(EffectiveStats::new(&polled, &load, 3).backlog(), Seconds(1.0));
}

#[test]
fn sums_saturate() {
    assert_eq!(Tokens(u64::MAX).saturating_add(Tokens(1)), Tokens(u64::MAX));
    let load = Arc::new(ClusterLoad::default());
    let _running: Vec<_> = (0..1_000).map(|_| load.enter(Tokens(u64::MAX))).collect();
    let one = { Arc::new(ClusterLoad::default()) };
    let _one = one.enter(Tokens(u64::MAX));
    assert!(load.queued_input() > one.queued_input(), "a thousand huge requests are more than one");
}

#[test]
fn free_kv_tokens_are_those_reported_else_what_capacity_and_use_leave() {
    let kv = |capacity: Option<u64>, used: Option<u64>, free: Option<u64>| ClusterStats {
        kv_capacity: capacity.map(Tokens),
        kv_used: used.map(Tokens),
        kv_free: free.map(Tokens),
        ..ClusterStats::default()
    };
    assert_eq!(kv(Some(100), Some(40), Some(50)).kv_free_tokens(), Some(Tokens(50)));
    assert_eq!(kv(Some(100), Some(40), None).kv_free_tokens(), Some(Tokens(60)));
    assert_eq!(kv(Some(40), Some(100), None).kv_free_tokens(), Some(Tokens(0)));
    assert_eq!(kv(Some(100), None, None).kv_free_tokens(), None);
    assert_eq!(kv(None, Some(40), None).kv_free_tokens(), None);
}

#[test]
fn seconds_become_durations_where_they_can() {
    assert_eq!(Seconds(1.5).to_duration(), Some(std::time::Duration::from_millis(1_500)));
    for unbounded in [f64::INFINITY, f64::NAN, f64::MAX] {
        assert_eq!(Seconds(unbounded).to_duration(), None, "{unbounded}");
    }
}

#[test]
fn capacity_is_slots_and_places_in_the_queue_beyond_what_runs() {
    let load = ClusterLoad::default();
    for (running, slots, max_queued, expected) in [
        (0, 1, 0, true),
        (1, 1, 0, false),
        (1, 1, 1, true),
        (5, 3, 2, false),
        (u64::MAX - 1, 3, u64::MAX, true),
        (u64::MAX, 3, u64::MAX, false),
    ] {
        let reported = ClusterStats {
            num_running_queries: running,
            max_engine_concurrency: slots,
            ..ClusterStats::default()
        };
        let stats = EffectiveStats::new(&reported, &load, 0);
        for unknown in [UnknownConcurrency::Free, UnknownConcurrency::Full] {
            assert_eq!(
                stats.has_capacity(max_queued, unknown),
                expected,
                "{running} of {slots} + {max_queued}"
            );
        }
    }
}

#[test]
fn an_unreported_concurrency_is_free_or_full_whatever_runs() {
    let reported = ClusterStats { num_running_queries: 1_000, ..ClusterStats::default() };
    let stats = EffectiveStats::new(&reported, &ClusterLoad::default(), 0);
    assert!(stats.has_capacity(0, UnknownConcurrency::Free));
    assert!(!stats.has_capacity(u64::MAX, UnknownConcurrency::Full));
}

#[test]
fn a_scaled_prefill_of_work_without_a_valid_capacity_has_no_bound() {
    let load = ClusterLoad::default();
    for (tps, tokens, scale, expected) in [
        (1_000.0, 500, 1.0, Some(500)),
        (1_000.0, 500, 0.1, Some(50)),
        (1_000.0, 500, 0.0, Some(0)),
        (0.0, 500, 0.0, None),
        (f64::NAN, 1, 0.5, None),
        (f64::INFINITY, 1, 0.5, None),
        (0.0, 0, 1.0, Some(0)),
    ] {
        let reported = ClusterStats { last_mean_input_tps: TokensPerSecond(tps), ..ClusterStats::default() };
        let prefill = EffectiveStats::new(&reported, &load, 0).prefill(Tokens(tokens), scale);
        let expected = expected.map(std::time::Duration::from_millis);
        assert_eq!(prefill.to_duration(), expected, "{tokens} at {tps}, scaled by {scale}");
    }
}

/// Whether one more that waits may go to a cluster of 10 slots that reports 4 running, by this share of the room.
fn takes(share: f32, draw: f32, pending: usize, ended: u64) -> bool {
    let mut stats = ClusterStats {
        num_running_queries: 4,
        max_engine_concurrency: 10,
        room_share: RoomShare { share, draw },
        ..ClusterStats::default()
    };
    reserved(&mut stats, &vec![1; pending], ended).has_room(0, UnknownConcurrency::Free, true)
}

#[test]
fn those_who_wait_take_the_share_of_the_room_rounded_by_the_draw() {
    // Of 6 places: as many as are taken before the next is refused.
    for (share, draw, expected) in [
        (0.5, 0.0, 3),
        (0.5, 0.99, 3),
        (0.25, 0.0, 1),
        (0.25, 0.49, 1),
        (0.25, 0.5, 2),
        (0.01, 0.9, 0),
        (0.01, 0.95, 1),
        (1.0, 0.0, 6),
    ] {
        let taken = (0..=6).take_while(|pending| takes(share, draw, *pending, 0)).count();
        assert_eq!(taken, expected, "share {share}, draw {draw}");
    }
}

#[test]
fn draws_give_all_gateways_together_what_there_is() {
    let room = 3;
    // Of 64 gateways with draws as even as they can be.
    let draws = (0..64_u16).map(|step| f32::from(step) / 64.0);
    let taken: u64 = draws.map(|draw| RoomShare { share: 1.0 / 64.0, draw }.of(room)).sum();
    assert_eq!(taken, room);
    let all = RoomShare { share: 0.999, draw: 0.999 };
    assert_eq!((all.of(0), all.of(u64::MAX) > u64::MAX / 2), (0, true));
}

#[test]
fn what_has_ended_here_is_replaced_whatever_the_share() {
    assert!(!takes(0.001, 0.0, 0, 0));
    assert!(takes(0.001, 0.0, 0, 1));
    assert!(!takes(0.001, 0.0, 1, 1), "once");
    assert!(takes(0.001, 0.0, 1, 2));
}

#[test]
fn who_has_just_come_is_not_held_to_a_share_and_neither_is_who_waits_for_what_is_not_known() {
    let shared = ClusterStats {
        num_running_queries: 4,
        max_engine_concurrency: 10,
        accounting: Accounting::Reservations,
        room_share: RoomShare { share: 0.001, draw: 0.0 },
        ..ClusterStats::default()
    };
    let has_room =
        |stats: &ClusterStats, is_waiting| effective(stats).has_room(0, UnknownConcurrency::Free, is_waiting);
    assert!(has_room(&shared, false) && !has_room(&shared, true));
    let polled = ClusterStats { accounting: Accounting::InFlight, ..shared.clone() };
    assert!(has_room(&polled, true));
    let unknown = ClusterStats { max_engine_concurrency: 0, ..shared.clone() };
    assert!(has_room(&unknown, true));
    let full = ClusterStats { num_running_queries: 10, ..shared };
    assert!(!has_room(&full, false) && !has_room(&full, true));
}
