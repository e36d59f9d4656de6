#![allow(clippy::float_cmp, reason = "two computations of one formula, in the same order of operations")]

use proptest::prelude::*;

use crate::{
    ClusterStats, Comparator, Decision, DecisionState, Exclusions, Nanos, RoutingRequest, Target, Tokens,
    TokensPerSecond,
    testing::{
        fleet::{
            COMPARATORS, any_exclusions, any_plans, any_request, build, chi_squared_uniform, clusters,
            core_of, decide, eligible_positions, exclude, idle, power_of, request, selected, target,
        },
        naive::Naive,
    },
};

/// How many decisions a burst of `count` requests spreads over, each in flight while the next is decided.
fn spread(target: &Target, count: usize, request: &RoutingRequest<'_>, seed: u64) -> usize {
    let mut state = DecisionState::with_seed(seed);
    let mut chosen: Vec<_> = (0..count)
        .map(|_| {
            let cluster = selected(decide(target, request, &Exclusions::default(), &mut state)).cluster;
            (cluster, target.clusters[cluster.0].load.enter(request.input_tokens))
        })
        .collect();
    chosen.sort_by_key(|(cluster, _)| *cluster);
    chosen.dedup_by_key(|(cluster, _)| *cluster);
    chosen.len()
}

proptest! {
    #[test]
    fn a_sample_of_all_takes_the_best_that_a_naive_search_finds(
        plans in any_plans(20),
        excluded in any_exclusions(),
        request in any_request(),
        comparator in proptest::sample::select(&COMPARATORS[..]),
        seed: u64,
    ) {
        let (clusters, _running) = build(&plans);
        let target = target(power_of(64, comparator), clusters);
        let exclusions = excluded.apply(&target);
        let eligible = eligible_positions(&target, &exclusions);
        let naive = Naive { target: &target, plans: &plans, request: &request, exclusions: &exclusions };
        let cost = |index: usize| naive.cost(index, comparator, 1.0);
        let lowest = eligible.iter().map(|index| cost(*index)).fold(f64::INFINITY, f64::min);
        let mut state = DecisionState::with_seed(seed).with_loads(core_of(&plans, &target.clusters));
        match decide(&target, &request, &exclusions, &mut state) {
            Decision::Selected(selected) => {
                prop_assert!(eligible.contains(&selected.cluster.0));
                prop_assert_eq!(cost(selected.cluster.0), lowest);
            }
            _ => prop_assert!(eligible.is_empty()),
        }
    }

    #[test]
    fn a_sample_of_two_never_takes_the_worst(
        count in 2..40_usize,
        worst: usize,
        seed: u64,
    ) {
        let target = target(power_of(2, Comparator::NumRequestsQueued), idle(count));
        let worst = worst % count;
        let _running = target.clusters[worst].load.enter(Tokens(1));
        let decision =
            decide(&target, &request(1), &Exclusions::default(), &mut DecisionState::with_seed(seed));
        prop_assert_ne!(selected(decision).cluster.0, worst);
    }

    #[test]
    fn counting_comparators_spread_a_burst_over_idle_clusters_whatever_these_report(
        idle in proptest::collection::vec((0.0..50_000.0, 0..64_u64, 0..50_000_000_u64), 1..=64),
        input_tokens in 0..100_000_u64,
        by_utilization: bool,
        seed: u64,
    ) {
        let comparator =
            if by_utilization { Comparator::Utilization } else { Comparator::NumRequestsQueued };
        let count = idle.len();
        let stats = idle.into_iter().map(|(tps, slots, rtt)| ClusterStats {
            last_mean_input_tps: TokensPerSecond(tps),
            max_engine_concurrency: slots,
            rtt: Nanos(rtt),
            ..ClusterStats::default()
        });
        let target = target(power_of(count as u64, comparator), clusters(stats));
        prop_assert_eq!(spread(&target, count, &request(input_tokens), seed), count);
    }

    #[test]
    fn comparators_of_queued_work_spread_a_burst_over_equal_idle_clusters(
        count in 1..=64_usize,
        slots in 0..64_u64,
        input_tokens in 1..100_000_u64,
        by_ttft: bool,
        seed: u64,
    ) {
        let comparator = if by_ttft { Comparator::TtftBacklog } else { Comparator::InputWorkSeconds };
        let mut clusters = idle(count);
        for cluster in &mut clusters {
            cluster.stats.max_engine_concurrency = slots;
        }
        let target = target(power_of(count as u64, comparator), clusters);
        prop_assert_eq!(spread(&target, count, &request(input_tokens), seed), count);
    }
}

#[test]
fn ttft_cannot_tell_a_cluster_with_a_free_slot_from_an_idle_one() {
    for (slots, expected) in [(2, false), (1, true), (0, true)] {
        let stats = ClusterStats {
            last_mean_input_tps: TokensPerSecond(1_000.0),
            max_engine_concurrency: slots,
            ..ClusterStats::default()
        };
        let target = target(power_of(2, Comparator::Ttft), clusters([stats.clone(), stats]));
        let is_spread = (0..64).all(|seed| spread(&target, 2, &request(100), seed) == 2);
        assert_eq!(is_spread, expected, "{slots} slots each");
    }
}

#[test]
fn a_sample_of_one_is_uniform_over_the_eligible() {
    let target = target(power_of(1, Comparator::NumRequestsQueued), idle(6));
    let _busy: Vec<_> = (0..9).map(|_| target.clusters[1].load.enter(Tokens(1))).collect();
    assert_uniform_without_first_and_last(&target);
}

#[test]
fn equal_clusters_win_samples_uniformly() {
    assert_uniform_without_first_and_last(&target(power_of(2, Comparator::Ttft), idle(6)));
    assert_uniform_without_first_and_last(&target(power_of(64, Comparator::Ttft), idle(6)));
}

fn assert_uniform_without_first_and_last(target: &Target) {
    let exclusions = exclude(target, [0], [(5, 0)]);
    let mut state = DecisionState::with_seed(6);
    let mut counts = [0; 6];
    for _ in 0..20_000 {
        counts[selected(decide(target, &request(1), &exclusions, &mut state)).cluster.0] += 1;
    }
    let [0, middle @ .., 0] = counts else { panic!("an excluded one was selected: {counts:?}") };
    let statistic = chi_squared_uniform(&middle);
    // The 99.9 % quantile at 3 degrees of freedom.
    assert!(statistic < 16.3, "{statistic}: {counts:?}");
}
