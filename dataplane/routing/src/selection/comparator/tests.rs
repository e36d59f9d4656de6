#![allow(clippy::float_cmp, reason = "these costs are exact in binary")]

use super::*;
use crate::ClusterIndex;
use crate::{
    ClusterLoad, ClusterStats, Nanos, Tokens, TokensPerSecond,
    testing::fleet::{COMPARATORS, chi_squared_uniform, request},
};

fn winner(costs: &[f64], rng: &mut fastrand::Rng) -> Option<usize> {
    let mut best = Best::new();
    for (index, cost) in costs.iter().enumerate() {
        best.offer(ClusterIndex(index), *cost, rng);
    }
    best.winner().map(|cluster| cluster.0)
}

fn costs(stats: &ClusterStats, input_tokens: u64) -> [f64; 6] {
    let stats = EffectiveStats::new(stats, &ClusterLoad::default(), 0);
    COMPARATORS.map(|comparator| comparator.cost(&stats, &request(input_tokens), 1.0))
}

#[test]
fn costs_are_those_of_the_specification() {
    let full = ClusterStats {
        last_mean_input_tps: TokensPerSecond(1_000.0),
        queue_size: 7,
        queued_input: Tokens(3_000),
        num_running_queries: 6,
        max_engine_concurrency: 4,
        rtt: Nanos(250_000_000),
        ..ClusterStats::default()
    };
    // ttft, ttft-backlog, queue-time, input-work-seconds, utilization, num-requests-queued
    assert_eq!(costs(&full, 500), [3.75, 3.75, 3.0, 3.5, 1.5, 7.0]);
    let free = ClusterStats { max_engine_concurrency: 12, ..full.clone() };
    assert_eq!(costs(&free, 500), [0.75, 3.75, 0.0, 3.5, 0.5, 7.0]);
    let unreported = ClusterStats { max_engine_concurrency: 0, ..full };
    assert_eq!(costs(&unreported, 500), [3.75, 3.75, 3.0, 3.5, 6.0, 7.0]);
}

#[test]
fn input_work_saturates() {
    let stats = ClusterStats {
        last_mean_input_tps: TokensPerSecond(1.0),
        queued_input: Tokens(u64::MAX),
        ..ClusterStats::default()
    };
    assert_eq!(costs(&stats, u64::MAX)[3], u64::MAX as f64);
}

#[test]
fn the_lowest_cost_wins_wherever_it_stands() {
    let mut rng = fastrand::Rng::with_seed(0);
    for costs in [[1.0, 2.0, 3.0], [3.0, 1.0, 2.0], [2.0, 3.0, 1.0]] {
        let lowest = costs.iter().position(|cost| *cost == 1.0);
        assert_eq!(winner(&costs, &mut rng), lowest);
    }
    assert_eq!(winner(&[], &mut rng), None);
}

#[test]
fn nan_never_wins_and_infinities_compare() {
    let mut rng = fastrand::Rng::with_seed(0);
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for _ in 0..100 {
        for other in [-inf, -1.0, 0.0, 1.0, inf] {
            for nan in [nan, -nan] {
                assert_eq!(winner(&[nan, other], &mut rng), Some(1));
                assert_eq!(winner(&[other, nan], &mut rng), Some(0));
            }
        }
        assert_eq!(winner(&[inf, 1e308, inf], &mut rng), Some(1));
        assert_eq!(winner(&[0.0, -inf], &mut rng), Some(1));
        assert!(winner(&[nan, -nan], &mut rng).is_some(), "something has to be selected");
    }
}

#[test]
fn ties_are_broken_uniformly() {
    for tied in [0.0, f64::INFINITY] {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut counts = [0; 5];
        for _ in 0..20_000 {
            let costs = [tied, f64::NAN, tied, tied, tied];
            counts[winner(&costs, &mut rng).unwrap()] += 1;
        }
        let [a, none, b, c, d] = counts;
        assert_eq!(none, 0);
        let statistic = chi_squared_uniform(&[a, b, c, d]);
        // The 99.9 % quantile at 3 degrees of freedom.
        assert!(statistic < 16.3, "{statistic}");
    }
}

#[test]
fn an_earlier_tie_is_forgotten_when_a_better_one_comes() {
    let mut rng = fastrand::Rng::with_seed(4);
    let mut counts = [0; 2];
    for _ in 0..10_000 {
        counts[winner(&[2.0, 2.0, 2.0, 1.0, 1.0], &mut rng).unwrap() - 3] += 1;
    }
    let statistic = chi_squared_uniform(&counts);
    // The 99.9 % quantile at 1 degree of freedom.
    assert!(statistic < 10.8, "{statistic}");
}
