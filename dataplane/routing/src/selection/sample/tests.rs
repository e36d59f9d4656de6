use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::testing::fleet::chi_squared_uniform;

fn sample(population: u32, count: u64, rng: &mut fastrand::Rng) -> Vec<u32> {
    let mut sample = DistinctSample::new(population, SampleCount::new(count).unwrap());
    let mut members: Vec<_> = std::iter::from_fn(|| sample.next(rng)).collect();
    members.sort_unstable();
    members
}

proptest! {
    #[test]
    fn members_are_distinct_and_of_the_population(
        population in prop_oneof![0..80_u32, Just(u32::MAX)],
        count in 1..=64_u64,
        seed: u64,
    ) {
        let members = sample(population, count, &mut fastrand::Rng::with_seed(seed));
        prop_assert_eq!(members.len() as u64, count.min(population.into()));
        prop_assert!(members.is_sorted_by(|a, b| a < b), "{:?}", members);
        prop_assert!(members.iter().all(|member| *member < population));
    }
}

#[test]
fn every_subset_is_equally_likely() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut seen: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
    for _ in 0..40_000 {
        *seen.entry(sample(6, 3, &mut rng)).or_default() += 1;
    }
    assert_eq!(seen.len(), 20, "6 choose 3");
    let counts: Vec<_> = seen.into_values().collect();
    let statistic = chi_squared_uniform(&counts);
    // The 99.9 % quantile at 19 degrees of freedom.
    assert!(statistic < 43.8, "{statistic}");
}

#[test]
fn every_member_is_equally_likely_in_the_largest_sample() {
    const POPULATION: u32 = 100;
    const SAMPLES: u32 = 5_000;
    let mut rng = fastrand::Rng::with_seed(2);
    let mut counts = vec![0; POPULATION as usize];
    for _ in 0..SAMPLES {
        for member in sample(POPULATION, 64, &mut rng) {
            counts[member as usize] += 1;
        }
    }
    // A member is in or out: its count varies by 1 − 64/100 less than an independent draw's.
    let statistic = chi_squared_uniform(&counts) / (1.0 - 64.0 / f64::from(POPULATION));
    // The 99.9 % quantile at 99 degrees of freedom.
    assert!(statistic < 148.2, "{statistic}");
}

#[test]
fn sample_counts_are_within_1_and_64() {
    for (count, expected) in
        [(0, None), (1, Some(1)), (64, Some(64)), (65, None), (257, None), (u64::MAX, None)]
    {
        assert_eq!(SampleCount::new(count).map(SampleCount::get), expected, "{count}");
    }
    assert_eq!(SampleCount::default().get(), 2);
}
