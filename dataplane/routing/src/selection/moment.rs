//! Moments of a request's life, and times to first token, as decisions compare them: in whole nanoseconds.
//!
//! Whole, so that a wait ends exactly when the comparison that caused it comes out the other way, and so that
//! two ways of adding up one time come to the same bucket.

use std::{cmp::Ordering, ops::Add, time::Duration};

use crate::{Nanos, Seconds};

/// Nanoseconds from a request's arrival, saturating.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

/// A time to first token, in nanoseconds: a whole number, or infinite. Held as `f64`, as it is computed so and
/// every candidate of every decision has one; exact up to 2^52, some 52 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub(crate) struct BucketTtft(f64);

// === impl Moment ===

impl Moment {
    /// The arrival.
    pub(crate) const ZERO: Self = Self(0);
    /// Later than any request gets, and so what has no end.
    pub(crate) const NEVER: Self = Self(u64::MAX);
    const LAST: Self = Self(u64::MAX - 1);

    /// `factor` times `length` later, rounded up; never when that is in centuries. `factor` is finite and not
    /// negative.
    pub(crate) fn after(self, factor: f64, length: BucketTtft) -> Self {
        let share = length.0 * factor;
        // What `f64::ceil` does, without the call that it is on machines of 2008.
        let whole = share as u64;
        self + Self(whole.saturating_add(u64::from((whole as f64) < share)))
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
        Self(self.0.saturating_add(other.0))
    }
}

// === impl BucketTtft ===

impl BucketTtft {
    pub(crate) const ZERO: Self = Self(0.0);
    pub(crate) const INFINITE: Self = Self(f64::INFINITY);
    /// The least difference of two that differ.
    pub(crate) const STEP: Self = Self(1.0);

    /// A round trip and, to the nearest nanosecond, what follows it; neither is negative.
    pub(crate) fn new(rtt: Nanos, then: Seconds) -> Self {
        // Next to 2^52 an f64 has no fraction.
        const WHOLE: f64 = (1_u64 << 52) as f64;
        let then = then.0 * 1e9;
        let whole = (then + WHOLE) - WHOLE;
        Self(rtt.0 as f64 + if then < WHOLE { whole } else { then })
    }

    pub(crate) fn is_finite(self) -> bool {
        self.0 < f64::INFINITY
    }

    /// The lesser; neither is NaN, as capacities are valid and counts finite.
    pub(crate) fn min(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }

    /// The greater.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }

    /// How much longer it is than one that is not infinite.
    pub(crate) fn above(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }

    pub(crate) fn total_cmp(self, other: Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }

    pub(crate) fn to_seconds(self) -> Seconds {
        Seconds(self.0 / 1e9)
    }
}

impl From<Duration> for BucketTtft {
    fn from(value: Duration) -> Self {
        Self(Moment::from(value).0 as f64)
    }
}

impl Add for BucketTtft {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

#[cfg(test)]
mod tests;
