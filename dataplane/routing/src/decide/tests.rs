use std::time::Duration;

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::{
    ClusterStats, Tokens, TokensPerSecond,
    testing::fleet::{
        any_exclusions, any_instant_algorithm, any_plans, any_request, build, cluster, clusters, decide,
        eligible_positions, exclude, idle, request, selected, target, throughput, unavailable,
    },
};

fn every_algorithm() -> [Algorithm; 6] {
    crate::AlgorithmKind::ALL.map(crate::AlgorithmKind::with_defaults)
}

fn decide_once(target: &Target, request: &RoutingRequest<'_>, exclusions: &Exclusions) -> Decision {
    decide(target, request, exclusions, &mut DecisionState::with_seed(0))
}

proptest! {
    #[test]
    fn nothing_excluded_is_ever_selected_and_something_is_whenever_possible(
        plans in any_plans(24),
        excluded in any_exclusions(),
        request in any_request(),
        algorithm in any_instant_algorithm(),
        seed: u64,
    ) {
        let needs_more = matches!(&algorithm, Algorithm::Pulsar(_)) && request.affinity_key.is_some();
        let (clusters, _running) = build(&plans);
        let target = target(algorithm, clusters);
        let exclusions = excluded.apply(&target);
        let eligible = eligible_positions(&target, &exclusions);
        let mut state = DecisionState::with_seed(seed);
        for _ in 0..4 {
            match decide(&target, &request, &exclusions, &mut state) {
                Decision::Selected(selected) => {
                    prop_assert!(eligible.contains(&selected.cluster.0));
                    let backends = &target.clusters[selected.cluster.0].backends;
                    prop_assert!(backends.iter().any(|backend| Arc::ptr_eq(backend, &selected.backend)));
                    prop_assert!(!exclusions.has_backend(selected.backend.uid));
                    let ranks = 1..=if needs_more { plans.len() as u32 } else { 1 };
                    prop_assert!(ranks.contains(&selected.rank));
                }
                Decision::Unavailable(UnavailableReason::NoActiveBackend) => {
                    prop_assert!(plans.is_empty());
                }
                Decision::Unavailable(UnavailableReason::AllExcluded) => {
                    prop_assert!(!plans.is_empty() && eligible.is_empty());
                }
                Decision::Unavailable(UnavailableReason::NoEligibleCandidate) => {
                    prop_assert!(needs_more && !eligible.is_empty());
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }

    #[test]
    fn the_same_seed_decides_alike(
        plans in any_plans(24),
        request in any_request(),
        algorithm in any_instant_algorithm(),
        seed: u64,
    ) {

        let decide_on = || {
            let (clusters, _running) = build(&plans);
            let target = target(algorithm.clone(), clusters);
            let mut state = DecisionState::with_seed(seed);
            format!("{:?}", decide(&target, &request, &Exclusions::default(), &mut state))
        };
        prop_assert_eq!(decide_on(), decide_on());
    }
}

#[test]
fn a_target_without_a_cluster_has_no_active_backend() {
    for algorithm in every_algorithm() {
        let target = target(algorithm, Vec::new());
        let decision = decide_once(&target, &request(1), &Exclusions::default());
        assert_eq!(unavailable(decision), UnavailableReason::NoActiveBackend);
    }
}

#[test]
fn a_cluster_without_a_backend_breaks_nothing() {
    for algorithm in every_algorithm() {
        let target = target(algorithm, vec![cluster(0, 0, throughput(1.0))]);
        let decision = decide_once(&target, &request(1), &Exclusions::default());
        assert_eq!(unavailable(decision), UnavailableReason::NoActiveBackend);
    }
}

#[test]
fn when_every_candidate_is_excluded_the_answer_comes_at_once() {
    for algorithm in every_algorithm() {
        let target = target(algorithm, idle(2));
        let exclusions = exclude(&target, [0], [(1, 0)]);
        let keyed = RoutingRequest { affinity_key: Some(b"k"), ..request(1) };
        for request in [request(1), keyed] {
            let decision = decide_once(&target, &request, &exclusions);
            assert_eq!(unavailable(decision), UnavailableReason::AllExcluded);
        }
    }
}

#[test]
fn a_cluster_stays_eligible_while_one_of_its_backends_is_left() {
    for algorithm in every_algorithm() {
        let target = target(algorithm, vec![cluster(0, 2, throughput(1.0))]);
        let exclusions = exclude(&target, [], [(0, 0)]);
        for _ in 0..3 {
            let selected = selected(decide_once(&target, &request(1), &exclusions));
            assert_eq!(&*selected.backend.backend_id, "cluster-0000-1");
        }
    }
}

#[test]
fn the_queue_delay_at_the_chosen_cluster_is_told_under_every_algorithm() {
    let queued = |tps: f64| ClusterStats {
        last_mean_input_tps: TokensPerSecond(tps),
        max_input_tps: Some(TokensPerSecond(1.0)),
        queued_input: Tokens(1_500),
        ..ClusterStats::default()
    };
    for algorithm in every_algorithm() {
        let target = target(algorithm, clusters([queued(1_000.0)]));
        let delay =
            |target: &Target| selected(decide_once(target, &request(1), &Exclusions::default())).queue_delay;
        assert_eq!(delay(&target), Some(Duration::from_millis(1_500)));
        let _running = target.clusters[0].load.enter(Tokens(2_000));
        assert_eq!(delay(&target), Some(Duration::from_secs(2)), "what is in flight counts");
        let unmeasured = Target { clusters: clusters([queued(0.0)]), ..target };
        assert_eq!(delay(&unmeasured), None);
    }
}

#[test]
fn the_queue_delay_told_is_that_of_the_requests_priority() {
    let stats = ClusterStats {
        queue_time_estimates: [(1, crate::Nanos(5_000_000))].into(),
        ..ClusterStats::default()
    };
    let target = target(Algorithm::Random, clusters([stats]));
    for (priority, expected) in [(0, Duration::ZERO), (1, Duration::from_millis(5))] {
        let request = RoutingRequest { priority, ..request(0) };
        let selected = selected(decide_once(&target, &request, &Exclusions::default()));
        assert_eq!(selected.queue_delay, Some(expected));
    }
}

#[test]
fn a_look_for_a_place_takes_nobodys_turn() {
    let (full, empty) = (target(Algorithm::RoundRobin, idle(3)), target(Algorithm::RoundRobin, Vec::new()));
    let (request, exclusions, mut state) = (request(1), Exclusions::default(), DecisionState::with_seed(1));
    let order: Vec<usize> = (0..6)
        .map(|_| {
            assert!(has_place(&full, &Algorithm::RoundRobin, &request, &exclusions, &mut state));
            selected(decide(&full, &request, &exclusions, &mut state)).cluster.0
        })
        .collect();
    assert_eq!(order, [0, 1, 2, 0, 1, 2]);
    assert!(!has_place(&empty, &Algorithm::RoundRobin, &request, &exclusions, &mut state));
}

#[test]
fn what_was_selected_is_counted_and_what_was_not_is_not() {
    for algorithm in every_algorithm() {
        let target = target(algorithm, idle(2));
        let mut state = DecisionState::with_seed(0);
        let decide_and_enter = |exclusions: &Exclusions, state: &mut DecisionState| {
            let algorithm = &target.policy.method.algorithm;
            crate::decide_and_enter(&target, algorithm, &request(7), exclusions, state, Duration::ZERO)
        };
        let (decision, running) = decide_and_enter(&Exclusions::default(), &mut state);
        state.loads().flush();
        let cluster = &target.clusters[selected(decision).cluster.0];
        assert_eq!((cluster.load.running(), cluster.load.queued()), (1, 1));
        assert_eq!(cluster.load.queued_input(), Tokens(7));
        drop(running);
        state.loads().flush();
        assert_eq!(cluster.load.running(), 0);
        let (decision, running) = decide_and_enter(&exclude(&target, [0, 1], []), &mut state);
        assert_eq!(unavailable(decision), UnavailableReason::AllExcluded);
        assert!(running.is_none() && target.clusters.iter().all(|cluster| cluster.load.running() == 0));
    }
}

#[test]
fn the_queue_delay_told_is_without_the_request_itself() {
    for algorithm in every_algorithm() {
        let target = target(algorithm, clusters([throughput(1_000.0)]));
        let algorithm = &target.policy.method.algorithm;
        let mut state = DecisionState::with_seed(0);
        let exclusions = Exclusions::default();
        let decided =
            decide_and_enter(&target, algorithm, &request(500), &exclusions, &mut state, Duration::ZERO);
        assert_eq!(selected(decided.0).queue_delay, Some(Duration::ZERO));
    }
}
