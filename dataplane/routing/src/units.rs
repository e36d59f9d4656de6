//! Quantities that cross module borders, one type each, so that tokens are never added to milliseconds.

use std::{ops::Add, time::Duration};

/// A count of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tokens(pub u64);

/// A length of time in whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

/// A length of time in whole nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// A throughput in tokens per second. A capacity is valid when it is finite and positive; 0 means that
/// none was reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct TokensPerSecond(pub f64);

/// A length of time that a decision compares; infinite when it has no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

// === impl Tokens ===

impl Tokens {
    /// How long this work takes at `capacity`: nothing takes 0 s at any capacity, and work at a capacity
    /// that is not valid never ends.
    #[inline]
    pub fn work_at(self, capacity: TokensPerSecond) -> Seconds {
        let tokens = self.0 as f64;
        if capacity.is_valid() {
            Seconds(tokens / capacity.0)
        } else if self.0 == 0 {
            Seconds::ZERO
        } else {
            Seconds::INFINITE
        }
    }

    /// The sum, or the largest count where it would overflow.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The sum with a count or with a change, which may be a two's complement.
    #[must_use]
    pub(crate) fn wrapping_add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

// === impl TokensPerSecond ===

impl TokensPerSecond {
    /// Whether work can be divided by this capacity.
    #[inline]
    pub fn is_valid(self) -> bool {
        // Two comparisons, where `is_finite` and one become a dozen instructions.
        0.0 < self.0 && self.0 <= f64::MAX
    }
}

// === impl Seconds ===

impl Seconds {
    /// No time.
    pub const ZERO: Self = Self(0.0);
    /// Without a bound.
    pub const INFINITE: Self = Self(f64::INFINITY);

    /// Whether it has a bound.
    pub fn is_finite(self) -> bool {
        self.0.is_finite()
    }

    /// This length, `None` when it is infinite or more than a [`Duration`] holds.
    pub fn to_duration(self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.0).ok()
    }
}

impl Add for Seconds {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl From<Nanos> for Seconds {
    fn from(value: Nanos) -> Self {
        Self(value.as_secs_f64())
    }
}

// === impl Nanos ===

impl Nanos {
    /// This length in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

// === impl Duration ===

impl From<Millis> for Duration {
    fn from(value: Millis) -> Self {
        Self::from_millis(value.0)
    }
}

impl From<Nanos> for Duration {
    fn from(value: Nanos) -> Self {
        Self::from_nanos(value.0)
    }
}
