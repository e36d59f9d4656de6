use super::*;
use crate::{
    Algorithm, ClusterStats, Target,
    testing::fleet::{cluster, exclude, target},
};

fn one_cluster(backends: usize) -> Target {
    target(Algorithm::Random, vec![cluster(0, backends, ClusterStats::default())])
}

fn turns(target: &Target, exclusions: &Exclusions, count: usize) -> Vec<String> {
    (0..count)
        .map(|_| choose(&target.clusters[0], exclusions, true).unwrap().backend_id.to_string())
        .collect()
}

#[test]
fn backends_take_turns() {
    let target = one_cluster(3);
    let turns = turns(&target, &Exclusions::default(), 6);
    assert_eq!(turns[..3], ["cluster-0000-0", "cluster-0000-1", "cluster-0000-2"]);
    assert_eq!(turns[..3], turns[3..]);
}

#[test]
fn those_left_share_the_turns_of_an_excluded_one_evenly() {
    let target = one_cluster(3);
    let turns = turns(&target, &exclude(&target, [], [(0, 1)]), 4);
    assert_eq!(turns, ["cluster-0000-0", "cluster-0000-2", "cluster-0000-0", "cluster-0000-2"]);
}

#[test]
fn no_backend_is_left_when_all_are_excluded_or_there_is_none() {
    let target = one_cluster(2);
    assert!(choose(&target.clusters[0], &exclude(&target, [], [(0, 0), (0, 1)]), true).is_none());
    let empty = one_cluster(0);
    assert!(choose(&empty.clusters[0], &Exclusions::default(), true).is_none());
    assert!(choose(&empty.clusters[0], &exclude(&target, [], [(0, 0)]), true).is_none());
}

#[test]
fn a_single_candidate_takes_no_turn() {
    let single = one_cluster(1);
    choose(&single.clusters[0], &Exclusions::default(), true).unwrap();
    assert_eq!(single.clusters[0].load.next_backend(), 0);
    let pair = one_cluster(2);
    choose(&pair.clusters[0], &exclude(&pair, [], [(0, 1)]), true).unwrap();
    assert_eq!(pair.clusters[0].load.next_backend(), 0);
}
