//! A figure over seeds: its mean and its range, which is all that a reader is told of the runs.
//!
//! Which figure it is, and how many digits of it are shown, it does not know.

use serde::{Serialize, Serializer};

/// A figure over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

// === impl Spread ===

impl Spread {
    /// Of these values; `None` when there are none.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let min = values.iter().copied().min_by(f64::total_cmp)?;
        let max = values.iter().copied().max_by(f64::total_cmp)?;
        // Rounding must not move a mean out of its range.
        let mean = (values.iter().sum::<f64>() / values.len() as f64).clamp(min, max);
        Some(Self { mean, min, max })
    }
}

impl Serialize for Spread {
    /// As `[mean, min, max]`, of six digits each: files are full of them.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [self.mean, self.min, self.max].map(six_digits).serialize(serializer)
    }
}

/// A number without the digits that no reader needs.
pub(super) fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_hold_their_mean_and_are_short_in_files() {
        let spread = Spread::of(&[0.1, 0.1, 0.1]).expect("values");
        assert_eq!((spread.mean, spread.min, spread.max), (0.1, 0.1, 0.1));
        let spread = Spread { mean: 1234.5678, min: 1.0 / 3.0, max: 0.0 };
        assert_eq!(serde_json::to_string(&spread).expect("JSON"), "[1234.57,0.333333,0.0]");
        assert_eq!(Spread::of(&[]), None);
    }
}
