use super::*;
use crate::{Cluster, Seed, Target, VirtualNodes, Widening, testing::fleet};

fn parameters(seed: &str, affinity_group: u32) -> WaitAndWidenParameters {
    WaitAndWidenParameters {
        widening: Widening { seed: Seed::new(seed), ..Widening::default() },
        affinity_group,
        virtual_nodes: VirtualNodes::default(),
    }
}

fn target(revision: u64, clusters: Vec<Cluster>) -> Target {
    Target { ranking_revision: revision, ..fleet::target(crate::Algorithm::Random, clusters) }
}

fn points(cache: &RingCache) -> Vec<*const u64> {
    cache.entries.iter().map(|entry| entry.ring.first_point()).collect()
}

fn fresh_group(target: &Target, parameters: &WaitAndWidenParameters) -> Vec<u16> {
    RingCache::default().group(&target.fleet(), parameters, b"key").to_vec()
}

#[test]
fn a_ring_is_built_once_for_its_target_and_seed() {
    let (mut cache, target) = (RingCache::default(), target(1, fleet::idle(5)));
    cache.group(&target.fleet(), &parameters("a", 2), b"key");
    let built = points(&cache);
    cache.group(&target.fleet(), &parameters("a", 3), b"another key");
    assert_eq!(points(&cache), built);
    cache.group(&target.fleet(), &parameters("b", 2), b"key");
    assert_eq!(cache.entries.len(), 2);
}

#[test]
fn a_change_of_weights_alone_keeps_the_ring() {
    let mut cache = RingCache::default();
    cache.group(&target(1, fleet::idle(5)).fleet(), &parameters("", 2), b"key");
    let built = points(&cache);
    cache.group(&target(2, fleet::idle(5)).fleet(), &parameters("", 2), b"key");
    assert_eq!((points(&cache), cache.entries[0].revision), (built, 2));
}

#[test]
fn a_ring_of_another_list_of_clusters_is_never_used() {
    let mut other_ids = fleet::idle(6);
    other_ids.remove(0);
    // Of the same length, of another length, and each under a new revision and under none.
    for (revision, clusters) in
        [(2, other_ids), (2, fleet::idle(4)), (0, fleet::idle(6)), (0, fleet::idle(3))]
    {
        let mut cache = RingCache::default();
        cache.group(&target(revision.min(1), fleet::idle(5)).fleet(), &parameters("", 2), b"key");
        let changed = target(revision, clusters);
        let group = cache.group(&changed.fleet(), &parameters("", 2), b"key").to_vec();
        assert_eq!(group, fresh_group(&changed, &parameters("", 2)));
        assert_eq!(cache.entries.len(), 1, "the ring of before is dropped");
    }
}

#[test]
fn targets_of_other_names_do_not_share_rings() {
    let mut cache = RingCache::default();
    let first = target(1, fleet::idle(5));
    let mut second = target(1, fleet::idle(3));
    second.name = Arc::new(TargetName { routing_key: Some("tenant".into()), model: "llama-3".into() });
    cache.group(&first.fleet(), &parameters("", 2), b"key");
    let group = cache.group(&second.fleet(), &parameters("", 2), b"key").to_vec();
    assert_eq!(group, fresh_group(&second, &parameters("", 2)));
    assert_eq!(cache.entries.len(), 2);
}

#[test]
fn rings_beyond_the_limit_push_out_the_one_used_longest_ago() {
    let (mut cache, target) = (RingCache::default(), target(1, fleet::idle(3)));
    for seed in 0..RINGS_MAX {
        cache.group(&target.fleet(), &parameters(&seed.to_string(), 1), b"key");
    }
    cache.group(&target.fleet(), &parameters("0", 1), b"key");
    cache.group(&target.fleet(), &parameters("new", 1), b"key");
    assert_eq!(cache.entries.len(), RINGS_MAX);
    let held: Vec<_> = cache.entries.iter().map(|entry| entry.seed_hash).collect();
    assert!(held.contains(&Seed::new("0").hash()) && !held.contains(&Seed::new("1").hash()));
}
