use std::time::Duration;

use crate::{
    Algorithm, ClusterStats, Decision, DecisionState, Exclusions, Millis, Nanos, PrimaryAdmission,
    PulsarWaitAndWidenParameters, QueueSlo, Ranking, RoutingRequest, Slot, Target, Tokens, TokensPerSecond,
    UnavailableReason, Wait, WaitReason, Widening,
    testing::fleet::{clusters, decide, exclude, just_before, request, selected, target, unavailable},
};

const KEY: &[u8] = b"session-1";

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// An idle cluster of 10 slots.
fn free() -> ClusterStats {
    ClusterStats {
        last_mean_input_tps: TokensPerSecond(1_000.0),
        max_input_tps: Some(TokensPerSecond(1_000.0)),
        max_engine_concurrency: 10,
        ..ClusterStats::default()
    }
}

fn running(count: u64) -> ClusterStats {
    ClusterStats { num_running_queries: count, ..free() }
}

/// By capacity, with an affinity wait of 50 ms.
fn guarded() -> PulsarWaitAndWidenParameters {
    PulsarWaitAndWidenParameters {
        widening: Widening { affinity_wait: ms(50), ..Widening::default() },
        primary_admission: PrimaryAdmission::Capacity,
        ..PulsarWaitAndWidenParameters::default()
    }
}

/// A target of `count` clusters, each with the stats of its rank in the ranking of the test's key.
fn ranked(
    count: usize,
    parameters: &PulsarWaitAndWidenParameters,
    stats: impl Fn(usize) -> ClusterStats,
) -> Fleet {
    let mut target = target(Algorithm::PulsarWaitAndWiden(parameters.clone()), clusters(vec![free(); count]));
    let ranking = Ranking::new(&target, &parameters.widening.seed, parameters.weight, KEY).to_vec();
    let order: Vec<usize> = ranking.iter().map(|cluster| cluster.0).collect();
    for (rank, index) in order.iter().enumerate() {
        target.clusters[*index].stats = stats(rank + 1);
    }
    Fleet { target, order }
}

struct Fleet {
    target: Target,
    /// Positions of clusters by rank.
    order: Vec<usize>,
}

impl Fleet {
    fn decide(&self, request: &RoutingRequest<'_>, exclusions: &Exclusions) -> Decision {
        decide(&self.target, request, exclusions, &mut DecisionState::with_seed(1))
    }

    fn at(&self, elapsed: Duration) -> Decision {
        self.decide(&keyed_at(elapsed), &Exclusions::default())
    }

    fn excluding(&self, ranks: impl IntoIterator<Item = usize>) -> Exclusions {
        exclude(&self.target, ranks.into_iter().map(|rank| self.order[rank - 1]), [])
    }
}

fn keyed_at(elapsed: Duration) -> RoutingRequest<'static> {
    RoutingRequest { affinity_key: Some(KEY), elapsed, ..request(0) }
}

fn wait(decision: Decision) -> Wait {
    match decision {
        Decision::Wait(wait) => wait,
        other => panic!("no wait: {other:?}"),
    }
}

fn rank(decision: Decision) -> (u32, bool) {
    let selected = selected(decision);
    (selected.rank, selected.is_fallback)
}

#[test]
fn without_queue_slo_fields_an_eligible_primary_wins_at_once_full_or_not() {
    let parameters =
        PulsarWaitAndWidenParameters { primary_admission: PrimaryAdmission::Eligible, ..guarded() };
    for load in [0, 10, 1_000_000] {
        let fleet = ranked(3, &parameters, |rank| if rank == 1 { running(load) } else { free() });
        assert_eq!(rank(fleet.at(ms(0))), (1, false));
    }
}

#[test]
fn with_queue_slo_fields_the_primary_must_keep_to_them() {
    let queued = ClusterStats { queued_input: Tokens(60), ..running(10) };
    for (slo, ceil, expected) in [(None, 60, true), (None, 59, false), (Some(100), 60, false)] {
        let mut parameters = guarded();
        parameters.primary_admission = PrimaryAdmission::Eligible;
        parameters.widening.max_queued = 5;
        parameters.widening.queue_slo = QueueSlo::new(ms(0), ms(ceil));
        let fleet = ranked(2, &parameters, |_| queued.clone());
        let request = RoutingRequest { slo: slo.map(Millis), ..keyed_at(ms(0)) };
        let decision = fleet.decide(&request, &Exclusions::default());
        assert_eq!(matches!(decision, Decision::Selected(_)), expected, "{slo:?}, {ceil}: {decision:?}");
    }
}

#[test]
fn by_capacity_the_primary_is_taken_at_once_only_with_room_under_max_queued() {
    let mut parameters = guarded();
    parameters.widening.max_queued = 2;
    for (load, expected) in [(11, true), (12, false)] {
        let fleet = ranked(3, &parameters, |rank| if rank == 1 { running(load) } else { free() });
        assert_eq!(matches!(fleet.at(ms(0)), Decision::Selected(_)), expected, "{load} running");
    }
}

#[test]
fn an_affinity_wait_holds_a_full_primary_before_widening() {
    let fleet = ranked(5, &guarded(), |rank| if rank == 1 { running(10) } else { free() });
    for elapsed in [ms(0), just_before(ms(50))] {
        assert_eq!(wait(fleet.at(elapsed)), Wait { until: ms(50), reason: WaitReason::Affinity });
    }
    let (rank, is_fallback) = rank(fleet.at(ms(50)));
    assert!((2..=3).contains(&rank) && is_fallback, "rank {rank}");
}

#[test]
fn a_place_in_the_group_is_taken_whenever_it_comes() {
    let fleet = ranked(5, &guarded(), |_| free());
    for elapsed in [ms(0), ms(49), ms(50), ms(60_000)] {
        assert_eq!(rank(fleet.at(elapsed)), (1, false));
    }
}

#[test]
fn a_group_of_k_widens_the_group() {
    let parameters = PulsarWaitAndWidenParameters { affinity_group: 3, ..guarded() };
    let fleet = ranked(6, &parameters, |rank| if rank == 3 { free() } else { running(10) });
    assert_eq!(rank(fleet.at(ms(0))), (3, false));
    let parameters = PulsarWaitAndWidenParameters { affinity_group: 2, ..guarded() };
    let fleet = ranked(6, &parameters, |rank| if rank == 3 { free() } else { running(10) });
    assert_eq!(wait(fleet.at(ms(0))).reason, WaitReason::Affinity);
}

#[test]
fn a_group_of_0_reads_as_one_of_1() {
    let parameters = PulsarWaitAndWidenParameters { affinity_group: 0, ..guarded() };
    let fleet = ranked(6, &parameters, |rank| if rank == 1 { free() } else { running(10) });
    assert_eq!(rank(fleet.at(ms(0))), (1, false));
}

#[test]
fn the_group_is_not_refilled_after_an_exclusion() {
    let fleet = ranked(4, &guarded(), |_| free());
    let exclusions = fleet.excluding([1]);
    let held = wait(fleet.decide(&keyed_at(ms(0)), &exclusions));
    assert_eq!(held, Wait { until: ms(50), reason: WaitReason::Affinity });
    assert!(rank(fleet.decide(&keyed_at(ms(50)), &exclusions)).1);
}

#[test]
fn a_member_short_of_kv_tokens_holds_the_groups_place() {
    let kv = |free_tokens| ClusterStats { kv_free: Some(Tokens(free_tokens)), ..free() };
    let parameters = PulsarWaitAndWidenParameters { consider_kv_free_tokens: true, ..guarded() };
    let fleet = ranked(3, &parameters, |rank| if rank == 1 { kv(99) } else { kv(100) });
    let request = |elapsed| RoutingRequest { input_tokens: Tokens(100), ..keyed_at(elapsed) };
    let held = wait(fleet.decide(&request(ms(0)), &Exclusions::default()));
    assert_eq!(held, Wait { until: ms(50), reason: WaitReason::Affinity });
    let widened = selected(fleet.decide(&request(ms(50)), &Exclusions::default()));
    assert!(widened.after_kv_skip && widened.is_fallback);
}

#[test]
fn a_member_excluded_is_not_a_kv_skip() {
    let parameters = PulsarWaitAndWidenParameters { consider_kv_free_tokens: true, ..guarded() };
    let enough = ClusterStats { kv_free: Some(Tokens(100)), ..free() };
    let fleet = ranked(3, &parameters, |_| enough.clone());
    let widened = selected(fleet.decide(&keyed_at(ms(50)), &fleet.excluding([1])));
    assert!(!widened.after_kv_skip && widened.is_fallback);
}

#[test]
fn free_kv_tokens_count_in_the_open_set_as_well() {
    let kv = |free_tokens| ClusterStats { kv_free: free_tokens, ..free() };
    let parameters = PulsarWaitAndWidenParameters { consider_kv_free_tokens: true, ..guarded() };
    let fleet = ranked(3, &parameters, |rank| if rank == 3 { kv(Some(Tokens(100))) } else { kv(None) });
    let request = RoutingRequest { input_tokens: Tokens(100), ..keyed_at(ms(50)) };
    let widened = selected(fleet.decide(&request, &Exclusions::default()));
    assert_eq!((widened.rank, widened.after_kv_skip), (3, true));
    let none =
        ranked(3, &PulsarWaitAndWidenParameters { consider_kv_free_tokens: true, ..guarded() }, |_| kv(None));
    assert_eq!(unavailable(none.decide(&request, &Exclusions::default())), UnavailableReason::NoCapacity);
}

/// When a request is first selected for a fleet in which only this rank is free.
fn opening_of(
    rank_free: usize,
    parameters: &PulsarWaitAndWidenParameters,
    openings: &[Duration],
) -> Duration {
    let fleet = ranked(40, parameters, |rank| if rank == rank_free { free() } else { running(10) });
    let mut elapsed = ms(0);
    for expected in openings {
        let held = wait(fleet.at(elapsed));
        assert_eq!(held.until, *expected, "after {elapsed:?}");
        let still = wait(fleet.at(just_before(held.until)));
        assert_eq!(still.until, *expected);
        let reason =
            if elapsed < parameters.widening.affinity_wait { WaitReason::Affinity } else { WaitReason::Band };
        assert_eq!(held.reason, reason);
        elapsed = held.until;
        if let Decision::Selected(selected) = fleet.at(elapsed) {
            assert_eq!(selected.rank as usize, rank_free);
            return elapsed;
        }
    }
    panic!("never selected");
}

#[test]
fn bands_open_at_k_plus_2_then_6_then_14_exactly_on_time() {
    for affinity_group in [1, 3] {
        let interval = Some(ms(20));
        let parameters =
            PulsarWaitAndWidenParameters { affinity_group, band_widen_interval: interval, ..guarded() };
        let openings = [ms(50), ms(70), ms(90), ms(110)];
        let k = affinity_group as usize;
        for (rank, expected) in [
            (k + 1, ms(50)),
            (k + 2, ms(50)),
            (k + 3, ms(70)),
            (k + 6, ms(70)),
            (k + 7, ms(90)),
            (k + 14, ms(90)),
            (k + 15, ms(110)),
            (k + 30, ms(110)),
        ] {
            assert_eq!(opening_of(rank, &parameters, &openings), expected, "k {k}, rank {rank}");
        }
    }
}

#[test]
fn the_interval_defaults_to_the_wait() {
    let openings = [ms(50), ms(100), ms(150)];
    assert_eq!(opening_of(4, &guarded(), &openings), ms(100));
    assert_eq!(opening_of(8, &guarded(), &openings), ms(150));
}

#[test]
fn an_interval_of_0_opens_all() {
    let parameters = PulsarWaitAndWidenParameters { band_widen_interval: Some(ms(0)), ..guarded() };
    assert_eq!(opening_of(40, &parameters, &[ms(50)]), ms(50));
}

#[test]
fn without_wait_and_interval_all_is_open_at_once() {
    let mut parameters = guarded();
    parameters.widening.affinity_wait = ms(0);
    let fleet = ranked(40, &parameters, |rank| if rank == 40 { free() } else { running(10) });
    assert_eq!(rank(fleet.at(ms(0))), (40, true));
}

#[test]
fn when_all_is_open_and_full_there_is_nothing_to_wait_for() {
    let fleet = ranked(4, &guarded(), |_| running(10));
    assert_eq!(wait(fleet.at(ms(99))).until, ms(100));
    assert_eq!(unavailable(fleet.at(ms(100))), UnavailableReason::NoCapacity);
}

#[test]
fn buckets_of_the_open_ranks_are_counted_from_the_end_of_the_affinity_wait() {
    let fleet = ranked(3, &guarded(), |rank| {
        let rtt = Nanos(if rank == 3 { 40_000_000 } else { 0 });
        ClusterStats { rtt, ..if rank == 3 { free() } else { running(10) } }
    });
    assert_eq!(wait(fleet.at(ms(50))), Wait { until: ms(60), reason: WaitReason::Bucket });
    assert_eq!(rank(fleet.at(ms(60))), (3, true));
}

#[test]
fn of_a_band_and_a_bucket_the_earlier_is_waited_for() {
    let far = |rtt_ms: u64| ClusterStats { rtt: Nanos(rtt_ms * 1_000_000), ..running(10) };
    for (interval, expected) in [
        (20, Wait { until: ms(60), reason: WaitReason::Bucket }),
        (10, Wait { until: ms(60), reason: WaitReason::Band }),
        (5, Wait { until: ms(55), reason: WaitReason::Band }),
    ] {
        let parameters =
            PulsarWaitAndWidenParameters { band_widen_interval: Some(ms(interval)), ..guarded() };
        let fleet = ranked(8, &parameters, |rank| if rank == 3 { far(40) } else { far(0) });
        assert_eq!(wait(fleet.at(ms(50))), expected);
    }
}

#[test]
fn after_the_affinity_wait_a_bucket_of_the_group_still_shortens_the_wait() {
    let mut parameters =
        PulsarWaitAndWidenParameters { affinity_group: 2, band_widen_interval: Some(ms(1_000)), ..guarded() };
    parameters.widening.affinity_wait = ms(5);
    parameters.widening.max_queued = 1;
    let fleet = ranked(8, &parameters, |rank| match rank {
        1 => running(11),
        2 => ClusterStats { rtt: Nanos(40_000_000), ..running(10) },
        _ => running(10),
    });
    assert_eq!(wait(fleet.at(ms(5))), Wait { until: ms(10), reason: WaitReason::Bucket });
    assert_eq!(rank(fleet.at(ms(10))), (2, false));
}

#[test]
fn overflow_with_fallback_max_queued_0_never_joins_a_queue() {
    let mut parameters = guarded();
    parameters.widening.max_queued = 4;
    let fleet = ranked(4, &parameters, |rank| if rank == 1 { running(14) } else { running(10) });
    assert_eq!(unavailable(fleet.at(ms(60_000))), UnavailableReason::NoCapacity);
    parameters.fallback_max_queued = 1;
    let fleet = ranked(4, &parameters, |rank| if rank == 1 { running(14) } else { running(10) });
    assert!(rank(fleet.at(ms(50))).1);
}

#[test]
fn the_group_is_checked_again_under_fallback_max_queued() {
    let parameters = PulsarWaitAndWidenParameters { fallback_max_queued: 1, ..guarded() };
    let fleet = ranked(3, &parameters, |rank| if rank == 1 { running(10) } else { running(11) });
    assert_eq!(rank(fleet.at(ms(50))), (1, true));
}

#[test]
fn the_rank_told_is_that_of_the_whole_ranking() {
    for free_rank in 1..=20 {
        let parameters = PulsarWaitAndWidenParameters { band_widen_interval: Some(ms(0)), ..guarded() };
        let fleet = ranked(20, &parameters, |rank| if rank == free_rank { free() } else { running(10) });
        let exclusions = fleet.excluding((1..free_rank).take(3));
        let chosen = selected(fleet.decide(&keyed_at(ms(50)), &exclusions));
        assert_eq!((chosen.rank as usize, chosen.cluster.0), (free_rank, fleet.order[free_rank - 1]));
    }
}

#[test]
fn clusters_without_a_weight_are_never_selected_for_a_key() {
    let parameters = PulsarWaitAndWidenParameters { band_widen_interval: Some(ms(0)), ..guarded() };
    let mut fleet = ranked(3, &parameters, |_| running(10));
    let unweighted = fleet.order[2];
    fleet.target.clusters[unweighted].rendezvous.max_input_tps = 0.0;
    fleet.target.clusters[unweighted].stats = free();
    assert_eq!(unavailable(fleet.at(ms(50))), UnavailableReason::NoCapacity);
    for cluster in &mut fleet.target.clusters {
        cluster.rendezvous.max_input_tps = 0.0;
    }
    assert_eq!(unavailable(fleet.at(ms(0))), UnavailableReason::NoEligibleCandidate);
}

#[test]
fn a_request_without_a_key_widens_over_all_clusters_under_fallback_max_queued() {
    let mut parameters = guarded();
    parameters.widening.max_queued = 5;
    parameters.consider_kv_free_tokens = true;
    let near = running(10);
    let far = ClusterStats { rtt: Nanos(40_000_000), max_input_tps: None, ..free() };
    let target = target(Algorithm::PulsarWaitAndWiden(parameters), clusters([near, far]));
    let decide_at = |elapsed| {
        let request = RoutingRequest { affinity_key: None, ..keyed_at(elapsed) };
        decide(&target, &request, &Exclusions::default(), &mut DecisionState::with_seed(0))
    };
    assert_eq!(wait(decide_at(ms(0))), Wait { until: ms(10), reason: WaitReason::Bucket });
    assert_eq!(rank(decide_at(ms(10))), (1, false));
}

#[test]
fn when_all_are_excluded_nothing_is_waited_for() {
    let fleet = ranked(3, &guarded(), |_| free());
    let all = fleet.excluding([1, 2, 3]);
    assert_eq!(unavailable(fleet.decide(&keyed_at(ms(0)), &all)), UnavailableReason::AllExcluded);
}

#[test]
fn when_all_with_a_weight_are_excluded_nothing_is_waited_for() {
    let mut fleet = ranked(3, &guarded(), |_| free());
    fleet.target.clusters[fleet.order[2]].rendezvous.max_input_tps = 0.0;
    let weighted = fleet.excluding([1, 2]);
    assert_eq!(unavailable(fleet.decide(&keyed_at(ms(0)), &weighted)), UnavailableReason::AllExcluded);
}

/// With waits spread from 0 to 50 ms over the keys, and room for a queue at home.
fn spread() -> PulsarWaitAndWidenParameters {
    let mut parameters = PulsarWaitAndWidenParameters { affinity_wait_spread: 1.0, ..guarded() };
    parameters.widening.max_queued = 4;
    parameters
}

/// All slots busy, and so much work queued: a token takes a millisecond.
fn queued(ms: u64) -> ClusterStats {
    ClusterStats { queued_input: Tokens(ms), ..running(11) }
}

/// The test key's wait, as spread.
fn wait_of_key() -> Duration {
    spread().affinity_wait_of(Slot::of(KEY))
}

#[test]
fn waits_are_spread_evenly_over_slots_from_what_the_spread_leaves() {
    let keys: Vec<String> = (0..4_000).map(|number| number.to_string()).collect();
    for (spread, least) in [(0.0, 50.0), (0.4, 30.0), (1.0, 0.0)] {
        let parameters = PulsarWaitAndWidenParameters { affinity_wait_spread: spread, ..guarded() };
        let mut sum = 0.0;
        for key in &keys {
            let slot = Slot::of(key.as_bytes());
            let wait = parameters.affinity_wait_of(slot).as_secs_f64() * 1e3;
            let place = (f64::from(slot.number()) + 0.5) / 65_536.0;
            assert!((wait - (least + (50.0 - least) * place)).abs() < 1e-5, "{wait} ms for {slot:?}");
            assert!((least..=50.0).contains(&wait));
            sum += wait;
        }
        let mean = sum / keys.len() as f64;
        assert!((mean - f64::midpoint(least, 50.0)).abs() < 1.0, "{mean} ms");
    }
}

#[test]
fn the_same_key_gives_up_first_everywhere() {
    // Whatever seed ranks for it, and whatever clusters there are.
    let mut other = spread();
    other.widening.seed = crate::Seed::new("7");
    for parameters in [spread(), other] {
        for count in [3, 9] {
            let fleet = ranked(count, &parameters, |rank| if rank == 1 { running(14) } else { free() });
            assert_eq!(wait(fleet.at(ms(0))), Wait { until: wait_of_key(), reason: WaitReason::Affinity });
            assert!(rank(fleet.at(wait_of_key())).1);
        }
    }
}

#[test]
fn the_queue_at_home_counts_as_waited() {
    let full = |queue| {
        ranked(3, &spread(), move |rank| {
            if rank == 1 { ClusterStats { num_running_queries: 14, ..queued(queue) } } else { free() }
        })
    };
    let until = wait_of_key().checked_sub(ms(10)).unwrap();
    assert_eq!(wait(full(10).at(ms(0))), Wait { until, reason: WaitReason::Affinity });
    assert!(rank(full(10).at(until)).1);
    assert!(rank(full(60).at(ms(0))).1, "it would wait for longer than it does");
}

#[test]
fn who_would_queue_for_longer_than_its_key_waits_leaves_before_the_primary_is_full() {
    let at_home = wait_of_key().as_millis() as u64;
    assert!((2..48).contains(&at_home), "{at_home}");
    let fleet = |queue| ranked(5, &spread(), move |rank| if rank == 1 { queued(queue) } else { free() });
    assert_eq!(rank(fleet(at_home).at(ms(0))), (1, false), "its key waits a little longer than that");
    let (left, is_fallback) = rank(fleet(at_home + 1).at(ms(0)));
    assert!((2..=3).contains(&left) && is_fallback, "rank {left}");
    // Without a spread, and where the primary is taken at once whatever its queue, nobody does.
    let without = PulsarWaitAndWidenParameters { affinity_wait_spread: 0.0, ..spread() };
    let eligible = PulsarWaitAndWidenParameters { primary_admission: PrimaryAdmission::Eligible, ..spread() };
    for parameters in [without, eligible] {
        let fleet = ranked(5, &parameters, |rank| if rank == 1 { queued(5_000) } else { free() });
        assert_eq!(rank(fleet.at(ms(60_000))), (1, false));
    }
}

#[test]
fn who_leaves_goes_to_the_next_two_ranks_alone_and_only_to_a_free_slot() {
    for (free_rank, expected) in [(2, 2), (3, 3), (4, 1)] {
        let fleet = ranked(5, &spread(), |rank| match rank {
            1 => queued(5_000),
            _ if rank == free_rank => free(),
            _ => running(10),
        });
        for elapsed in [ms(0), ms(60_000)] {
            assert_eq!(rank(fleet.at(elapsed)).0, expected);
        }
    }
}

#[test]
fn who_leaves_does_so_only_for_a_sooner_first_token() {
    let mut parameters = spread();
    parameters.widening.affinity_input_tokens_scale = 0.1;
    // Here 100 ms of queue and 10 of prefill, there 100 ms of prefill and the way.
    for (rtt_ms, expected) in [(9, true), (11, false)] {
        let fleet = ranked(3, &parameters, |rank| match rank {
            1 => queued(100),
            _ => ClusterStats { rtt: Nanos(rtt_ms * 1_000_000), ..free() },
        });
        let request = RoutingRequest { input_tokens: Tokens(100), ..keyed_at(ms(0)) };
        let (_, is_fallback) = rank(fleet.decide(&request, &Exclusions::default()));
        assert_eq!(is_fallback, expected, "{rtt_ms} ms");
    }
}

#[test]
fn a_primary_with_a_free_slot_keeps_its_keys_however_long_they_have_waited() {
    let fleet = ranked(3, &spread(), |rank| {
        if rank == 1 { ClusterStats { queued_input: Tokens(5_000), ..running(9) } } else { free() }
    });
    assert_eq!(rank(fleet.at(ms(60_000))), (1, false));
}
