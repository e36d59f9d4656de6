//! Bounds retries to a share of requests, so that a failing fleet is not loaded with its own retries.
//!
//! Each request adds the configured share, and each second a minimum, so that a quiet gateway can retry
//! too. Per core: budgets need no agreement, only a bound.

use std::time::Instant;

use crate::settings::Retry;

/// One retry, in the unit that the budget counts: a hundredth.
const RETRY: u64 = 100;
/// Seconds of the minimum that can be saved up.
const SAVED_S: u64 = 10;
/// Retries that requests can save up: a long time without failures must not allow a storm.
const SAVED_BY_REQUESTS: u64 = 100;

/// The budget of one core.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    percent: u64,
    min_per_second: u64,
    hundredths: u64,
    updated: Instant,
}

// === impl RetryBudget ===

impl RetryBudget {
    pub(crate) fn new(settings: &Retry, now: Instant) -> Self {
        let min_per_second = u64::from(settings.budget_min_per_second);
        Self {
            percent: u64::from(settings.budget_percent),
            min_per_second,
            hundredths: min_per_second * SAVED_S * RETRY,
            updated: now,
        }
    }

    /// A request has come.
    pub(crate) fn request(&mut self) {
        let cap = (self.min_per_second * SAVED_S).max(SAVED_BY_REQUESTS) * RETRY;
        self.hundredths = (self.hundredths + self.percent).min(cap);
    }

    /// Whether a retry is left.
    pub(crate) fn has_one(&self, now: Instant) -> bool {
        self.hundredths_at(now) >= RETRY
    }

    /// Takes one retry; false when none is left.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let earned = self.earned(now);
        if earned > 0 {
            self.hundredths = self.hundredths_at(now);
            self.updated = now;
        }
        let is_enough = self.hundredths >= RETRY;
        if is_enough {
            self.hundredths -= RETRY;
        }
        is_enough
    }

    /// What time has added since it was last looked at, in hundredths.
    fn earned(&self, now: Instant) -> u64 {
        let elapsed_ms = now.saturating_duration_since(self.updated).as_millis() as u64;
        elapsed_ms.saturating_mul(self.min_per_second * RETRY) / 1000
    }

    fn hundredths_at(&self, now: Instant) -> u64 {
        let cap = (self.min_per_second * SAVED_S * RETRY).max(self.hundredths);
        self.hundredths.saturating_add(self.earned(now)).min(cap)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_share_of_requests_and_a_minimum_a_second_may_be_retried() {
        let settings = Retry { budget_percent: 20, budget_min_per_second: 3, ..Retry::default() };
        let start = Instant::now();
        let mut budget = RetryBudget::new(&settings, start);
        assert_eq!((0..100).filter(|_| budget.take(start)).count(), 30, "ten seconds' worth at the start");
        (0..50).for_each(|_| budget.request());
        assert_eq!((0..100).filter(|_| budget.take(start)).count(), 10, "20 % of 50");
        let later = start + Duration::from_secs(2);
        assert_eq!((0..100).filter(|_| budget.take(later)).count(), 6, "3 a second");
        let much_later = later + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| budget.take(much_later)).count(), 30, "ten seconds' worth at most");
    }
}
