//! Bounds retries to a share of requests, so that a failing fleet is not loaded with its own retries.
//!
//! Each request adds the configured share, and each second a minimum, so
//! that a quiet gateway can retry too. Per core: budgets need no agreement, only a bound.

use std::time::Instant;

use crate::settings::Retry;

/// Seconds of retries that can be saved up.
const BURST_S: f64 = 10.0;

/// The budget of one core.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    share: f64,
    min_per_second: f64,
    available: f64,
    updated: Instant,
}

// === impl RetryBudget ===

impl RetryBudget {
    pub(crate) fn new(settings: &Retry, now: Instant) -> Self {
        let min_per_second = f64::from(settings.budget_min_per_second);
        Self {
            share: f64::from(settings.budget_percent) / 100.0,
            min_per_second,
            available: min_per_second * BURST_S,
            updated: now,
        }
    }

    /// A request has come.
    pub(crate) fn request(&mut self) {
        // What requests add is bounded as well, or a long quiet failure-free time would allow a storm.
        let cap = (self.min_per_second * BURST_S).max(100.0);
        self.available = (self.available + self.share).min(cap);
    }

    /// Takes one retry; false when none is left.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let cap = (self.min_per_second * BURST_S).max(self.available);
        let earned = now.saturating_duration_since(self.updated).as_secs_f64() * self.min_per_second;
        self.available = (self.available + earned).min(cap);
        self.updated = now;
        if self.available < 1.0 {
            return false;
        }
        self.available -= 1.0;
        true
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
