//! The two implementations agree, whatever the snapshot, the load, the request, the exclusions and the clock.

use std::{env, time::Duration};

use proptest::prelude::*;

use super::{Naive, Outcome};
use crate::{
    Algorithm, Decision, DecisionState, Exclusions, RankingTable, RoutingRequest, Target, decide, explain,
    fleet::{any_algorithm, any_exclusions, any_plans, any_timed_request, build, target},
};

/// As many as `PROPTEST_CASES` says, else a few thousand.
fn config() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 3_000;
    }
    config
}

/// Decides several times; every decision must be one that the naive implementation allows.
fn check(
    target: &Target,
    algorithm: &Algorithm,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    state: &mut DecisionState,
) -> Result<Decision, TestCaseError> {
    let possible = Naive { target, request, exclusions }.decide(algorithm);
    for _ in 0..4 {
        let decision = decide(target, algorithm, request, exclusions, state);
        let outcome = Outcome::of(&decision);
        prop_assert!(
            possible.iter().any(|possible| possible.is_same(&outcome)),
            "{outcome:?} is none of {possible:?}"
        );
    }
    let decision = decide(target, algorithm, request, exclusions, state);
    Ok(decision)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_decision_is_one_that_the_naive_implementation_allows(
        plans in any_plans(24),
        excluded in any_exclusions(),
        request in any_timed_request(),
        algorithm in any_algorithm(),
        has_table in proptest::bool::weighted(0.01),
        revision in 0..2_u64,
        seed: u64,
    ) {
        let (clusters, _running) = build(&plans);
        let mut target = target(algorithm.clone(), clusters);
        target.ranking_revision = revision;
        if let (true, Algorithm::PulsarWaitAndWiden(parameters)) = (has_table, &algorithm) {
            let seed = &parameters.widening.seed;
            let table = RankingTable::build(&target.name, seed, parameters.weight, &target.clusters);
            target.ranking = Some(table.into());
        }
        let exclusions = excluded.apply(&target);
        let mut state = DecisionState::with_seed(seed);
        let decision = check(&target, &algorithm, &request, &exclusions, &mut state)?;
        let Decision::Wait(wait) = decision else { return Ok(()) };
        prop_assert!(wait.until > request.elapsed);
        // Nothing comes of it a moment before the wait ends, and something else does when it has ended.
        let just_before = wait.until - Duration::from_nanos(1);
        let still = check(
            &target,
            &algorithm,
            &RoutingRequest { elapsed: just_before, ..request },
            &exclusions,
            &mut state,
        )?;
        let allows_more_by_and_by = match &algorithm {
            Algorithm::WaitAndWiden(parameters) => parameters.widening.queue_slo.is_some(),
            Algorithm::PulsarWaitAndWiden(parameters) => parameters.widening.queue_slo.is_some(),
            _ => false,
        };
        if !allows_more_by_and_by {
            prop_assert_eq!(Outcome::of(&still), Outcome::of(&decision));
        }
        let ended = RoutingRequest { elapsed: wait.until, ..request };
        let next = check(&target, &algorithm, &ended, &exclusions, &mut state)?;
        if let Decision::Wait(next) = next {
            prop_assert!(next.until > wait.until);
        }
    }

    #[test]
    fn an_explanation_is_of_a_decision_that_is_allowed_and_says_why_no_other_cluster_was_chosen(
        plans in any_plans(16),
        excluded in any_exclusions(),
        request in any_timed_request(),
        algorithm in any_algorithm(),
        seed: u64,
    ) {
        let (clusters, _running) = build(&plans);
        let target = target(algorithm.clone(), clusters);
        let exclusions = excluded.apply(&target);
        let mut state = DecisionState::with_seed(seed);
        let explanation = explain(&target, &target.policy.method, &request, &exclusions, &mut state);
        let possible = Naive { target: &target, request: &request, exclusions: &exclusions }.decide(&algorithm);
        let outcome = Outcome::of(&explanation.decision);
        prop_assert!(possible.iter().any(|possible| possible.is_same(&outcome)));
        prop_assert_eq!(explanation.clusters.len(), target.clusters.len());
        match &explanation.decision {
            Decision::Selected(selected) => {
                let chosen = explanation.chosen().map(|row| row.cluster);
                prop_assert_eq!(chosen, Some(selected.cluster));
            }
            _ => prop_assert!(explanation.chosen().is_none()),
        }
        for row in &explanation.clusters {
            let naive = Naive { target: &target, request: &request, exclusions: &exclusions };
            prop_assert_eq!(row.is_excluded, naive.is_excluded(row.cluster.0));
        }
    }
}
