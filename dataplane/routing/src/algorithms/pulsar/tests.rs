use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::{
    Algorithm, ClusterStats, Comparator, Decision, DecisionState, Exclusions, RendezvousWeight,
    RoutingRequest, Selected, Target, Tokens, TokensPerSecond, UnavailableReason,
    testing::fleet::{
        any_exclusions, any_plans, any_request, build, cluster, clusters, decide, eligible_positions,
        exclude, naive_ranking, pulsar, request, selected, target, throughput, unavailable, weighted,
    },
};

const MAX: RendezvousWeight = RendezvousWeight::MaxInputTps;

fn decide_key(target: &Target, key: &[u8], exclusions: &Exclusions) -> Selected {
    let request = RoutingRequest { affinity_key: Some(key), ..request(100) };
    selected(decide(target, &request, exclusions, &mut DecisionState::with_seed(0)))
}

fn keys(count: u32) -> impl Iterator<Item = [u8; 4]> {
    (0..count).map(u32::to_le_bytes)
}

proptest! {
    #[test]
    fn the_choice_is_that_of_a_naive_walk_down_the_sorted_ranking(
        plans in any_plans(30),
        excluded in any_exclusions(),
        request in any_request(),
        key in proptest::collection::vec(any::<u8>(), 1..20),
        by_mean: bool,
        consider_kv: bool,
        ranking_revision in 0..2_u64,
    ) {
        let weight = if by_mean { RendezvousWeight::LastMeanInputTps } else { MAX };
        let (clusters, _running) = build(&plans);
        let target = Target { ranking_revision, ..target(pulsar(weight, consider_kv), clusters) };
        let exclusions = excluded.apply(&target);
        let eligible = eligible_positions(&target, &exclusions);
        let request = RoutingRequest { affinity_key: Some(&key), ..request };

        let mut expected = None;
        let mut after_kv_skip = false;
        for (position, index) in naive_ranking(&target, "", weight, &key).into_iter().enumerate() {
            let stats = &target.clusters[index].stats;
            let free = match (stats.kv_free, stats.kv_capacity, stats.kv_used) {
                (Some(free), _, _) => Some(free.0),
                (None, Some(capacity), Some(used)) => Some(capacity.0.saturating_sub(used.0)),
                _ => None,
            };
            if !eligible.contains(&index) {
                continue;
            }
            if consider_kv && free.is_none_or(|free| free < request.input_tokens.0) {
                after_kv_skip = true;
                continue;
            }
            expected = Some((index, position as u32 + 1, after_kv_skip));
            break;
        }

        let mut state = DecisionState::with_seed(0);
        // The second time the ranking may be remembered.
        for _ in 0..2 {
            let decision = decide(&target, &request, &exclusions, &mut state);
            if let Some(expected) = expected {
                let selected = selected(decision);
                prop_assert_eq!((selected.cluster.0, selected.rank, selected.after_kv_skip), expected);
                prop_assert_eq!(selected.is_fallback, selected.rank > 1);
            } else {
                let expected = match (plans.is_empty(), eligible.is_empty()) {
                    (true, _) => UnavailableReason::NoActiveBackend,
                    (false, true) => UnavailableReason::AllExcluded,
                    (false, false) => UnavailableReason::NoEligibleCandidate,
                };
                prop_assert_eq!(unavailable(decision), expected);
            }
        }
    }

    #[test]
    fn removing_a_cluster_moves_only_its_keys(
        weights in proptest::collection::vec(1.0..100.0, 2..12),
        removed: usize,
    ) {
        let before = weighted(&weights);
        let removed = removed % weights.len();
        let mut after = weighted(&weights);
        after.clusters.remove(removed);
        let gone = &before.clusters[removed].cluster_id;
        for key in keys(200) {
            let old = decide_key(&before, &key, &Exclusions::default()).backend.cluster_id.clone();
            let new = decide_key(&after, &key, &Exclusions::default()).backend.cluster_id.clone();
            // A key of the removed cluster moves to its second rank, the one it fails over to.
            let excluding = decide_key(&before, &key, &exclude(&before, [removed], []));
            prop_assert_eq!(&new, &excluding.backend.cluster_id);
            prop_assert_eq!(excluding.rank, if old == *gone { 2 } else { 1 });
            if old != *gone {
                prop_assert_eq!(new, old);
            }
        }
    }

    #[test]
    fn a_greater_weight_takes_keys_and_gives_none(
        weights in proptest::collection::vec(1.0..100.0, 2..12),
        raised: usize,
        factor in 1.0..10.0,
    ) {
        let raised = raised % weights.len();
        let before = weighted(&weights);
        let mut weights = weights;
        weights[raised] *= factor;
        let after = weighted(&weights);
        for key in keys(200) {
            let old = decide_key(&before, &key, &Exclusions::default()).cluster;
            let new = decide_key(&after, &key, &Exclusions::default()).cluster;
            prop_assert!(new == old || new.0 == raised);
        }
    }

    #[test]
    fn load_never_changes_the_ranking(
        plans in any_plans(12),
        key in proptest::collection::vec(any::<u8>(), 1..20),
    ) {
        let (busy, _running) = build(&plans);
        let calm = plans.iter().map(|plan| ClusterStats {
            max_input_tps: plan.stats.max_input_tps,
            ..ClusterStats::default()
        });
        let request = RoutingRequest { affinity_key: Some(&key), ..request(100) };
        let choose = |clusters| {
            let target = target(pulsar(MAX, false), clusters);
            match decide(&target, &request, &Exclusions::default(), &mut DecisionState::with_seed(0)) {
                Decision::Selected(selected) => Some(selected.cluster),
                _ => None,
            }
        };
        prop_assert_eq!(choose(busy), choose(clusters(calm)));
    }
}

#[test]
fn equal_scores_are_ranked_by_cluster_id() {
    // Scores of the second weight are infinite.
    for weight in [1.0, f64::MAX] {
        let mut target = weighted(&[weight; 3]);
        for cluster in &mut target.clusters {
            cluster.id_hash = 1;
        }
        let ranks = [vec![], vec![0], vec![0, 1], vec![1]].map(|excluded| {
            let selected = decide_key(&target, b"k", &exclude(&target, excluded, []));
            (selected.cluster.0, selected.rank)
        });
        assert_eq!(ranks, [(0, 1), (1, 2), (2, 3), (0, 1)], "weight {weight}");
    }
}

#[test]
fn clusters_without_a_valid_weight_are_ineligible_and_take_no_rank() {
    let invalid = [0.0, -1.0, f64::NAN, f64::INFINITY];
    let mut weights = invalid.to_vec();
    weights.push(1.0);
    let target = weighted(&weights);
    for key in keys(50) {
        let selected = decide_key(&target, &key, &Exclusions::default());
        assert_eq!((selected.cluster.0, selected.rank), (4, 1));
    }
    let none = weighted(&invalid);
    let request = RoutingRequest { affinity_key: Some(b"k"), ..request(1) };
    let decision = decide(&none, &request, &Exclusions::default(), &mut DecisionState::with_seed(0));
    assert_eq!(unavailable(decision), UnavailableReason::NoEligibleCandidate);
}

#[test]
fn each_weight_is_read_from_its_own_field() {
    let stats = |mean: f64, max: Option<f64>| ClusterStats {
        last_mean_input_tps: TokensPerSecond(mean),
        max_input_tps: max.map(TokensPerSecond),
        ..ClusterStats::default()
    };
    for (weight, expected) in [(MAX, 1), (RendezvousWeight::LastMeanInputTps, 0)] {
        let target = target(pulsar(weight, false), clusters([stats(5.0, None), stats(0.0, Some(5.0))]));
        assert_eq!(decide_key(&target, b"k", &Exclusions::default()).cluster.0, expected);
    }
}

#[test]
fn clusters_short_of_kv_tokens_are_walked_past_and_keep_their_rank() {
    let kv = |free: Option<u64>| ClusterStats { kv_free: free.map(Tokens), ..throughput(1.0) };
    for (free, is_enough) in [(None, false), (Some(99), false), (Some(100), true), (Some(u64::MAX), true)] {
        let fleet = |consider_kv| {
            target(pulsar(MAX, consider_kv), vec![cluster(0, 1, kv(free)), cluster(1, 1, kv(Some(100)))])
        };
        for key in keys(20) {
            let first = decide_key(&fleet(false), &key, &Exclusions::default());
            assert_eq!((first.rank, first.after_kv_skip), (1, false));
            let considered = decide_key(&fleet(true), &key, &Exclusions::default());
            if is_enough || first.cluster.0 == 1 {
                assert_eq!(considered.cluster, first.cluster);
                assert_eq!((considered.rank, considered.after_kv_skip), (1, false));
            } else {
                assert_eq!(considered.cluster.0, 1);
                assert_eq!((considered.rank, considered.after_kv_skip), (2, true));
            }
        }
    }
}

#[test]
fn an_excluded_cluster_is_not_a_kv_skip() {
    let short = ClusterStats { kv_free: Some(Tokens(0)), ..throughput(1e9) };
    let enough = ClusterStats { kv_free: Some(Tokens(100)), ..throughput(1.0) };
    let target = target(pulsar(MAX, true), clusters([short, enough]));
    let selected = decide_key(&target, b"k", &exclude(&target, [0], []));
    assert_eq!((selected.cluster.0, selected.rank, selected.after_kv_skip), (1, 2, false));
}

#[test]
fn a_request_without_a_key_is_decided_by_a_sample_of_two() {
    let parameters = PulsarParameters {
        seed: crate::Seed::default(),
        weight: MAX,
        consider_kv_free_tokens: true,
        comparator: Comparator::NumRequestsQueued,
    };
    // The weights and KV tokens are those of a ranking, which this request has not.
    let target = target(Algorithm::Pulsar(parameters), clusters((0..3).map(|_| ClusterStats::default())));
    let _running = target.clusters[1].load.enter(Tokens(1));
    let mut state = DecisionState::with_seed(7);
    let mut counts: HashMap<usize, u32> = HashMap::new();
    for _ in 0..1_000 {
        let selected = selected(decide(&target, &request(1), &Exclusions::default(), &mut state));
        assert_eq!(selected.rank, 1);
        *counts.entry(selected.cluster.0).or_default() += 1;
    }
    assert_eq!(counts.get(&1), None, "the busier of two never wins");
    assert!(counts[&0] > 400 && counts[&2] > 400, "{counts:?}");
}
