//! Decisions of two cores at the same moment. Run on threads as a test of its own, and under loom, which tries
//! every interleaving: `RUSTFLAGS="--cfg loom" cargo test -p stargate-routing --release --lib loom`.

use std::time::Duration;

use crate::{
    Accounting, Algorithm, ClusterStats, Comparator, CoreLoads, Decision, DecisionState, Exclusions,
    PrimaryAdmission, PulsarWaitAndWidenParameters, RoutingRequest, Running, SampleCount, Target,
    TokensPerSecond, WaitAndWidenParameters, Widening, decide_and_enter,
    testing::fleet::{ACCOUNTINGS, clusters, power_of, request, target},
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
        (power_of(2, Comparator::NumRequestsQueued), 8),
        (power_of(2, Comparator::Utilization), 8),
        (power_of(2, Comparator::TtftBacklog), 8),
        (power_of(2, Comparator::InputWorkSeconds), 8),
        (Algorithm::WaitAndWiden(wait_and_widen), 1),
        (Algorithm::WaitAndWiden(grouped), 1),
        (Algorithm::PulsarWaitAndWiden(by_capacity), 1),
    ]
}

/// Each of these algorithms, under either accounting.
fn cases() -> impl Iterator<Item = (Algorithm, u64, Accounting)> {
    algorithms_that_split()
        .into_iter()
        .flat_map(|(algorithm, slots)| ACCOUNTINGS.map(|accounting| (algorithm.clone(), slots, accounting)))
}

fn idle_pair(algorithm: Algorithm, slots: u64, accounting: Accounting) -> Target {
    let stats = ClusterStats {
        accounting,
        last_mean_input_tps: TokensPerSecond(1_000.0),
        max_input_tps: Some(TokensPerSecond(1_000.0)),
        max_engine_concurrency: slots,
        ..ClusterStats::default()
    };
    target(algorithm, clusters([stats.clone(), stats]))
}

/// One of two cores.
fn state_of(core: u32) -> DecisionState {
    DecisionState::with_seed(core.into()).with_loads(CoreLoads::new(core, 2, CoreLoads::TTL))
}

/// The cluster that one core enters.
fn enter(target: &Target, state: &mut DecisionState) -> Option<(usize, Running)> {
    let keyed = RoutingRequest { affinity_key: Some(b"one key"), ..request(100) };
    let algorithm = &target.policy.method.algorithm;
    match decide_and_enter(target, algorithm, &keyed, &Exclusions::default(), state, Duration::ZERO) {
        (Decision::Selected(selected), Some(running)) => Some((selected.cluster.0, running)),
        (_, running) => {
            assert!(running.is_none());
            None
        }
    }
}

#[cfg(not(loom))]
mod on_threads {
    use std::{
        hint, panic,
        sync::atomic::{AtomicU64, Ordering::SeqCst},
        thread,
    };

    use super::*;

    const ROUNDS: u64 = 5_000;

    /// Lets two threads go on at the same moment, to within what a look at memory takes. A barrier of the
    /// operating system wakes them one after the other, too far apart to meet.
    #[derive(Default)]
    struct StartLine(AtomicU64);

    impl StartLine {
        fn meet(&self, round: u64) {
            self.0.fetch_add(1, SeqCst);
            let mut looks = 0_u32;
            while self.0.load(SeqCst) < 2 * round {
                looks += 1;
                // With one CPU for both, the other needs it.
                if looks.is_multiple_of(1_024) { thread::yield_now() } else { hint::spin_loop() }
            }
        }
    }

    #[test]
    fn two_requests_at_once_on_two_cores_split_over_two_idle_clusters() {
        for (algorithm, slots, accounting) in cases() {
            let target = idle_pair(algorithm, slots, accounting);
            let (start, end) = (StartLine::default(), StartLine::default());
            let run = |core: u32| {
                let mut state = state_of(core);
                let mut chosen = Vec::new();
                for round in 1..=ROUNDS {
                    start.meet(round);
                    let entered = enter(&target, &mut state);
                    end.meet(round);
                    chosen.push(entered.map(|(cluster, _)| cluster));
                    // Both know, when they meet again, that all places are free.
                    state.loads().flush();
                }
                chosen
            };
            let (a, b) = thread::scope(|scope| {
                let other = scope.spawn(|| run(1));
                let ours = run(0);
                (ours, other.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)))
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
    use std::{mem, sync::Arc};

    use super::*;
    use crate::{Cluster, Tokens};

    /// What two cores at once entered, and how the second keeps or leaves its place.
    fn enter_twice(target: Target, end: fn(Running)) -> (Arc<Target>, [Option<usize>; 2]) {
        let target = Arc::new(target);
        let theirs = target.clone();
        let enter_and_end = move |target: &Target, core| {
            let (cluster, running) = enter(target, &mut state_of(core))?;
            end(running);
            Some(cluster)
        };
        let other = ::loom::thread::spawn(move || enter_and_end(&theirs, 1));
        let ours = enter_and_end(&target, 2);
        (target, [ours, other.join().unwrap()])
    }

    /// Handles stay on their core: a place is kept beyond its end by never giving it back.
    fn keep(running: Running) {
        mem::forget(running);
    }

    #[test]
    fn two_requests_at_once_on_two_cores_split_over_two_idle_clusters() {
        for (algorithm, slots, accounting) in cases() {
            ::loom::model(move || {
                let (_, entered) = enter_twice(idle_pair(algorithm.clone(), slots, accounting), keep);
                let [Some(a), Some(b)] = entered else { panic!("a place was left") };
                assert_ne!(a, b);
            });
        }
    }

    #[test]
    fn nothing_is_left_of_two_requests_at_once_on_two_cores() {
        for (algorithm, slots, accounting) in cases() {
            ::loom::model(move || {
                let (target, _) = enter_twice(idle_pair(algorithm.clone(), slots, accounting), drop);
                for Cluster { load, .. } in &target.clusters {
                    assert_eq!((load.running(), load.queued(), load.queued_input().0), (0, 0, 0));
                    assert_eq!((load.reserved(), load.reserved_input().0), (0, 0));
                }
            });
        }
    }

    #[test]
    fn one_place_is_taken_once() {
        for accounting in ACCOUNTINGS {
            ::loom::model(move || {
                let (_, entered) = enter_twice(idle_one(accounting), keep);
                assert_eq!(entered.iter().flatten().count(), 1);
            });
        }
    }

    #[test]
    fn a_place_that_is_given_back_meanwhile_is_taken_at_most_once() {
        ::loom::model(|| {
            let target = idle_one(Accounting::InFlight);
            let before = target.clusters[0].load.enter(Tokens(1));
            let target = Arc::new(target);
            let theirs = target.clone();
            let other = ::loom::thread::spawn(move || {
                drop(before);
                enter(&theirs, &mut state_of(1)).map(|(_, running)| keep(running))
            });
            let ours = enter(&target, &mut state_of(2)).map(|(_, running)| keep(running));
            let theirs = other.join().unwrap();
            assert_eq!([ours, theirs].iter().flatten().count(), 1);
        });
    }

    fn idle_one(accounting: Accounting) -> Target {
        let algorithm = Algorithm::WaitAndWiden(WaitAndWidenParameters::default());
        let mut target = idle_pair(algorithm, 1, accounting);
        target.clusters.truncate(1);
        target
    }
}
