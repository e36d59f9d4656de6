//! Decisions of two cores at the same moment. Run on threads as a test of its own, and under loom, which tries
//! every interleaving: `RUSTFLAGS="--cfg loom" cargo test -p stargate-routing --release --lib loom`.

use crate::{
    Algorithm, ClusterStats, Comparator, Decision, DecisionState, Exclusions, PrimaryAdmission,
    PulsarWaitAndWidenParameters, RoutingRequest, Running, SampleCount, Target, TokensPerSecond,
    WaitAndWidenParameters, Widening, decide_and_enter,
    fleet::{clusters, power_of, request, target},
};

/// Algorithms that see a place that was just taken, each with the number of places in each cluster.
fn algorithms_that_split() -> Vec<(Algorithm, u64)> {
    let widening = Widening { sample_count: SampleCount::new(2).unwrap(), ..Widening::default() };
    let wait_and_widen =
        WaitAndWidenParameters { widening: widening.clone(), ..WaitAndWidenParameters::default() };
    let grouped = WaitAndWidenParameters { affinity_group: 1, ..wait_and_widen.clone() };
    let by_capacity = PulsarWaitAndWidenParameters {
        widening,
        primary_admission: PrimaryAdmission::Capacity,
        ..PulsarWaitAndWidenParameters::default()
    };
    vec![
        (power_of(2, Comparator::NumRequestsQueued), 0),
        (power_of(2, Comparator::Utilization), 0),
        (power_of(2, Comparator::TtftBacklog), 8),
        (power_of(2, Comparator::InputWorkSeconds), 8),
        (Algorithm::WaitAndWiden(wait_and_widen), 1),
        (Algorithm::WaitAndWiden(grouped), 1),
        (Algorithm::PulsarWaitAndWiden(by_capacity), 1),
    ]
}

fn idle_pair(algorithm: Algorithm, slots: u64) -> Target {
    let stats = ClusterStats {
        last_mean_input_tps: TokensPerSecond(1_000.0),
        max_input_tps: Some(TokensPerSecond(1_000.0)),
        max_engine_concurrency: slots,
        ..ClusterStats::default()
    };
    target(algorithm, clusters([stats.clone(), stats]))
}

/// The cluster that one core enters.
fn enter(target: &Target, seed: u64) -> Option<(usize, Running)> {
    let keyed = RoutingRequest { affinity_key: Some(b"one key"), ..request(100) };
    let mut state = DecisionState::with_seed(seed);
    let algorithm = &target.policy.method.algorithm;
    match decide_and_enter(target, algorithm, &keyed, &Exclusions::default(), &mut state) {
        (Decision::Selected(selected), Some(running)) => Some((selected.cluster.0, running)),
        (_, running) => {
            assert!(running.is_none());
            None
        }
    }
}

#[cfg(not(loom))]
mod on_threads {
    use std::{sync::Barrier, thread};

    use super::*;

    const ROUNDS: u64 = 2_000;

    #[test]
    fn two_requests_at_once_on_two_cores_split_over_two_idle_clusters() {
        for (algorithm, slots) in algorithms_that_split() {
            let target = idle_pair(algorithm, slots);
            let barrier = Barrier::new(2);
            let run = |core: u64| {
                let mut chosen = Vec::new();
                for round in 0..ROUNDS {
                    barrier.wait();
                    let entered = enter(&target, 2 * round + core);
                    barrier.wait();
                    chosen.push(entered.map(|(cluster, _)| cluster));
                }
                chosen
            };
            let (a, b) = thread::scope(|scope| {
                let other = scope.spawn(|| run(1));
                (run(0), other.join().unwrap())
            });
            for pair in a.iter().zip(&b) {
                let (Some(a), Some(b)) = pair else { panic!("a place was left: {pair:?}") };
                assert_ne!(a, b, "{:?}", target.policy.method.algorithm);
            }
            assert!(target.clusters.iter().all(|cluster| cluster.load.running() == 0));
        }
    }
}

#[cfg(loom)]
mod loom {
    use std::sync::Arc;

    use super::*;

    /// What two cores at once entered.
    fn enter_twice(target: Target) -> (Arc<Target>, [Option<(usize, Running)>; 2]) {
        let target = Arc::new(target);
        let theirs = target.clone();
        let other = ::loom::thread::spawn(move || enter(&theirs, 1));
        let ours = enter(&target, 2);
        (target, [ours, other.join().unwrap()])
    }

    #[test]
    fn two_requests_at_once_on_two_cores_split_over_two_idle_clusters() {
        for (algorithm, slots) in algorithms_that_split() {
            ::loom::model(move || {
                let (target, entered) = enter_twice(idle_pair(algorithm.clone(), slots));
                let [Some((a, _)), Some((b, _))] = &entered else { panic!("a place was left") };
                assert_ne!(a, b);
                drop(entered);
                for cluster in &target.clusters {
                    assert_eq!((cluster.load.running(), cluster.load.queued()), (0, 0));
                    assert_eq!(cluster.load.queued_input().0, 0);
                }
            });
        }
    }

    #[test]
    fn one_place_is_taken_once() {
        ::loom::model(|| {
            let widening = WaitAndWidenParameters::default();
            let mut target = idle_pair(Algorithm::WaitAndWiden(widening), 1);
            target.clusters.truncate(1);
            let (_, entered) = enter_twice(target);
            assert_eq!(entered.iter().flatten().count(), 1);
        });
    }

    #[test]
    fn a_place_that_is_given_back_meanwhile_is_taken_at_most_once() {
        ::loom::model(|| {
            let widening = WaitAndWidenParameters::default();
            let mut target = idle_pair(Algorithm::WaitAndWiden(widening), 1);
            target.clusters.truncate(1);
            let before = target.clusters[0].load.enter(crate::Tokens(1));
            let target = Arc::new(target);
            let theirs = target.clone();
            let other = ::loom::thread::spawn(move || {
                drop(before);
                enter(&theirs, 1)
            });
            let ours = enter(&target, 2);
            let theirs = other.join().unwrap();
            assert_eq!([ours, theirs].iter().flatten().count(), 1);
        });
    }
}
