use super::*;

fn ns(count: u64) -> Moment {
    Duration::from_nanos(count).into()
}

#[test]
fn a_share_of_a_length_is_rounded_up_to_a_whole_nanosecond() {
    let length = BucketTtft::new(Nanos(10), Seconds::ZERO);
    for (factor, expected) in [(0.0, 5), (0.1, 6), (0.25, 8), (0.3, 8), (0.31, 9), (1.0, 15), (1e-9, 6)] {
        assert_eq!(ns(5).after(factor, length), ns(expected), "{factor}");
    }
    assert_eq!(ns(5).after(f64::MAX, length), Moment::NEVER);
}

#[test]
fn no_request_lives_to_see_never() {
    assert!(Moment::from(Duration::MAX) < Moment::NEVER);
    assert!(ns(u64::MAX) < Moment::NEVER);
    assert_eq!(ns(7).to_duration(), Duration::from_nanos(7));
}

#[test]
fn intervals_are_counted_whole() {
    for (elapsed, expected) in [(50, 0), (59, 0), (60, 1), (79, 2), (80, 3)] {
        assert_eq!(ns(elapsed).intervals_since(ns(50), ns(10)), Some(expected));
    }
    assert_eq!(ns(50).intervals_since(ns(50), ns(0)), None);
    assert_eq!(ns(50).plus_intervals(ns(10), 3), ns(80));
}

#[test]
fn a_time_is_a_round_trip_and_the_nearest_nanosecond_of_the_rest() {
    let time = |rtt, seconds| BucketTtft::new(Nanos(rtt), Seconds(seconds)).to_seconds().0 * 1e9;
    for (seconds, expected) in [(0.0, 3.0), (1.4e-9, 4.0), (1.6e-9, 5.0), (1.0, 1_000_000_003.0)] {
        assert!((time(3, seconds) - expected).abs() < 1e-6, "{seconds}");
    }
    assert!(!BucketTtft::new(Nanos(3), Seconds::INFINITE).is_finite());
    assert!(BucketTtft::new(Nanos(3), Seconds(1e200)).is_finite());
}
