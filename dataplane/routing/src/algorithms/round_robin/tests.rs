use std::{
    sync::{Arc, Barrier},
    thread,
};

use crate::{
    Algorithm, DecisionState, Exclusions, RoundRobinCursor, Target,
    testing::fleet::{decide, exclude, idle, request, selected, target},
};

fn turns(target: &Target, exclusions: &Exclusions, count: usize) -> Vec<usize> {
    let mut state = DecisionState::with_seed(0);
    (0..count).map(|_| selected(decide(target, &request(1), exclusions, &mut state)).cluster.0).collect()
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
fn cores_never_take_the_same_turn() {
    const CORES: u64 = 4;
    const TURNS: u64 = 500_000;
    let cursor = RoundRobinCursor::default();
    let start = Barrier::new(CORES as usize);
    thread::scope(|scope| {
        for _ in 0..CORES {
            scope.spawn(|| {
                start.wait();
                for _ in 0..TURNS {
                    cursor.next();
                }
            });
        }
    });
    assert_eq!(cursor.next(), CORES * TURNS);
}
