use std::{sync::Arc, thread};

use super::*;
use crate::{
    Algorithm, Exclusions, Target, decide,
    fleet::{exclude, idle, request, selected, target},
};

fn turns(target: &Target, exclusions: &Exclusions, count: usize) -> Vec<usize> {
    let mut rng = fastrand::Rng::with_seed(0);
    (0..count).map(|_| selected(decide(target, &request(1), exclusions, &mut rng)).cluster.0).collect()
}

#[test]
fn clusters_take_turns() {
    let target = target(Algorithm::RoundRobin, idle(3));
    assert_eq!(turns(&target, &Exclusions::default(), 7), [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn those_left_share_the_turns_of_excluded_ones_evenly() {
    let target = target(Algorithm::RoundRobin, idle(4));
    assert_eq!(turns(&target, &exclude(&target, [1], [(3, 0)]), 4), [0, 2, 0, 2]);
}

#[test]
fn turns_go_on_in_the_next_snapshot() {
    let cursor = Arc::new(RoundRobinCursor::default());
    let snapshot = || Target { round_robin: cursor.clone(), ..target(Algorithm::RoundRobin, idle(3)) };
    assert_eq!(turns(&snapshot(), &Exclusions::default(), 2), [0, 1]);
    assert_eq!(turns(&snapshot(), &Exclusions::default(), 2), [2, 0]);
}

#[test]
fn turns_are_even_over_all_cores_together() {
    const CORES: usize = 4;
    const DECISIONS: usize = 10_000;
    let target = target(Algorithm::RoundRobin, idle(8));
    let counts = thread::scope(|scope| {
        let cores: Vec<_> =
            (0..CORES).map(|_| scope.spawn(|| turns(&target, &Exclusions::default(), DECISIONS))).collect();
        let mut counts = [0; 8];
        for core in cores {
            core.join().unwrap().into_iter().for_each(|cluster| counts[cluster] += 1);
        }
        counts
    });
    assert_eq!(counts, [CORES * DECISIONS / 8; 8]);
}
