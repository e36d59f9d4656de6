//! What a burst does while no report comes.

use proptest::{collection::vec, prelude::*};

use super::us;
use crate::{
    Accounting, Comparator, CoreLoads, Decision, DecisionState, Exclusions, Running, Target,
    decide_and_enter,
    fleet::{ACCOUNTINGS, idle, power_of, request, target},
};

const REQUESTS: usize = 64;
const CLUSTERS: usize = 8;

fn idle_fleet(accounting: Accounting, slots: u64) -> Target {
    let mut clusters = idle(CLUSTERS);
    for cluster in &mut clusters {
        cluster.stats.accounting = accounting;
        cluster.stats.max_engine_concurrency = slots;
    }
    target(power_of(CLUSTERS as u64, Comparator::NumRequestsQueued), clusters)
}

/// How many each cluster gets when the requests come to these cores in turn, all within a millisecond.
fn burst(target: &Target, cores: usize, turns: impl Iterator<Item = usize>, seed: u64) -> [usize; CLUSTERS] {
    let mut states: Vec<DecisionState> = (0..cores)
        .map(|core| {
            let loads = CoreLoads::new(core as u32, cores, CoreLoads::TTL);
            DecisionState::with_seed(seed ^ core as u64).with_loads(loads)
        })
        .collect();
    let mut counts = [0; CLUSTERS];
    let mut held: Vec<Running> = Vec::new();
    for (number, turn) in turns.enumerate() {
        let (state, algorithm) = (&mut states[turn], &target.policy.method.algorithm);
        let now = us(number as u64 * 10);
        let decided = decide_and_enter(target, algorithm, &request(100), &Exclusions::default(), state, now);
        let (Decision::Selected(selected), Some(running)) = decided else { panic!("a place is free") };
        counts[selected.cluster.0] += 1;
        held.push(running);
    }
    counts
}

proptest! {
    #[test]
    fn one_core_spreads_a_burst_evenly(seed: u64, slots in prop_oneof![Just(0), Just(4), Just(1_000)]) {
        for accounting in ACCOUNTINGS {
            let target = idle_fleet(accounting, slots);
            let even = [REQUESTS / CLUSTERS; CLUSTERS];
            prop_assert_eq!(burst(&target, 1, std::iter::repeat_n(0, REQUESTS), seed), even);
        }
    }

    #[test]
    fn two_cores_spread_a_burst_nearly_evenly_before_they_have_told_each_other(
        seed: u64,
        turns in vec(0..2_usize, REQUESTS),
        slots in prop_oneof![Just(0), Just(1_000)],
    ) {
        for accounting in ACCOUNTINGS {
            let counts = burst(&idle_fleet(accounting, slots), 2, turns.iter().copied(), seed);
            prop_assert!(counts.iter().all(|count| *count <= 10), "{counts:?}");
        }
    }

    #[test]
    fn two_cores_spread_a_burst_evenly_where_places_are_scarce(
        seed: u64,
        turns in vec(0..2_usize, REQUESTS),
    ) {
        for accounting in ACCOUNTINGS {
            let target = idle_fleet(accounting, 8);
            let even = [REQUESTS / CLUSTERS; CLUSTERS];
            prop_assert_eq!(burst(&target, 2, turns.iter().copied(), seed), even);
        }
    }
}
