use std::time::Duration;

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{Nanos, Seconds};

fn time(ns: u64) -> BucketTtft {
    match ns {
        u64::MAX => BucketTtft::INFINITE,
        ns => BucketTtft::new(Nanos(ns), Seconds::ZERO),
    }
}

fn ns(count: u64) -> Moment {
    Duration::from_nanos(count).into()
}

fn buckets(size: u64, factor: f64, fastest: BucketTtft) -> Buckets {
    let widening = Widening {
        ttft_bucket_size: Duration::from_nanos(size),
        next_bucket_unlock_factor: factor,
        ..Widening::default()
    };
    Buckets::new(&widening, fastest, Moment::ZERO)
}

/// (start, opening) of all buckets, by sorting.
fn sorted_walk(times: &[u64], size: u64, factor: f64) -> Vec<(BucketTtft, Moment)> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let mut all: Vec<(u64, Moment)> = Vec::new();
    for time in sorted {
        if all.last().is_none_or(|(start, _)| time - start > size) {
            let gaps = time - all.first().map_or(time, |(start, _)| *start);
            all.push((time, ns((gaps as f64 * factor).ceil() as u64)));
        }
    }
    all.into_iter().map(|(start, unlock)| (time(start), unlock)).collect()
}

proptest! {
    /// Many more buckets than are walked before their times are sorted.
    #[test]
    fn buckets_and_their_openings_are_those_of_a_sorted_walk(
        times in vec(0..2_000_u64, 1..200),
        size in 0..50_u64,
        factor in prop_oneof![Just(0.25), Just(1.0), 0.01..2.0],
        elapsed in 0..3_000_u64,
    ) {
        let expected = sorted_walk(&times, size, factor);
        let all: Vec<_> = times.iter().map(|ns| time(*ns)).collect();
        let fastest = expected[0].0;
        let buckets = buckets(size, factor, fastest);
        let mut scratch = Vec::new();

        let mut walked = Vec::new();
        buckets.walk(all.iter().copied(), &mut scratch, |bucket| {
            walked.push((bucket.start, bucket.unlocks_at));
            ControlFlow::Continue(())
        });
        prop_assert_eq!(&walked, &expected);

        let slowest = all.iter().copied().fold(BucketTtft::ZERO, BucketTtft::max);
        let through = buckets.opened(ns(elapsed), slowest, all.iter().copied(), &mut scratch);
        let first_locked = expected.iter().find(|(_, unlock)| *unlock > ns(elapsed));
        for time in all.iter().copied() {
            let is_unlocked = first_locked.is_none_or(|(start, _)| time < *start);
            prop_assert_eq!(time <= through, is_unlocked);
        }
        let next = buckets.next_unlock(through, all.iter().copied());
        prop_assert_eq!(next, first_locked.map(|(_, unlock)| *unlock));
    }
}

#[test]
fn what_is_infinite_is_a_bucket_of_its_own_that_never_opens() {
    let times = [time(5), BucketTtft::INFINITE];
    let buckets = buckets(u64::MAX, 0.25, time(5));
    let through =
        buckets.opened(Duration::MAX.into(), BucketTtft::INFINITE, times.into_iter(), &mut Vec::new());
    assert!(time(5) <= through && BucketTtft::INFINITE > through);
    assert_eq!(buckets.next_unlock(through, times.into_iter()), None);
}

#[test]
fn when_all_are_infinite_their_bucket_is_the_first() {
    let times = [BucketTtft::INFINITE; 2];
    let buckets = buckets(20, 0.25, BucketTtft::INFINITE);
    let through = buckets.opened(Moment::ZERO, BucketTtft::INFINITE, times.into_iter(), &mut Vec::new());
    assert!(BucketTtft::INFINITE <= through);
}
