//! Moments of a request's life as decisions compare them: whole nanoseconds from its arrival.
//!
//! Integers, so that a wait ends exactly when the comparison that caused it comes out the other way.

use std::{ops::Add, time::Duration};

use crate::Seconds;

/// Nanoseconds, saturating: from an arrival, or of a time to first token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

// === impl Moment ===

impl Moment {
    /// The arrival.
    pub(crate) const ZERO: Self = Self(0);
    /// Later than anything that has an end.
    pub(crate) const NEVER: Self = Self(u64::MAX);
    const LAST: Self = Self(u64::MAX - 1);

    /// The whole nanosecond nearest to a time that is not negative.
    pub(crate) fn nearest(time: Seconds) -> Self {
        if time.is_finite() { Self((time.0 * 1e9 + 0.5) as u64).min(Self::LAST) } else { Self::NEVER }
    }

    /// `self` and `factor` times the time from `start` to `end`, rounded up; `factor` is finite and not negative.
    pub(crate) fn after(self, factor: f64, start: Self, end: Self) -> Self {
        let share = (end.0.saturating_sub(start.0) as f64 * factor).ceil();
        Self(self.0.saturating_add(share as u64)).min(Self::LAST)
    }

    /// Whole intervals from `start` to `self`; `None` when these have no length.
    pub(crate) fn intervals_since(self, start: Self, interval: Self) -> Option<u64> {
        self.0.saturating_sub(start.0).checked_div(interval.0)
    }

    /// `self` and this many intervals.
    pub(crate) fn plus_intervals(self, interval: Self, count: u64) -> Self {
        self + Self(interval.0.saturating_mul(count))
    }

    pub(crate) fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl From<Duration> for Moment {
    fn from(value: Duration) -> Self {
        Self(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX)).min(Self::LAST)
    }
}

impl Add for Moment {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0)).min(Self::LAST)
    }
}
