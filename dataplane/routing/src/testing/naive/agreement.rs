//! The two implementations agree, whatever the snapshot, the load, the request, the exclusions and the clock.

use std::{collections::BTreeSet, env, time::Duration};

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

use super::{Naive, Outcome};
use crate::{
    Algorithm, AlgorithmKind, Decision, DecisionState, Exclusions, RankingTable, RoutingRequest, Target,
    decide, explain,
    testing::fleet::{
        Plan, any_algorithm, any_exclusions, any_plans, any_timed_request, build, core_of, just_before,
        target,
    },
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
    plans: &[Plan],
    algorithm: &Algorithm,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    state: &mut DecisionState,
) -> Result<Decision, TestCaseError> {
    let possible = Naive { target, plans, request, exclusions }.decide(algorithm);
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
        let mut state = DecisionState::with_seed(seed).with_loads(core_of(&plans, &target.clusters));
        let decision = check(&target, &plans, &algorithm, &request, &exclusions, &mut state)?;
        let Decision::Wait(wait) = decision else { return Ok(()) };
        prop_assert!(wait.until > request.elapsed);
        // Beyond some 50 days the naive clock, an f64, cannot tell two nanoseconds apart.
        if wait.until >= Duration::from_nanos(1 << 52) {
            return Ok(());
        }
        // Nothing comes of it a moment before the wait ends, and something else does when it has ended.
        let moment_before = just_before(wait.until);
        let still = check(
            &target,
            &plans,
            &algorithm,
            &RoutingRequest { elapsed: moment_before, ..request },
            &exclusions,
            &mut state,
        )?;
        let allows_more_by_and_by = algorithm.widening().is_some_and(|widening| widening.queue_slo.is_some());
        if !allows_more_by_and_by {
            prop_assert_eq!(Outcome::of(&still), Outcome::of(&decision));
        }
        let ended = RoutingRequest { elapsed: wait.until, ..request };
        let next = check(&target, &plans, &algorithm, &ended, &exclusions, &mut state)?;
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
        let mut state = DecisionState::with_seed(seed).with_loads(core_of(&plans, &target.clusters));
        let explanation = explain(&target, &target.policy.method, &request, &exclusions, &mut state);
        let possible = Naive { target: &target, plans: &plans, request: &request, exclusions: &exclusions }.decide(&algorithm);
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
            let naive = Naive { target: &target, plans: &plans, request: &request, exclusions: &exclusions };
            prop_assert_eq!(row.is_excluded, naive.is_excluded(row.cluster.0));
        }
    }
}

/// A name for a kind of outcome.
fn kind_of(algorithm: &Algorithm, outcome: &Outcome) -> String {
    let what = match outcome {
        Outcome::Selected { is_fallback, after_kv_skip, .. } => {
            format!("selected, fallback {is_fallback}, past KV {after_kv_skip}")
        }
        Outcome::Wait { reason, .. } => format!("wait for {}", reason.as_str()),
        Outcome::Unavailable(reason) => reason.as_str().to_owned(),
    };
    format!("{}: {what}", algorithm.kind().as_str())
}

/// What never comes up is not compared.
#[test]
fn the_cases_that_are_compared_reach_every_kind_of_outcome() {
    let mut runner = TestRunner::deterministic();
    let mut reached = BTreeSet::new();
    let cases = (any_plans(24), any_exclusions(), any_timed_request(), any_algorithm());
    for _ in 0..10_000 {
        let (plans, excluded, request, algorithm) = cases.new_tree(&mut runner).unwrap().current();
        let (clusters, _running) = build(&plans);
        let target = target(algorithm.clone(), clusters);
        let exclusions = excluded.apply(&target);
        let naive = Naive { target: &target, plans: &plans, request: &request, exclusions: &exclusions };
        reached.extend(naive.decide(&algorithm).iter().map(|outcome| kind_of(&algorithm, outcome)));
    }
    let common = ["no_active_backend", "all_excluded", "selected, fallback false, past KV false"];
    let fallback = "selected, fallback true, past KV false";
    let widening = [fallback, "wait for affinity", "wait for bucket", "no_capacity"];
    let ranking = ["no_eligible_candidate", "selected, fallback true, past KV true"];
    let mut expected = BTreeSet::new();
    for kind in AlgorithmKind::ALL {
        let own: &[&[&str]] = match kind {
            AlgorithmKind::Pulsar => &[&ranking, &[fallback]],
            AlgorithmKind::WaitAndWiden => &[&widening],
            AlgorithmKind::PulsarWaitAndWiden => {
                &[&widening, &ranking, &["wait for band", "selected, fallback false, past KV true"]]
            }
            AlgorithmKind::PowerOfN | AlgorithmKind::RoundRobin | AlgorithmKind::Random => &[],
        };
        let own = own.iter().copied().flatten().chain(&common);
        expected.extend(own.map(|outcome| format!("{}: {outcome}", kind.as_str())));
    }
    assert_eq!(reached, expected);
}
