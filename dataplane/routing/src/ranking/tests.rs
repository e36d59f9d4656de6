use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::{
    Cluster, Exclusions, RankingTable, Target, TargetName,
    testing::fleet::{any_exclusions, eligible_positions, exclude, naive_ranking, weighted},
};

const MAX: RendezvousWeight = RendezvousWeight::MaxInputTps;

/// Weights as they come, equal ones and invalid ones among them.
fn any_weights(count_max: usize) -> impl Strategy<Value = Vec<f64>> {
    let weight = prop_oneof![4 => 1.0..100.0, 2 => Just(10.0), 1 => Just(0.0), 1 => Just(f64::MAX)];
    proptest::collection::vec(weight, 0..count_max)
}

fn positions(ranks: &[ClusterIndex]) -> Vec<usize> {
    ranks.iter().map(|cluster| cluster.0).collect()
}

fn with_table(target: Target, seed: &Seed) -> Target {
    let table = RankingTable::build(&target.name, seed, MAX, &target.clusters);
    Target { ranking: Some(Arc::new(table)), ..target }
}

proptest! {
    #[test]
    fn the_first_ranks_are_those_of_the_sorted_ranking(
        weights in any_weights(40),
        key: Vec<u8>,
        counts in proptest::collection::vec(0..50_usize, 4),
        ranking_revision in 0..2_u64,
    ) {
        let target = Target { ranking_revision, ..weighted(&weights) };
        let seed = Seed::new("a seed");
        let fleet = target.fleet();
        let ranking = KeyRanking::of(&fleet, &seed, MAX, Slot::of(&key));
        let naive = naive_ranking(&target, "a seed", MAX, &key);
        prop_assert_eq!(positions(&ranking.to_vec()), &naive[..]);
        let mut memo = RankingMemo::default();
        for count in counts {
            let first = positions(ranking.first(count, &mut memo));
            prop_assert_eq!(&first[..], &naive[..count.min(naive.len())]);
        }
        for index in 0..weights.len() {
            let rank = naive.iter().position(|ranked| *ranked == index).map(|rank| rank as u32 + 1);
            prop_assert_eq!(ranking.rank_of(ClusterIndex(index)), rank);
        }
    }

    #[test]
    fn a_walk_ends_at_the_first_that_is_eligible_and_feasible(
        weights in any_weights(40),
        key: Vec<u8>,
        excluded in any_exclusions(),
        infeasible in proptest::collection::vec(any::<bool>(), 40),
    ) {
        let target = weighted(&weights);
        let seed = Seed::default();
        let fleet = target.fleet();
        let ranking = KeyRanking::of(&fleet, &seed, MAX, Slot::of(&key));
        let exclusions = excluded.apply(&target);
        let left = eligible_positions(&target, &exclusions);
        let mut expected = None;
        let mut after_infeasible = false;
        for (index, rank) in naive_ranking(&target, "", MAX, &key).into_iter().zip(1..) {
            if left.contains(&index) {
                if !infeasible[index] {
                    expected = Some(Walked { cluster: ClusterIndex(index), rank, after_infeasible });
                    break;
                }
                after_infeasible = true;
            }
        }
        let eligible = Eligible::new(&target.clusters, &exclusions);
        let is_feasible = |cluster: ClusterIndex| !infeasible[cluster.0];
        prop_assert_eq!(ranking.walk(&eligible, is_feasible, &mut RankingMemo::default()), expected);
        prop_assert_eq!(ranking.walk_all(&eligible, is_feasible), expected);
    }
}

/// Computed by an independent implementation (Python, with the xxhash package). A change here moves nearly
/// every key of every fleet, and makes gateways of two versions disagree.
#[test]
fn slots_and_rankings_are_pinned() {
    let long_key: Vec<u8> = (0..512).map(|byte| byte as u8).collect();
    let session: &[u8] = b"session-1";
    assert_eq!(Cluster::hash_id("cluster-a"), 0x28da_ca22_5238_b973);
    for (seed, routing_key, model, key, slot, letters) in [
        ("", None, "llama-3", session, 0xc07e, "acdbe"),
        ("", Some(""), "llama-3", session, 0xc07e, "decba"),
        ("7", Some("tenant"), "llama-3", session, 0xc07e, "cbade"),
        ("a longer seed", Some("tenant"), "m", &long_key, 0x1059, "baced"),
    ] {
        let mut target = weighted(&[1_000.0, 2_000.0, 4_000.0, 500.0, 1_000.0]);
        for (cluster, letter) in target.clusters.iter_mut().zip('a'..) {
            cluster.cluster_id = format!("cluster-{letter}").into();
            cluster.id_hash = Cluster::hash_id(&cluster.cluster_id);
        }
        target.name = Arc::new(TargetName { routing_key: routing_key.map(Into::into), model: model.into() });
        let seed = Seed::new(seed);
        let target = with_table(target, &seed);
        let fleet = target.fleet();
        let ranking = KeyRanking::of(&fleet, &seed, MAX, Slot::of(key));
        assert_eq!(ranking.slot().number(), slot);
        let ranked: String = ranking.to_vec().iter().map(|cluster| ('a'..).nth(cluster.0).unwrap()).collect();
        assert_eq!(ranked, letters);
    }
}

#[test]
fn a_table_another_seed_and_a_remembered_ranking_all_agree_with_the_rule() {
    let weights: Vec<f64> = (1..=30).map(f64::from).collect();
    let seed = Seed::new("own");
    let target = Target { ranking_revision: 5, ..with_table(weighted(&weights), &seed) };
    let mut memo = RankingMemo::default();
    for turn in 0..2 {
        for key in 0..500_u32 {
            for name in ["own", "another"] {
                let (key, seed) = (key.to_le_bytes(), Seed::new(name));
                let fleet = target.fleet();
                let ranking = KeyRanking::of(&fleet, &seed, MAX, Slot::of(&key));
                let naive = naive_ranking(&target, name, MAX, &key);
                for count in [1, 8, 9, 30] {
                    let first = positions(ranking.first(count, &mut memo));
                    assert_eq!(first, naive[..count], "turn {turn}, seed {name}, key {key:?}");
                }
            }
        }
    }
}

#[test]
fn keys_fall_into_all_slots_alike() {
    let mut counts = vec![0; 256];
    for key in 0..100_000_u32 {
        counts[(Slot::of(&key.to_le_bytes()).number() >> 8) as usize] += 1;
    }
    let statistic = crate::testing::fleet::chi_squared_uniform(&counts);
    // The 99.9 % quantile at 255 degrees of freedom.
    assert!(statistic < 330.5, "{statistic}");
    assert_eq!(Slot::of(b"session-1").number(), 0xc07e);
}

#[test]
fn slots_of_an_excluded_cluster_spread_over_the_others_by_weight() {
    let target = weighted(&[1.0, 2.0, 3.0, 4.0]);
    let seed = Seed::default();
    let excluded = exclude(&target, [3], []);
    let eligible = Eligible::new(&target.clusters, &excluded);
    let mut memo = RankingMemo::default();
    let mut counts = [0; 3];
    for number in 0..=u16::MAX {
        let fleet = target.fleet();
        let ranking = KeyRanking::of(&fleet, &seed, MAX, Slot(number));
        let walked = ranking.walk(&eligible, |_| true, &mut memo).unwrap();
        if walked.rank == 2 {
            counts[walked.cluster.0] += 1;
        }
    }
    let statistic = crate::testing::fleet::chi_squared(&counts, &[1.0, 2.0, 3.0]);
    // The 99.9 % quantile at 2 degrees of freedom.
    assert!(statistic < 13.9, "{statistic}: {counts:?}");
}

#[test]
fn nothing_is_ranked_without_a_cluster_or_a_weight() {
    for target in [weighted(&[]), weighted(&[0.0, -1.0, f64::NAN, f64::INFINITY])] {
        let seed = Seed::default();
        let target = with_table(target, &seed);
        let fleet = target.fleet();
        let ranking = KeyRanking::of(&fleet, &seed, MAX, Slot::of(b"k"));
        assert!(ranking.to_vec().is_empty());
        let eligible = Eligible::new(&target.clusters, &Exclusions::default());
        assert_eq!(ranking.walk(&eligible, |_| true, &mut RankingMemo::default()), None);
    }
}
