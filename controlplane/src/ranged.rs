//! Numbers that are checked against their range while they are read, so that the error knows the place.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, de};

/// Highest throughput that is believed, in tokens per second: a thousand times the fastest fleet known.
const TPS_MAX: f64 = 1e12;

/// A whole number within `MIN..=MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Whole<const MIN: u64, const MAX: u64>(u64);

/// Milliseconds from 1 to one day: every interval and timeout.
pub type Interval = Whole<1, 86_400_000>;

/// A throughput in tokens per second: finite, positive, at most 1e12.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Throughput(f64);

// === impl Whole ===

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    /// # Panics
    /// Outside the range; for constants of the code.
    pub const fn new(value: u64) -> Self {
        assert!(MIN <= value && value <= MAX, "outside its range");
        Self(value)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number, as a count. Ranges of counts end far below what a 64-bit `usize` holds.
    pub const fn count(self) -> usize {
        self.0 as usize
    }

    /// The number, as milliseconds.
    pub const fn millis(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<const MIN: u64, const MAX: u64>;
        impl<const MIN: u64, const MAX: u64> de::Visitor<'_> for Visitor<MIN, MAX> {
            type Value = Whole<MIN, MAX>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an integer from {MIN} to {MAX}")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
                if (MIN..=MAX).contains(&value) {
                    Ok(Whole(value))
                } else {
                    Err(E::invalid_value(de::Unexpected::Unsigned(value), &self))
                }
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
                match u64::try_from(value) {
                    Ok(value) => self.visit_u64(value),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(value), &self)),
                }
            }
        }
        deserializer.deserialize_u64(Visitor)
    }
}

// === impl Throughput ===

impl Throughput {
    /// `None` when it is not finite, not positive or beyond belief.
    pub fn new(tokens_per_second: f64) -> Option<Self> {
        (tokens_per_second > 0.0 && tokens_per_second <= TPS_MAX).then_some(Self(tokens_per_second))
    }

    /// Tokens per second.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Throughput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Throughput;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a finite number above 0 and up to 1e12, in tokens per second")
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Throughput, E> {
                Throughput::new(value).ok_or_else(|| E::invalid_value(de::Unexpected::Float(value), &self))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Throughput, E> {
                Throughput::new(value as f64)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(value), &self))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Throughput, E> {
                Throughput::new(value as f64)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(value), &self))
            }
        }
        deserializer.deserialize_f64(Visitor)
    }
}
