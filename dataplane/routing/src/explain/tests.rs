use std::time::Duration;

use super::*;
use crate::{
    AlgorithmKind, ClusterStats, Nanos, PrimaryAdmission, PulsarWaitAndWidenParameters, SampleCount, Seconds,
    Seed, Tokens, TokensPerSecond, WaitAndWidenParameters, WaitReason, Widening,
    testing::fleet::{clusters, exclude, idle, power_of, request, target, throughput},
};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn explained(target: &Target, request: &RoutingRequest<'_>, exclusions: &Exclusions) -> Explanation {
    explain(target, &target.policy.method, request, exclusions, &mut DecisionState::with_seed(1))
}

fn keyed_at(elapsed: Duration) -> RoutingRequest<'static> {
    RoutingRequest { affinity_key: Some(b"session-1"), elapsed, ..request(100) }
}

fn verdicts(explanation: &Explanation) -> Vec<Verdict> {
    explanation.clusters.iter().map(|row| row.verdict).collect()
}

fn guarded() -> PulsarWaitAndWidenParameters {
    PulsarWaitAndWidenParameters {
        widening: Widening {
            affinity_wait: ms(50),
            affinity_input_tokens_scale: 0.5,
            max_queued: 3,
            ..Widening::default()
        },
        primary_admission: PrimaryAdmission::Capacity,
        ..PulsarWaitAndWidenParameters::default()
    }
}

/// Clusters by the rank of the test's key, the first full and the last far away.
fn ranked_fleet() -> (Target, Vec<usize>) {
    let mut target = target(Algorithm::PulsarWaitAndWiden(guarded()), idle(5));
    let order = Ranking::new(&target, &Seed::default(), RendezvousWeight::default(), b"session-1").to_vec();
    let order: Vec<usize> = order.iter().map(|cluster| cluster.0).collect();
    for index in &order {
        target.clusters[*index].stats.max_engine_concurrency = 10;
    }
    target.clusters[order[0]].stats.num_running_queries = 13;
    target.clusters[order[2]].stats.rtt = Nanos(100_000_000);
    (target, order)
}

#[test]
fn explaining_takes_no_turn_and_counts_no_load() {
    for kind in AlgorithmKind::ALL {
        let target =
            target(kind.with_defaults(), vec![crate::testing::fleet::cluster(0, 2, throughput(1.0))]);
        for _ in 0..3 {
            let explanation = explained(&target, &keyed_at(ms(0)), &Exclusions::default());
            let Decision::Selected(selected) = explanation.decision else { panic!("{kind:?}") };
            assert_eq!(&*selected.backend.backend_id, "cluster-0000-0", "{kind:?}");
        }
        assert_eq!(target.clusters[0].load.running(), 0);
    }
}

#[test]
fn a_row_tells_the_terms_of_the_time_to_first_token() {
    let stats = ClusterStats {
        rtt: Nanos(2_000_000),
        queued_input: Tokens(500),
        last_mean_input_tps: TokensPerSecond(1_000.0),
        ..ClusterStats::default()
    };
    let target = target(Algorithm::Random, clusters([stats]));
    let _running = target.clusters[0].load.enter(Tokens(700));
    let explanation = explained(&target, &request(100), &Exclusions::default());
    let row = &explanation.clusters[0];
    assert_eq!((row.num_running_queries, row.queue_size, row.queued_input), (1, 1, Tokens(700)));
    let terms = [row.rtt, row.queue_delay, row.prefill, row.ttft].map(Seconds::to_duration);
    assert_eq!(terms, [2, 700, 100, 802].map(|count| Some(ms(count))));
    assert_eq!(explanation.best_ttft.and_then(Seconds::to_duration), Some(ms(802)));
}

#[test]
fn a_held_request_shows_its_full_primary_and_when_the_others_open() {
    let (target, order) = ranked_fleet();
    let explanation = explained(&target, &keyed_at(ms(20)), &Exclusions::default());
    let Decision::Wait(wait) = explanation.decision else { panic!("{:?}", explanation.decision) };
    assert_eq!((wait.until, wait.reason), (ms(50), WaitReason::Affinity));
    assert_eq!(explanation.affinity_wait_ends, Some(ms(50)));
    assert!(explanation.slot.is_some());
    let row = |rank: usize| &explanation.clusters[order[rank - 1]];
    for rank in 1..=5 {
        assert_eq!(row(rank).rank, Some(rank as u32));
    }
    let primary = row(1);
    assert!(primary.is_in_group);
    assert_eq!(primary.verdict, Verdict::Full);
    let in_group = primary.in_group.unwrap();
    assert_eq!((in_group.max_queued, in_group.has_capacity, in_group.is_unlocked), (3, false, true));
    assert_eq!(in_group.prefill.to_duration(), Some(ms(5)), "scaled");
    assert_eq!(primary.prefill.to_duration(), Some(ms(10)));
    for (rank, number, opens_at) in
        [(1, 0, ms(0)), (2, 1, ms(50)), (3, 1, ms(50)), (4, 2, ms(100)), (5, 2, ms(100))]
    {
        assert_eq!(row(rank).band, Some(Band { number, opens_at }));
        assert_eq!(row(rank).verdict, if rank == 1 { Verdict::Full } else { Verdict::BandLocked });
    }
    // What would be the open set, and when its second bucket opens.
    let third = row(3).in_open_set.unwrap();
    assert_eq!((third.bucket, third.unlocks_at, third.is_unlocked), (2, Some(ms(75)), false));
    assert_eq!((third.max_queued, third.has_capacity), (0, true));
    assert_eq!(row(4).in_open_set, None);
}

#[test]
fn a_widened_request_shows_who_was_sampled() {
    let (target, order) = ranked_fleet();
    let explanation = explained(&target, &keyed_at(ms(50)), &Exclusions::default());
    let row = |rank: usize| &explanation.clusters[order[rank - 1]];
    assert_eq!(row(2).verdict, Verdict::Chosen);
    assert!(row(2).in_open_set.unwrap().is_sampled && row(2).cost.is_some());
    assert_eq!(row(1).verdict, Verdict::Full);
    assert_eq!(row(3).verdict, Verdict::BucketLocked);
    assert_eq!(row(4).verdict, Verdict::BandLocked);
    assert_eq!(explanation.chosen().unwrap().cluster.0, order[1]);
}

#[test]
fn a_primary_that_is_taken_leaves_the_others_unconsidered() {
    let (mut target, order) = ranked_fleet();
    target.clusters[order[0]].stats.num_running_queries = 0;
    let explanation = explained(&target, &keyed_at(ms(60)), &exclude(&target, [order[1]], []));
    assert_eq!(explanation.clusters[order[0]].verdict, Verdict::Chosen);
    assert_eq!(explanation.clusters[order[1]].verdict, Verdict::Excluded);
    assert_eq!(explanation.clusters[order[2]].verdict, Verdict::NotConsidered);
}

#[test]
fn pulsar_shows_what_it_walked_past() {
    let kv = |tokens| ClusterStats { kv_free: Some(Tokens(tokens)), ..throughput(1_000.0) };
    let mut fleet = clusters([kv(100), kv(100), kv(100), kv(100)]);
    fleet[3].rendezvous = crate::RendezvousWeights::default();
    let mut target = target(crate::testing::fleet::pulsar(RendezvousWeight::default(), true), fleet);
    let order = Ranking::new(&target, &Seed::default(), RendezvousWeight::default(), b"session-1").to_vec();
    target.clusters[order[0].0].stats = kv(99);
    let explanation = explained(&target, &keyed_at(ms(0)), &Exclusions::default());
    let expected =
        [(order[0].0, Verdict::KvShort), (order[1].0, Verdict::Chosen), (order[2].0, Verdict::RankedLower)];
    for (index, verdict) in expected {
        assert_eq!(explanation.clusters[index].verdict, verdict);
    }
    let unweighted = &explanation.clusters[3];
    assert_eq!((unweighted.verdict, unweighted.rank, unweighted.weight), (Verdict::NoWeight, None, None));
    assert_eq!(explanation.clusters[order[0].0].is_kv_feasible, Some(false));
}

#[test]
fn sampling_shows_costs() {
    let target = target(power_of(2, crate::Comparator::NumRequestsQueued), idle(3));
    let explanation = explained(&target, &request(1), &Exclusions::default());
    let mut verdicts = verdicts(&explanation);
    verdicts.sort_by_key(|verdict| verdict.as_str());
    assert_eq!(verdicts, [Verdict::Chosen, Verdict::NotSampled, Verdict::Outdone]);
    let sampled = explanation.clusters.iter().filter(|row| row.cost == Some(0.0)).count();
    assert_eq!(sampled, 2);
}

#[test]
fn the_group_of_wait_and_widen_is_shown_by_its_ring() {
    let parameters = WaitAndWidenParameters {
        widening: Widening {
            affinity_wait: ms(50),
            sample_count: SampleCount::new(1).unwrap(),
            ..Widening::default()
        },
        affinity_group: 2,
        ..WaitAndWidenParameters::default()
    };
    let target = target(Algorithm::WaitAndWiden(parameters), idle(5));
    let explanation = explained(&target, &keyed_at(ms(0)), &Exclusions::default());
    let group: Vec<_> = explanation.clusters.iter().filter(|row| row.is_in_group).collect();
    assert_eq!(group.len(), 2);
    assert!(group.iter().any(|row| row.verdict == Verdict::Chosen));
    assert!(group.iter().any(|row| row.verdict == Verdict::NotSampled));
    let outside = explanation.clusters.iter().find(|row| !row.is_in_group).unwrap();
    assert_eq!((outside.verdict, outside.in_group, outside.band), (Verdict::NotConsidered, None, None));
    assert_eq!(outside.in_open_set.unwrap().unlocks_at, Some(ms(50)));
}

#[test]
fn a_target_without_clusters_is_explained_by_its_decision_alone() {
    for kind in AlgorithmKind::ALL {
        let explanation =
            explained(&target(kind.with_defaults(), Vec::new()), &keyed_at(ms(0)), &Exclusions::default());
        assert!(explanation.clusters.is_empty() && explanation.chosen().is_none());
        assert_eq!(explanation.admission, Ok(()));
    }
}

#[test]
fn who_leaves_a_queue_is_told_so_of_its_primary_and_when_it_would_be_given_up() {
    let (mut target, order) = ranked_fleet();
    let parameters = PulsarWaitAndWidenParameters { affinity_wait_spread: 1.0, ..guarded() };
    let wait = parameters.affinity_wait_of(Slot::of(b"session-1"));
    let policy = std::sync::Arc::make_mut(&mut target.policy);
    policy.method.algorithm = Algorithm::PulsarWaitAndWiden(parameters);
    let primary = &mut target.clusters[order[0]].stats;
    (primary.num_running_queries, primary.queued_input) = (11, Tokens(10));
    let explanation = explained(&target, &keyed_at(ms(0)), &Exclusions::default());
    assert_eq!(
        explanation.affinity_wait_ends,
        wait.checked_sub(ms(1)),
        "the queue there counts: 10 tokens, a millisecond"
    );
    assert_eq!(explanation.chosen().map(|row| row.cluster.0), Some(order[0]));
    target.clusters[order[0]].stats.queued_input = Tokens(5_000);
    let explanation = explained(&target, &keyed_at(ms(0)), &Exclusions::default());
    assert_eq!(explanation.affinity_wait_ends, Some(ms(0)));
    assert_eq!(explanation.chosen().map(|row| row.cluster.0), Some(order[1]));
    assert_eq!(explanation.clusters[order[0]].verdict, Verdict::QueueTooLong);
    assert_eq!(explanation.clusters[order[4]].verdict, Verdict::BandLocked);
}
