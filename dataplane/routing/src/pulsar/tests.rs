use std::{collections::HashMap, sync::Arc};

use proptest::prelude::*;

use super::*;
use crate::{
    Algorithm, ClusterStats, Comparator, Decision, DecisionState, Exclusions, Selected, Tokens,
    TokensPerSecond, UnavailableReason,
    fleet::{
        any_exclusions, any_plans, any_request, build, chi_squared, cluster, clusters, decide,
        eligible_positions, exclude, pulsar, request, selected, target, throughput, unavailable,
    },
};

const MAX: RendezvousWeight = RendezvousWeight::MaxInputTps;

fn name(routing_key: Option<&str>, model: &str) -> TargetName {
    TargetName { routing_key: routing_key.map(Arc::from), model: model.into() }
}

/// A target of the given weights.
fn weighted(weights: &[f64]) -> Target {
    target(pulsar(MAX, false), clusters(weights.iter().map(|weight| throughput(*weight))))
}

fn decide_key(target: &Target, key: &[u8], exclusions: &Exclusions) -> Selected {
    let request = RoutingRequest { affinity_key: Some(key), ..request(100) };
    selected(decide(target, &request, exclusions, &mut DecisionState::with_seed(0)))
}

fn keys(count: u32) -> impl Iterator<Item = [u8; 4]> {
    (0..count).map(u32::to_le_bytes)
}

/// The cluster ids of every key's ranks, by sorting all scores.
fn naive_ranking(target: &Target, weight: RendezvousWeight, seed: u64, key: &[u8]) -> Vec<usize> {
    let key_hash = hash_key(seed, &target.name, key);
    let mut scored = Vec::new();
    for (index, cluster) in target.clusters.iter().enumerate() {
        let weight = match weight {
            RendezvousWeight::MaxInputTps => cluster.stats.max_input_tps.map_or(0.0, |tps| tps.0),
            RendezvousWeight::LastMeanInputTps => cluster.stats.last_mean_input_tps.0,
        };
        if weight.is_finite() && weight > 0.0 {
            let hash = mix(key_hash, Cluster::hash_id(&cluster.cluster_id));
            let u = ((hash >> 12) as f64 + 0.5) / 2_f64.powi(52);
            scored.push((weight / -u.ln(), cluster.cluster_id.clone(), index));
        }
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.into_iter().map(|(_, _, index)| index).collect()
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
    ) {
        let weight = if by_mean { RendezvousWeight::LastMeanInputTps } else { MAX };
        let (clusters, _running) = build(&plans);
        let target = target(pulsar(weight, consider_kv), clusters);
        let exclusions = excluded.apply(&target);
        let eligible = eligible_positions(&target, &exclusions);
        let request = RoutingRequest { affinity_key: Some(&key), ..request };

        let mut expected = None;
        let mut after_kv_skip = false;
        for (position, index) in naive_ranking(&target, weight, 0, &key).into_iter().enumerate() {
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

        let decision = decide(&target, &request, &exclusions, &mut DecisionState::with_seed(0));
        if let Some(expected) = expected {
            let selected = selected(decision);
            prop_assert_eq!((selected.cluster.0, selected.rank, selected.after_kv_skip), expected);
        } else {
            let expected = match (plans.is_empty(), eligible.is_empty()) {
                (true, _) => UnavailableReason::NoActiveBackend,
                (false, true) => UnavailableReason::AllExcluded,
                (false, false) => UnavailableReason::NoEligibleCandidate,
            };
            prop_assert_eq!(unavailable(decision), expected);
        }
    }

    #[test]
    fn a_draw_that_may_not_reach_a_score_does_not(
        draws in [any_draw(), any_draw()],
        weights in [weight_of_any_size(), weight_of_any_size()],
    ) {
        let leader = draws[0].score(weights[0]);
        let draw = draws[1];
        prop_assert!(draw.may_reach(leader, weights[1]) || draw.score(weights[1]) < leader);
        prop_assert!(draw.may_reach(draw.score(weights[1]), weights[1]));
        prop_assert!(draw.may_reach(f64::NEG_INFINITY, weights[1]));
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

/// Often near 1, where winners are and where the bound on a score is tightest.
fn any_draw() -> impl Strategy<Value = Draw> {
    let bits = prop_oneof![0..1_u64 << 52, (0..44_u32).prop_map(|shift| (1 << 52) - (1 << shift))];
    bits.prop_map(|bits| Draw((bits as f64 + 0.5) * Draw::STEP))
}

fn weight_of_any_size() -> impl Strategy<Value = f64> {
    let extremes = [5e-324, 1e-323, f64::MIN_POSITIVE, 1e300, 1e308, f64::MAX];
    prop_oneof![
        4 => 1.0..100_000.0,
        2 => any::<f64>().prop_map(f64::abs).prop_filter("valid", |weight| *weight > 0.0 && weight.is_finite()),
        1 => proptest::sample::select(extremes.to_vec()),
    ]
}

/// Computed by an independent implementation (Python, with the xxhash package). A change here moves nearly
/// every key of every fleet, and makes gateways of two versions disagree.
#[test]
fn hashes_and_rankings_are_pinned() {
    let long_key: Vec<u8> = (0..512).map(|byte| byte as u8).collect();
    let id_hash = Cluster::hash_id("cluster-a");
    assert_eq!(id_hash, 0x28da_ca22_5238_b973);
    let session: &[u8] = b"session-1";
    for (seed, name, key, key_hash, combined, ranking) in [
        (0, name(None, "llama-3"), session, 0x1c95_33b8_176d_14c5, 0xf47f_41ed_2440_5543, "abdec"),
        (0, name(Some(""), "llama-3"), session, 0xd703_9e8e_678e_e73f, 0xb189_b068_90fe_10c2, "dbcae"),
        (7, name(Some("tenant"), "llama-3"), session, 0xc79c_a8a5_7fe9_2b14, 0xceb2_4217_5359_b698, "dacbe"),
        (
            u64::MAX,
            name(Some("tenant"), "m"),
            &long_key,
            0xcceb_ee7b_fdf4_f0ae,
            0x137c_2408_e3da_622e,
            "becad",
        ),
    ] {
        assert_eq!(hash_key(seed, &name, key), key_hash);
        assert_eq!(mix(key_hash, id_hash), combined);
        let mut target = weighted(&[1_000.0, 2_000.0, 4_000.0, 500.0, 1_000.0]);
        for (cluster, letter) in target.clusters.iter_mut().zip('a'..) {
            cluster.cluster_id = format!("cluster-{letter}").into();
            cluster.id_hash = Cluster::hash_id(&cluster.cluster_id);
        }
        target.name = Arc::new(name);
        if seed != 0 {
            continue;
        }
        let mut walked = String::new();
        for rank in 1..=5 {
            let excluded: Vec<_> = walked.chars().map(|letter| letter as usize - 'a' as usize).collect();
            let selected = decide_key(&target, key, &exclude(&target, excluded, []));
            assert_eq!(selected.rank, rank);
            walked.push(('a'..).nth(selected.cluster.0).unwrap());
        }
        assert_eq!(walked, ranking);
    }
}

#[test]
fn the_random_number_is_never_0_or_1() {
    let lowest = ((0_u64 >> 12) as f64 + 0.5) * Draw::STEP;
    let highest = ((u64::MAX >> 12) as f64 + 0.5) * Draw::STEP;
    assert_eq!((lowest, highest), (2_f64.powi(-53), 1.0 - 2_f64.powi(-53)));
    // The mixer maps 0 to 0, whatever else it does.
    assert_eq!(Draw::new(5, 5), Draw(lowest));
    for extreme in [Draw(lowest), Draw(highest)] {
        let score = extreme.score(1.0);
        assert!(score > 0.0 && score.is_finite(), "{extreme:?} scores {score}");
    }
}

#[test]
fn every_part_of_the_key_and_every_border_between_parts_counts() {
    let variants = [
        hash_key(0, &name(None, "ab"), b"cd"),
        hash_key(1, &name(None, "ab"), b"cd"),
        hash_key(0, &name(Some(""), "ab"), b"cd"),
        hash_key(0, &name(None, "abc"), b"d"),
        hash_key(0, &name(None, "a"), b"bcd"),
        hash_key(0, &name(Some("a"), "b"), b"cd"),
        hash_key(0, &name(Some("ab"), "c"), b"d"),
        hash_key(0, &name(Some("ab"), ""), b"cd"),
        hash_key(0, &name(Some("ab"), "cd"), b""),
        hash_key(0, &name(None, "abcd"), b""),
        hash_key(0, &name(None, "ab"), b"cd\0"),
    ];
    let distinct: std::collections::HashSet<_> = variants.iter().collect();
    assert_eq!(distinct.len(), variants.len());
}

#[test]
fn shares_of_keys_follow_weights() {
    let weights = [1.0, 2.0, 3.0, 4.0, 10.0, 0.5];
    let target = weighted(&weights);
    let mut counts = [0; 6];
    for key in keys(100_000) {
        counts[decide_key(&target, &key, &Exclusions::default()).cluster.0] += 1;
    }
    let statistic = chi_squared(&counts, &weights);
    // The 99.9 % quantile at 5 degrees of freedom.
    assert!(statistic < 20.5, "{statistic}: {counts:?}");
}

#[test]
fn the_keys_of_an_excluded_cluster_spread_over_the_others_by_weight() {
    let weights = [1.0, 2.0, 3.0, 4.0];
    let target = weighted(&weights);
    let exclusions = exclude(&target, [3], []);
    let mut counts = [0; 3];
    for key in keys(100_000) {
        let selected = decide_key(&target, &key, &exclusions);
        if selected.rank == 2 {
            counts[selected.cluster.0] += 1;
        }
    }
    let statistic = chi_squared(&counts, &weights[..3]);
    // The 99.9 % quantile at 2 degrees of freedom.
    assert!(statistic < 13.9, "{statistic}: {counts:?}");
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
