use std::time::Duration;

use super::*;
use crate::{PulsarWaitAndWidenParameters, Widening};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn bands(affinity_group: u32, wait_ms: u64, interval: Option<u64>) -> Bands {
    let parameters = PulsarWaitAndWidenParameters {
        widening: Widening { affinity_wait: ms(wait_ms), ..Widening::default() },
        affinity_group,
        band_widen_interval: interval.map(ms),
        ..PulsarWaitAndWidenParameters::default()
    };
    parameters.bands(parameters.widening.affinity_wait.into())
}

#[test]
fn every_band_is_twice_as_wide_as_the_one_before() {
    let bands = bands(2, 10, Some(5));
    for (elapsed, count, next) in
        [(10, 4, 15), (14, 4, 15), (15, 8, 20), (20, 16, 25), (25, 32, 30), (30, 64, 35), (70, 16_384, 75)]
    {
        let open = OpenRanks { count, next: ms(next).into() };
        assert_eq!(bands.open(ms(elapsed).into(), || 65_535), Some(open), "{elapsed}");
    }
    assert_eq!(bands.open(ms(80).into(), || 65_535), None);
    assert_eq!(bands.open(Duration::MAX.into(), || 65_535), None);
}

#[test]
fn all_is_open_once_the_ranks_are() {
    assert_eq!(bands(1, 10, None).open(ms(10).into(), || 3), None);
    assert!(bands(1, 10, None).open(ms(10).into(), || 4).is_some());
    assert_eq!(bands(1, 10, Some(0)).open(ms(10).into(), || 65_535), None);
    assert_eq!(bands(1, 0, None).open(ms(0).into(), || 65_535), None);
}

#[test]
fn a_rank_is_open_exactly_from_the_opening_of_its_band_on() {
    for bands in [bands(1, 10, Some(7)), bands(3, 0, Some(4)), bands(2, 10, Some(0)), bands(1, 10, None)] {
        for rank in 1..300 {
            let (number, opens_at) = bands.of_rank(rank);
            if number == 0 {
                assert!(rank <= bands.group && opens_at == Moment::ZERO);
                continue;
            }
            let is_open = |elapsed: Moment| match bands.open(elapsed, || 300) {
                Some(open) => rank <= open.count,
                None => true,
            };
            assert!(is_open(opens_at), "rank {rank} of {bands:?}");
            let before = opens_at.to_duration().checked_sub(Duration::from_nanos(1));
            if let Some(before) = before.map(Moment::from).filter(|before| *before >= bands.since) {
                assert!(!is_open(before), "rank {rank} of {bands:?}");
            }
        }
    }
}
