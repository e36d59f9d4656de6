//! Quantities that cross module borders, one type each, so that tokens are never added to milliseconds.

use std::time::Duration;

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

impl TokensPerSecond {
    /// Whether work can be divided by this capacity.
    pub fn is_valid(self) -> bool {
        self.0.is_finite() && self.0 > 0.0
    }
}

impl Nanos {
    /// This length in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

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
