//! How far an engine's work has come by a given time.
//!
//! Engines count in picoseconds of work at nominal speed, so that the lengths of steps add up exactly however they are
//! grouped, and a change of speed moves only the relation to the run's time: nothing under way is touched by it.

use std::{ops::Add, time::Duration};

/// A time in an engine's work, or a length of it, at nominal speed. Holds 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Picos(pub(super) u64);

const PICOS_A_SECOND: f64 = 1e12;
const PICOS_A_NANO: u64 = 1_000;
/// Speeds are counted in millionths.
const NOMINAL: u64 = 1_000_000;

/// The relation of an engine's work to the run's time.
pub(super) struct Clock {
    /// Since when it works at this speed, and how far it had come by then.
    since: Duration,
    work: Picos,
    speed: u64,
}

// === impl Picos ===

impl Picos {
    /// The nearest whole number of picoseconds; what is negative or no number is none.
    pub(super) fn from_seconds(seconds: f64) -> Self {
        Self((seconds * PICOS_A_SECOND).round() as u64)
    }

    pub(super) fn seconds(self) -> f64 {
        self.0 as f64 / PICOS_A_SECOND
    }

    pub(super) fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    pub(super) fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl Add for Picos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

// === impl Clock ===

impl Clock {
    /// At nominal speed from time 0 on.
    pub(super) fn new() -> Self {
        Self { since: Duration::ZERO, work: Picos(0), speed: NOMINAL }
    }

    /// How far the work has come by `now`.
    pub(super) fn work(&self, now: Duration) -> Picos {
        let elapsed = nanos(now.saturating_sub(self.since));
        self.work
            + match self.speed {
                NOMINAL => Picos(elapsed.saturating_mul(PICOS_A_NANO)),
                speed => Picos(scale(elapsed, speed * PICOS_A_NANO, NOMINAL, Round::Down)),
            }
    }

    /// The first nanosecond by which the work has come so far: none when it stands still before.
    pub(super) fn time(&self, work: Picos) -> Option<Duration> {
        let left = work.saturating_sub(self.work).0;
        let nanos = match self.speed {
            _ if left == 0 => 0,
            0 => return None,
            NOMINAL => left.div_ceil(PICOS_A_NANO),
            speed => scale(left, NOMINAL, speed * PICOS_A_NANO, Round::Up),
        };
        Some(self.since + Duration::from_nanos(nanos))
    }

    /// Works so many times as fast as nominal from `now` on; at 0 it stands still.
    pub(super) fn set_speed(&mut self, now: Duration, speed: f64) {
        self.work = self.work(now);
        self.since = now;
        self.speed = (speed * NOMINAL as f64).round() as u64;
    }
}

#[derive(Clone, Copy)]
enum Round {
    Down,
    Up,
}

/// `value` × `by` / `over`; what does not fit is the greatest value.
fn scale(value: u64, by: u64, over: u64, round: Round) -> u64 {
    let product = u128::from(value) * u128::from(by);
    let over = u128::from(over);
    let result = match round {
        Round::Down => product / over,
        Round::Up => product.div_ceil(over),
    };
    u64::try_from(result).unwrap_or(u64::MAX)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const NANO: Duration = Duration::from_nanos(1);

    #[test]
    fn work_follows_the_speed_and_keeps_what_is_done() {
        let mut clock = Clock::new();
        assert_eq!(clock.work(5 * MS), Picos(5_000_000_000));
        clock.set_speed(5 * MS, 0.5);
        assert_eq!(clock.work(9 * MS), Picos(7_000_000_000));
        assert_eq!(clock.time(Picos(7_000_000_000)), Some(9 * MS));
        clock.set_speed(9 * MS, 0.0);
        assert_eq!((clock.work(20 * MS), clock.time(Picos(7_000_000_001))), (Picos(7_000_000_000), None));
        clock.set_speed(20 * MS, 2.0);
        assert_eq!(clock.time(Picos(7_000_000_001)), Some(20 * MS + Duration::from_nanos(1)));
    }

    #[test]
    fn by_the_time_that_is_named_the_work_is_done() {
        let mut clock = Clock::new();
        for speed in [0.333_333, 1.0, 0.7, 3.1, 0.000_001] {
            clock.set_speed(MS, speed);
            for work in [1, 999, 1_000, 1_001, 123_456_789_012_345] {
                let due = clock.work(MS) + Picos(work);
                let time = clock.time(due).unwrap();
                assert!(clock.work(time) >= due && clock.work(time.saturating_sub(NANO)) < due);
            }
        }
    }
}
