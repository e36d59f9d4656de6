use std::time::Duration;

use crate::{
    Algorithm, ClusterStats, Comparator, Decision, DecisionState, Exclusions, Millis, Nanos, QueueSlo,
    RoutingRequest, SampleCount, Target, Tokens, TokensPerSecond, UnavailableReason, UnknownConcurrency,
    Wait, WaitAndWidenParameters, WaitReason, Widening,
    testing::fleet::{clusters, decide, exclude, just_before, request, selected, target, unavailable},
};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// An idle cluster of 10 slots this far away.
fn away(rtt_ms: u64) -> ClusterStats {
    ClusterStats {
        rtt: Nanos(rtt_ms * 1_000_000),
        last_mean_input_tps: TokensPerSecond(1_000.0),
        max_engine_concurrency: 10,
        ..ClusterStats::default()
    }
}

/// Stats of a cluster so far away whose slots are all taken.
fn full(rtt_ms: u64) -> ClusterStats {
    ClusterStats { num_running_queries: 10, ..away(rtt_ms) }
}

/// Without a group, unless `parameters` says so.
fn fleet(stats: impl IntoIterator<Item = ClusterStats>, parameters: WaitAndWidenParameters) -> Target {
    target(Algorithm::WaitAndWiden(parameters), clusters(stats))
}

fn plain(widening: Widening) -> WaitAndWidenParameters {
    WaitAndWidenParameters { widening, ..WaitAndWidenParameters::default() }
}

fn grouped(affinity_group: u32, widening: Widening) -> WaitAndWidenParameters {
    WaitAndWidenParameters { widening, affinity_group, ..WaitAndWidenParameters::default() }
}

fn unkeyed_at(elapsed: Duration) -> RoutingRequest<'static> {
    RoutingRequest { elapsed, ..request(0) }
}

fn keyed_at(elapsed: Duration) -> RoutingRequest<'static> {
    RoutingRequest { affinity_key: Some(b"session-1"), ..unkeyed_at(elapsed) }
}

fn decide_excluding(target: &Target, request: &RoutingRequest<'_>, exclusions: &Exclusions) -> Decision {
    decide(target, request, exclusions, &mut DecisionState::with_seed(1))
}

fn decide_once(target: &Target, request: &RoutingRequest<'_>) -> Decision {
    decide_excluding(target, request, &Exclusions::default())
}

fn wait(decision: Decision) -> Wait {
    match decision {
        Decision::Wait(wait) => wait,
        other => panic!("no wait: {other:?}"),
    }
}

/// All clusters that are selected in 200 decisions.
fn reachable(target: &Target, request: &RoutingRequest<'_>) -> Vec<usize> {
    let mut state = DecisionState::with_seed(3);
    let mut all: Vec<_> = (0..200)
        .map(|_| selected(decide(target, request, &Exclusions::default(), &mut state)).cluster.0)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Members of the group of the test's key, found by excluding nothing and letting only the group be selected.
fn group_of(count: usize, affinity_group: u32) -> Vec<usize> {
    let one_by_one =
        Widening { sample_count: SampleCount::new(1).unwrap(), affinity_wait: ms(1), ..Widening::default() };
    reachable(&fleet(vec![away(1); count], grouped(affinity_group, one_by_one)), &keyed_at(Duration::ZERO))
}

#[test]
fn a_candidate_within_the_bucket_size_of_the_fastest_shares_its_bucket_and_one_beyond_does_not() {
    let one = Widening { sample_count: SampleCount::new(1).unwrap(), ..Widening::default() };
    let target = fleet([away(5), away(25), away(26)], plain(one));
    assert_eq!(reachable(&target, &unkeyed_at(Duration::ZERO)), [0, 1]);
}

#[test]
fn a_bucket_is_as_wide_as_its_size_from_its_start_and_not_from_candidate_to_candidate() {
    let one = Widening { sample_count: SampleCount::new(1).unwrap(), ..Widening::default() };
    let target = fleet([away(0), away(15), away(30)], plain(one));
    assert_eq!(reachable(&target, &unkeyed_at(Duration::ZERO)), [0, 1]);
}

#[test]
fn a_locked_bucket_yields_a_wait_that_ends_exactly_when_it_opens() {
    let target = fleet([full(0), away(40)], plain(Widening::default()));
    for elapsed in [Duration::ZERO, ms(3), just_before(ms(10))] {
        let wait = wait(decide_once(&target, &unkeyed_at(elapsed)));
        assert_eq!(wait, Wait { until: ms(10), reason: WaitReason::Bucket }, "a quarter of the gap");
    }
    let selected = selected(decide_once(&target, &unkeyed_at(ms(10))));
    assert_eq!((selected.cluster.0, selected.rank, selected.is_fallback), (1, 1, false));
}

#[test]
fn every_further_bucket_waits_for_its_own_gap_after_those_before_it() {
    let target = fleet([full(0), full(40), away(100)], plain(Widening::default()));
    // Gaps of 40 ms and 60 ms.
    assert_eq!(wait(decide_once(&target, &unkeyed_at(ms(9)))).until, ms(10));
    assert_eq!(wait(decide_once(&target, &unkeyed_at(ms(10)))).until, ms(25));
    assert_eq!(selected(decide_once(&target, &unkeyed_at(ms(25)))).cluster.0, 2);
}

#[test]
fn the_unlock_factor_stretches_the_wait_and_0_opens_all() {
    let with_factor = |next_bucket_unlock_factor| {
        let widening = Widening { next_bucket_unlock_factor, ..Widening::default() };
        decide_once(&fleet([full(0), away(40)], plain(widening)), &unkeyed_at(Duration::ZERO))
    };
    assert_eq!(wait(with_factor(1.5)).until, ms(60));
    assert_eq!(selected(with_factor(0.0)).cluster.0, 1);
}

#[test]
fn an_unlock_between_two_nanoseconds_is_waited_for_to_the_later() {
    let slower = ClusterStats { rtt: Nanos(20_000_003), ..away(0) };
    let target = fleet([full(0), slower], plain(Widening::default()));
    let until = Duration::from_nanos(5_000_001);
    assert_eq!(wait(decide_once(&target, &unkeyed_at(Duration::ZERO))).until, until);
    assert_eq!(selected(decide_once(&target, &unkeyed_at(until))).cluster.0, 1);
}

#[test]
fn what_has_no_bound_opens_never_unless_there_is_nothing_else_or_all_is_open() {
    let unmeasured = ClusterStats { last_mean_input_tps: TokensPerSecond(0.0), ..away(0) };
    let long = RoutingRequest { input_tokens: Tokens(10), ..unkeyed_at(Duration::from_secs(1_000_000)) };
    let target = fleet([full(0), unmeasured.clone()], plain(Widening::default()));
    assert_eq!(unavailable(decide_once(&target, &long)), UnavailableReason::NoCapacity);
    let alone = fleet([unmeasured.clone()], plain(Widening::default()));
    assert_eq!(selected(decide_once(&alone, &long)).cluster.0, 0);
    let all_open = Widening { next_bucket_unlock_factor: 0.0, ..Widening::default() };
    assert_eq!(selected(decide_once(&fleet([full(0), unmeasured], plain(all_open)), &long)).cluster.0, 1);
}

#[test]
fn ignored_terms_are_left_out_of_buckets_and_still_counted_by_the_comparator() {
    // 100 ms of queue at the first, 100 ms of prefill more at the second.
    let queued = ClusterStats { queued_input: Tokens(100), ..full(0) };
    let slow = ClusterStats { last_mean_input_tps: TokensPerSecond(500.0), ..away(0) };
    let request = RoutingRequest { input_tokens: Tokens(100), ..unkeyed_at(Duration::ZERO) };
    let decide_with = |ignore_queue_time, ignore_input_processing_time| {
        let widening = Widening {
            ignore_queue_time,
            ignore_input_processing_time,
            max_queued: 5,
            sample_count: SampleCount::new(1).unwrap(),
            ..Widening::default()
        };
        reachable(&fleet([away(0), queued.clone(), slow.clone()], plain(widening)), &request)
    };
    assert_eq!(decide_with(false, false), [0]);
    assert_eq!(decide_with(true, false), [0, 1]);
    assert_eq!(decide_with(false, true), [0, 2]);
    let widening = Widening { ignore_queue_time: true, max_queued: 5, ..Widening::default() };
    let both = fleet([queued, away(0)], plain(widening));
    assert_eq!(reachable(&both, &request), [1], "a queue that its bucket ignores still loses");
}

#[test]
fn only_clusters_with_capacity_are_selected() {
    let busy = ClusterStats { num_running_queries: 12, ..away(0) };
    for (max_queued, expected) in [(0, [1].as_slice()), (2, &[1]), (3, &[0, 1])] {
        let widening =
            Widening { max_queued, sample_count: SampleCount::new(1).unwrap(), ..Widening::default() };
        let target = fleet([busy.clone(), away(0)], plain(widening));
        assert_eq!(reachable(&target, &unkeyed_at(Duration::ZERO)), expected, "max_queued {max_queued}");
    }
    let target = fleet([busy.clone(), busy], plain(Widening::default()));
    let decision = decide_once(&target, &unkeyed_at(Duration::ZERO));
    assert_eq!(unavailable(decision), UnavailableReason::NoCapacity);
}

#[test]
fn what_this_gateway_has_in_flight_takes_slots() {
    let one_slot = ClusterStats { max_engine_concurrency: 1, ..away(0) };
    let target = fleet([one_slot], plain(Widening::default()));
    let running = target.clusters[0].load.enter(Tokens(1));
    let decision = decide_once(&target, &unkeyed_at(Duration::ZERO));
    assert_eq!(unavailable(decision), UnavailableReason::NoCapacity);
    drop(running);
    selected(decide_once(&target, &unkeyed_at(Duration::ZERO)));
}

#[test]
fn a_cluster_that_reports_no_concurrency_is_free_or_full_as_configured() {
    let unknown = ClusterStats { max_engine_concurrency: 0, num_running_queries: 1_000, ..away(0) };
    let decide_with = |unknown_concurrency| {
        let widening = Widening { unknown_concurrency, max_queued: 1_000_000, ..Widening::default() };
        decide_once(&fleet([unknown.clone()], plain(widening)), &unkeyed_at(Duration::ZERO))
    };
    selected(decide_with(UnknownConcurrency::Free));
    assert_eq!(unavailable(decide_with(UnknownConcurrency::Full)), UnavailableReason::NoCapacity);
}

#[test]
fn the_allowed_queue_delay_grows_from_the_floor_to_the_ceiling_at_the_slo() {
    // A queue of 60 ms.
    let queued = ClusterStats { queued_input: Tokens(60), ..full(0) };
    let widening =
        Widening { queue_slo: QueueSlo::new(ms(20), ms(100)), max_queued: 5, ..Widening::default() };
    let target = fleet([queued], plain(widening));
    let decide_at = |elapsed, slo: Option<u64>| {
        decide_once(&target, &RoutingRequest { slo: slo.map(Millis), ..unkeyed_at(elapsed) })
    };
    assert_eq!(unavailable(decide_at(ms(0), Some(200))), UnavailableReason::NoCapacity);
    assert_eq!(unavailable(decide_at(ms(99), Some(200))), UnavailableReason::NoCapacity);
    selected(decide_at(ms(100), Some(200)));
    selected(decide_at(ms(1_000), Some(200)));
    selected(decide_at(ms(0), None));
    selected(decide_at(ms(0), Some(0)));
}

#[test]
fn a_queue_beyond_the_ceiling_is_never_joined() {
    let queued = ClusterStats { queued_input: Tokens(101), ..full(0) };
    let widening =
        Widening { queue_slo: QueueSlo::new(ms(20), ms(100)), max_queued: 5, ..Widening::default() };
    let decision = decide_once(&fleet([queued], plain(widening)), &unkeyed_at(ms(60_000)));
    assert_eq!(unavailable(decision), UnavailableReason::NoCapacity);
}

#[test]
fn the_comparator_picks_among_n_sampled() {
    let busy = |running| ClusterStats { num_running_queries: running, ..away(0) };
    let decide_with = |count| {
        let widening = Widening {
            sample_count: SampleCount::new(count).unwrap(),
            comparator: Comparator::Utilization,
            ..Widening::default()
        };
        reachable(&fleet([busy(3), busy(1), busy(2)], plain(widening)), &unkeyed_at(Duration::ZERO))
    };
    assert_eq!(decide_with(1), [0, 1, 2]);
    assert_eq!(decide_with(2), [1, 2]);
    assert_eq!(decide_with(3), [1]);
}

#[test]
fn a_group_has_as_many_clusters_as_configured_and_grows_by_further_ones() {
    let groups: Vec<_> = (1..=4).map(|size| group_of(6, size)).collect();
    for (size, group) in (1..).zip(&groups) {
        assert_eq!(group.len(), size);
    }
    for pair in groups.windows(2) {
        assert!(pair[0].iter().all(|member| pair[1].contains(member)));
    }
    assert_eq!(group_of(3, 30), [0, 1, 2], "all, when there are no more");
}

#[test]
fn the_affinity_wait_holds_a_request_for_its_full_group() {
    let group = group_of(4, 1);
    let stats = (0..4).map(|index| if group.contains(&index) { full(0) } else { away(0) });
    let widening = Widening { affinity_wait: ms(50), ..Widening::default() };
    let target = fleet(stats, grouped(1, widening));
    for elapsed in [ms(0), just_before(ms(50))] {
        let wait = wait(decide_once(&target, &keyed_at(elapsed)));
        assert_eq!(wait, Wait { until: ms(50), reason: WaitReason::Affinity });
    }
    let widened = selected(decide_once(&target, &keyed_at(ms(50))));
    assert_ne!(widened.cluster.0, group[0]);
    assert_eq!((widened.rank, widened.is_fallback), (2, true));
}

#[test]
fn the_group_is_tried_first_at_every_attempt() {
    let group = group_of(4, 1);
    let stats = (0..4).map(|index| if group.contains(&index) { away(30) } else { away(0) });
    let target = fleet(stats, grouped(1, Widening::default()));
    for elapsed in [ms(0), ms(10), ms(100_000)] {
        let chosen = selected(decide_once(&target, &keyed_at(elapsed)));
        assert_eq!((chosen.cluster.0, chosen.rank, chosen.is_fallback), (group[0], 1, false));
    }
}

#[test]
fn a_group_is_not_refilled_after_an_exclusion() {
    let group = group_of(4, 1);
    let widening = Widening { affinity_wait: ms(50), ..Widening::default() };
    let target = fleet(vec![away(0); 4], grouped(1, widening));
    let exclusions = exclude(&target, [group[0]], []);
    let held = wait(decide_excluding(&target, &keyed_at(ms(0)), &exclusions));
    assert_eq!(held, Wait { until: ms(50), reason: WaitReason::Affinity });
    let widened = selected(decide_excluding(&target, &keyed_at(ms(50)), &exclusions));
    assert_eq!(widened.rank, 2);
}

#[test]
fn an_affinity_wait_ends_early_when_a_bucket_of_the_group_opens() {
    let group = group_of(4, 2);
    let stats = (0..4).map(|index| match group.iter().position(|member| *member == index) {
        Some(0) => full(0),
        Some(_) => away(40),
        None => away(0),
    });
    let widening = Widening { affinity_wait: ms(50), ..Widening::default() };
    let target = fleet(stats, grouped(2, widening));
    let held = wait(decide_once(&target, &keyed_at(ms(0))));
    assert_eq!(held, Wait { until: ms(10), reason: WaitReason::Affinity });
    let chosen = selected(decide_once(&target, &keyed_at(ms(10))));
    assert_eq!((chosen.cluster.0, chosen.rank), (group[1], 1));
}

#[test]
fn buckets_of_all_clusters_are_counted_from_the_end_of_the_affinity_wait() {
    let group = group_of(3, 1);
    let others: Vec<_> = (0..3).filter(|index| !group.contains(index)).collect();
    let stats = (0..3).map(|index| if index == others[1] { away(40) } else { full(0) });
    let widening = Widening { affinity_wait: ms(50), ..Widening::default() };
    let target = fleet(stats, grouped(1, widening));
    let waiting = wait(decide_once(&target, &keyed_at(ms(50))));
    assert_eq!(waiting, Wait { until: ms(60), reason: WaitReason::Bucket });
    assert_eq!(selected(decide_once(&target, &keyed_at(ms(60)))).cluster.0, others[1]);
}

#[test]
fn after_the_affinity_wait_a_bucket_of_the_group_still_shortens_the_wait() {
    let group = group_of(3, 2);
    // At a tenth of its prefill the second of the group is 30 ms behind the first; in the whole it is 300 ms.
    let stats = (0..3).map(|index| {
        let tps = if index == group[1] { 250.0 } else { 1_000.0 };
        let running = if index == group[1] { 9 } else { 10 };
        let last_mean_input_tps = TokensPerSecond(tps);
        ClusterStats { last_mean_input_tps, num_running_queries: running, ..away(0) }
    });
    let widening = Widening {
        affinity_wait: ms(5),
        affinity_input_tokens_scale: 0.1,
        next_bucket_unlock_factor: 1.0,
        ..Widening::default()
    };
    let target = fleet(stats, grouped(2, widening));
    let at = |elapsed| RoutingRequest { input_tokens: Tokens(100), ..keyed_at(elapsed) };
    let waiting = wait(decide_once(&target, &at(ms(5))));
    assert_eq!(waiting, Wait { until: ms(30), reason: WaitReason::Bucket });
    assert_eq!(selected(decide_once(&target, &at(ms(30)))).rank, 1);
}

#[test]
fn prefill_is_scaled_in_the_group_and_nowhere_else() {
    let group = group_of(2, 2);
    assert_eq!(group, [0, 1]);
    // 100 ms and 200 ms of prefill: one bucket at a tenth, two in the whole.
    let slow = ClusterStats { last_mean_input_tps: TokensPerSecond(500.0), ..away(0) };
    let widening = Widening {
        affinity_input_tokens_scale: 0.1,
        sample_count: SampleCount::new(1).unwrap(),
        ..Widening::default()
    };
    let target = fleet([away(0), slow], grouped(2, widening));
    let keyed = RoutingRequest { input_tokens: Tokens(100), ..keyed_at(ms(0)) };
    assert_eq!(reachable(&target, &keyed), [0, 1]);
    assert_eq!(reachable(&target, &RoutingRequest { affinity_key: None, ..keyed }), [0]);
}

#[test]
fn scale_0_still_rejects_an_invalid_capacity() {
    let unmeasured = ClusterStats { last_mean_input_tps: TokensPerSecond(0.0), ..away(0) };
    let widening = Widening {
        affinity_input_tokens_scale: 0.0,
        sample_count: SampleCount::new(1).unwrap(),
        ..Widening::default()
    };
    let target = fleet([away(0), unmeasured], grouped(2, widening));
    let keyed = RoutingRequest { input_tokens: Tokens(100), ..keyed_at(ms(0)) };
    assert_eq!(reachable(&target, &keyed), [0]);
}

#[test]
fn without_a_key_or_with_a_group_of_0_all_clusters_are_there_from_the_arrival_on() {
    let widening = Widening { affinity_wait: ms(50), ..Widening::default() };
    for (group, request) in [(1, unkeyed_at(ms(0))), (0, keyed_at(ms(0)))] {
        let target = fleet([full(0), away(40)], grouped(group, widening.clone()));
        let waiting = wait(decide_once(&target, &request));
        assert_eq!(waiting, Wait { until: ms(10), reason: WaitReason::Bucket });
        let chosen = selected(decide_once(&target, &RoutingRequest { elapsed: ms(10), ..request }));
        assert_eq!((chosen.rank, chosen.is_fallback), (1, false));
    }
}

#[test]
fn when_all_are_excluded_nothing_is_waited_for() {
    let widening = Widening { affinity_wait: ms(50), ..Widening::default() };
    let target = fleet([full(0), away(40)], grouped(1, widening));
    let exclusions = exclude(&target, [0, 1], []);
    for request in [keyed_at(ms(0)), unkeyed_at(ms(0))] {
        let decision = decide_excluding(&target, &request, &exclusions);
        assert_eq!(unavailable(decision), UnavailableReason::AllExcluded);
    }
}
