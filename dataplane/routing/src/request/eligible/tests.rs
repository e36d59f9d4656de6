use proptest::prelude::*;

use super::*;
use crate::{
    Algorithm, ClusterUid,
    testing::fleet::{any_exclusions, any_plans, build, eligible_positions, exclude, idle, target},
};

proptest! {
    #[test]
    fn count_ranks_and_positions_are_those_of_a_plain_filter(
        plans in any_plans(30),
        excluded in any_exclusions(),
    ) {
        let target = target(Algorithm::Random, build(&plans).0);
        let exclusions = excluded.apply(&target);
        let expected = eligible_positions(&target, &exclusions);
        let eligible = Eligible::new(&target.clusters, &exclusions);
        prop_assert_eq!(eligible.count() as usize, expected.len());
        let by_rank: Vec<_> = (0..eligible.count()).map(|rank| eligible.nth(rank).0).collect();
        prop_assert_eq!(&by_rank, &expected);
        prop_assert_eq!(eligible.indices().collect::<Vec<_>>(), expected.clone());
        let others: Vec<_> = (0..plans.len()).filter(|index| !expected.contains(index)).collect();
        prop_assert_eq!(eligible.excluded().collect::<Vec<_>>(), others);
    }
}

#[test]
fn as_many_clusters_as_one_request_can_exclude_are_skipped() {
    let target = target(Algorithm::Random, idle(40));
    let capacity = Exclusions::CAPACITY;
    let exclusions = exclude(&target, 0..capacity, (20..20 + capacity).map(|index| (index, 0)));
    let eligible = Eligible::new(&target.clusters, &exclusions);
    let expected: Vec<_> = (capacity..20).chain(20 + capacity..40).collect();
    assert_eq!(eligible.indices().collect::<Vec<_>>(), expected);
}

#[test]
fn a_target_that_repeats_uids_never_yields_an_excluded_cluster() {
    let mut clusters = idle(40);
    for cluster in &mut clusters[2..] {
        cluster.uid = ClusterUid(1);
    }
    let target = target(Algorithm::Random, clusters);
    let eligible = Eligible::new(&target.clusters, &exclude(&target, [1], []));
    assert_eq!(eligible.indices().collect::<Vec<_>>(), [0]);
    assert_eq!(eligible.count(), 1);
}
