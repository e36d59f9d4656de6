//! What a burst does while no report comes.

use std::time::Duration;

use proptest::{collection::vec, prelude::*};

use super::us;
use crate::{
    Accounting, Algorithm, Cluster, Comparator, CoreLoads, Decision, DecisionState, Exclusions, Running,
    Target, WaitAndWidenParameters, decide_and_enter,
    testing::fleet::{ACCOUNTINGS, idle, power_of, request, target},
};

const REQUESTS: usize = 64;
const CLUSTERS: usize = 8;

fn idle_clusters(count: usize, accounting: Accounting, slots: u64) -> Vec<Cluster> {
    let mut clusters = idle(count);
    for cluster in &mut clusters {
        cluster.stats.accounting = accounting;
        cluster.stats.max_engine_concurrency = slots;
    }
    clusters
}

fn idle_fleet(accounting: Accounting, slots: u64) -> Target {
    let shortest_queue = power_of(CLUSTERS as u64, Comparator::NumRequestsQueued);
    target(shortest_queue, idle_clusters(CLUSTERS, accounting, slots))
}

/// Neither idle nor nearly full: there, cores tell each other nothing at once.
fn busy_fleet(accounting: Accounting) -> Target {
    let mut fleet = idle_fleet(accounting, 1_000);
    fleet.clusters.iter_mut().for_each(|cluster| cluster.stats.num_running_queries = 100);
    fleet
}

/// Cores, so many, that share clusters. No reservation ends meanwhile.
fn cores(count: usize, seed: u64) -> Vec<DecisionState> {
    let state = |core: usize| {
        let loads = CoreLoads::new(core as u32, count, us(1_000_000)..=us(1_000_000));
        DecisionState::with_seed(seed ^ core as u64).with_loads(loads)
    };
    (0..count).map(state).collect()
}

/// The cluster that one of them enters.
fn enter(target: &Target, state: &mut DecisionState, now: Duration) -> Option<(usize, Running)> {
    let algorithm = &target.policy.method.algorithm;
    match decide_and_enter(target, algorithm, &request(100), &Exclusions::default(), state, now) {
        (Decision::Selected(selected), Some(running)) => Some((selected.cluster.0, running)),
        _ => None,
    }
}

/// How many each cluster gets when the requests come to these cores in turn, all within a millisecond.
fn burst(target: &Target, cores: &mut [DecisionState], turns: &[usize]) -> [usize; CLUSTERS] {
    let mut counts = [0; CLUSTERS];
    let mut held = Vec::new();
    for (number, turn) in turns.iter().enumerate() {
        let (cluster, running) = enter(target, &mut cores[*turn], us(number as u64 * 10)).unwrap();
        counts[cluster] += 1;
        held.push(running);
    }
    counts
}

/// How many enter one cluster that so many can, when they come to these cores in turn, so long after each other.
fn fill(slots: u64, accounting: Accounting, turns: &[usize], pace: Duration) -> usize {
    let algorithm = Algorithm::WaitAndWiden(WaitAndWidenParameters::default());
    let target = target(algorithm, idle_clusters(1, accounting, slots));
    let mut cores = cores(2, 0);
    let mut held = Vec::new();
    for (number, turn) in turns.iter().enumerate() {
        let now = pace * number as u32;
        for state in &cores {
            state.loads().advance(now);
        }
        held.extend(enter(&target, &mut cores[*turn], now));
    }
    held.len()
}

proptest! {
    #[test]
    fn one_core_spreads_a_burst_evenly(seed: u64, slots in prop_oneof![Just(0), Just(4), Just(1_000)]) {
        for accounting in ACCOUNTINGS {
            let target = idle_fleet(accounting, slots);
            let even = [REQUESTS / CLUSTERS; CLUSTERS];
            prop_assert_eq!(burst(&target, &mut cores(1, seed), &[0; REQUESTS]), even);
        }
    }

    #[test]
    fn two_cores_spread_a_burst_nearly_evenly_before_they_have_told_each_other(
        seed: u64,
        turns in vec(0..2_usize, REQUESTS),
    ) {
        for accounting in ACCOUNTINGS {
            let counts = burst(&busy_fleet(accounting), &mut cores(2, seed), &turns);
            prop_assert!(counts.iter().all(|count| *count <= 10), "{counts:?}");
        }
    }

    #[test]
    fn two_cores_spread_a_burst_evenly_over_idle_clusters(
        seed: u64,
        turns in vec(0..2_usize, REQUESTS),
        slots in prop_oneof![Just(0), Just(8), Just(1_000)],
    ) {
        for accounting in ACCOUNTINGS {
            let target = idle_fleet(accounting, slots);
            let even = [REQUESTS / CLUSTERS; CLUSTERS];
            prop_assert_eq!(burst(&target, &mut cores(2, seed), &turns), even);
        }
    }

    /// As long as a core does not fill all that is left within the millisecond that the other keeps its changes.
    #[test]
    fn no_place_is_taken_twice(turns in vec(0..2_usize, 150)) {
        for accounting in ACCOUNTINGS {
            prop_assert_eq!(fill(100, accounting, &turns, us(100)), 100);
        }
    }

    /// Else no more than the other keeps.
    #[test]
    fn what_one_core_keeps_is_all_that_another_can_miss(turns in vec(0..2_usize, 150)) {
        for accounting in ACCOUNTINGS {
            let entered = fill(100, accounting, &turns, Duration::ZERO);
            prop_assert!((100..100 + super::CHANGES_HELD_MAX).contains(&entered), "{entered}");
        }
    }
}
