use super::*;
use crate::testing::fleet::{chi_squared_uniform, idle};

fn nodes(count: u64) -> VirtualNodes {
    VirtualNodes::new(count).unwrap()
}

fn ring(clusters: &[Cluster]) -> AffinityRing {
    AffinityRing::build(clusters, &Seed::default(), VirtualNodes::default())
}

/// Groups of evenly spread keys, as cluster ids.
fn groups(clusters: &[Cluster], size: usize) -> Vec<Vec<u64>> {
    let (ring, mut scratch) = (ring(clusters), GroupScratch::default());
    let positions = (0..1_000_u64).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let id = |owner: &u16| clusters[usize::from(*owner)].uid.0;
    positions.map(|position| ring.group(position, size, &mut scratch).iter().map(id).collect()).collect()
}

#[test]
fn a_group_is_of_the_first_distinct_clusters_clockwise() {
    let ring = AffinityRing {
        points: [10, 20, 30, 40].into(),
        owners: [2, 0, 2, 1].into(),
        id_hashes: [0, 1, 2].into(),
    };
    let mut scratch = GroupScratch::default();
    for (position, count, expected) in [
        (0, 1, [2].as_slice()),
        (10, 1, &[2]),
        (11, 1, &[0]),
        (11, 3, &[0, 2, 1]),
        (31, 2, &[1, 2]),
        (41, 2, &[2, 0]),
        (u64::MAX, 9, &[2, 0, 1]),
        (5, 0, &[]),
    ] {
        assert_eq!(ring.group(position, count, &mut scratch), expected, "{count} from {position}");
    }
}

#[test]
fn a_smaller_group_is_the_beginning_of_a_larger_one() {
    let clusters = idle(7);
    for (small, large) in groups(&clusters, 2).iter().zip(groups(&clusters, 4)) {
        assert_eq!(small[..], large[..2]);
    }
}

#[test]
fn a_cluster_that_leaves_changes_only_the_groups_that_it_was_in() {
    let before = idle(8);
    let mut after = idle(8);
    let gone = after.remove(3).uid.0;
    for (old, new) in groups(&before, 2).iter().zip(groups(&after, 2)) {
        if old.contains(&gone) {
            assert!(old.iter().filter(|id| **id != gone).all(|id| new.contains(id)));
        } else {
            assert_eq!(*old, new);
        }
    }
}

#[test]
fn first_places_are_spread_to_within_what_150_points_each_promise() {
    let mut counts = [0; 8];
    for group in groups(&idle(8), 1) {
        counts[group[0] as usize] += 1;
    }
    // Shares vary by 1/√150 or so of themselves beside what 1000 keys do.
    assert!(counts.iter().all(|count| (75..=175).contains(count)), "{counts:?}");
    assert!(chi_squared_uniform(&counts) < 60.0, "{counts:?}");
}

#[test]
fn another_seed_is_another_ring() {
    let clusters = idle(4);
    let points = |seed| AffinityRing::build(&clusters, &Seed::new(seed), nodes(10)).points;
    assert_ne!(points(""), points("a"));
    assert_eq!(points("a"), points("a"));
}

/// A change here moves the groups of nearly every key, and makes gateways of two versions disagree. Computed by
/// an independent implementation (Python, with the xxhash package).
#[test]
fn points_are_pinned() {
    let id_hash = Cluster::hash_id("cluster-a");
    assert_eq!(point(&Seed::default(), id_hash, 0), 0xf6f1_b055_50a1_6922);
    assert_eq!(point(&Seed::default(), id_hash, 149), 0x8300_7183_6d24_ef9b);
    assert_eq!(point(&Seed::new("seed"), id_hash, 1), 0x8657_6896_9565_9a1b);
}

#[test]
fn a_ring_of_many_clusters_stays_within_its_bound() {
    assert_eq!(AffinityRing::points_per_cluster(20, nodes(150)), 150);
    assert_eq!(AffinityRing::points_per_cluster(6_990, nodes(150)), 150);
    assert_eq!(AffinityRing::points_per_cluster(65_535, nodes(150)), 16);
    assert_eq!(AffinityRing::points_per_cluster(0, nodes(1)), 1);
}

#[test]
fn nothing_is_in_the_group_of_an_empty_ring() {
    let mut scratch = GroupScratch::default();
    assert!(ring(&[]).group(7, 3, &mut scratch).is_empty());
}

#[test]
fn virtual_nodes_are_within_1_and_1024() {
    for (count, expected) in [(0, None), (1, Some(1)), (1024, Some(1024)), (1025, None), (65_537, None)] {
        assert_eq!(VirtualNodes::new(count).map(VirtualNodes::get), expected, "{count}");
    }
    assert_eq!(VirtualNodes::default().get(), 150);
}
