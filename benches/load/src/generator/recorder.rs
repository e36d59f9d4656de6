//! What came of the requests: latencies in HDR histograms, events, bytes, failures by kind.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::failure::Failure;

/// Latencies are told apart to three digits, from a nanosecond to an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// What came of the requests of one window.
pub(crate) struct Recorder {
    /// From the intended start to the first byte of the response.
    first_byte: Histogram<u64>,
    /// From the intended start to the last byte.
    total: Histogram<u64>,
    /// Between the arrivals of SSE events of one stream.
    gap: Histogram<u64>,
    /// A first byte within this time is in time.
    goal: Option<Duration>,
    pub(crate) completed: u64,
    in_time: u64,
    pub(crate) failed: u64,
    pub(crate) sse_events: u64,
    pub(crate) response_bytes: u64,
    failures: BTreeMap<Failure, u64>,
}

/// Quantiles of one histogram, in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) count: u64,
    pub(crate) mean_us: f64,
    pub(crate) min_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

// === impl Recorder ===

impl Recorder {
    /// Nothing yet. A first byte within `goal` is in time.
    pub(crate) fn new(goal: Option<Duration>) -> Self {
        Self {
            goal,
            first_byte: histogram(),
            total: histogram(),
            gap: histogram(),
            completed: 0,
            in_time: 0,
            failed: 0,
            sse_events: 0,
            response_bytes: 0,
            failures: BTreeMap::new(),
        }
    }

    /// A request was answered, whole and well.
    pub(crate) fn completed(&mut self, first_byte: Duration, total: Duration) {
        self.completed += 1;
        self.in_time += u64::from(self.goal.is_some_and(|goal| first_byte <= goal));
        self.first_byte.saturating_record(nanoseconds(first_byte));
        self.total.saturating_record(nanoseconds(total));
    }

    /// Of the completed requests, those in time; `None` without a goal.
    pub(crate) fn in_time(&self) -> Option<u64> {
        self.goal.map(|_| self.in_time)
    }

    /// A request failed.
    pub(crate) fn failed(&mut self, failure: Failure) {
        self.failed += 1;
        *self.failures.entry(failure).or_default() += 1;
    }

    /// SSE events arrived together, so long after the one before (`None`: they are the first).
    pub(crate) fn events(&mut self, events: u64, gap: Option<Duration>) {
        self.sse_events += events;
        if let Some(gap) = gap {
            self.gap.saturating_record(nanoseconds(gap));
        }
        // Those that came in one read had no gap; the histogram's least value is 1.
        self.gap.saturating_record_n(1, events.saturating_sub(1));
    }

    /// Quantiles of time to first byte.
    pub(crate) fn first_byte(&self) -> Quantiles {
        quantiles(&self.first_byte)
    }

    /// Quantiles of time to last byte.
    pub(crate) fn total(&self) -> Quantiles {
        quantiles(&self.total)
    }

    /// Quantiles of the gaps between events; `None` without events.
    pub(crate) fn gap(&self) -> Option<Quantiles> {
        (!self.gap.is_empty()).then(|| quantiles(&self.gap))
    }

    /// Failures by kind.
    pub(crate) fn failures(&self) -> BTreeMap<String, u64> {
        self.failures.iter().map(|(failure, count)| (failure.to_string(), *count)).collect()
    }
}

fn histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("constant bounds: {error}"),
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}

fn quantiles(histogram: &Histogram<u64>) -> Quantiles {
    let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Quantiles {
        count: histogram.len(),
        mean_us: histogram.mean() / 1e3,
        min_us: histogram.min() as f64 / 1e3,
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: histogram.max() as f64 / 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let mut recorder = Recorder::new(None);
        for microseconds in 1..=1000 {
            recorder.completed(Duration::from_micros(microseconds), Duration::from_micros(2 * microseconds));
        }
        let (first, total) = (recorder.first_byte(), recorder.total());
        assert_eq!(first.count, 1000);
        assert!((first.p50_us / 500.0 - 1.0).abs() < 0.001, "{}", first.p50_us);
        assert!((total.p99_us / 1980.0 - 1.0).abs() < 0.001, "{}", total.p99_us);
    }

    #[test]
    fn failures_are_told_apart() {
        let mut recorder = Recorder::new(None);
        for failure in [Failure::Status(503), Failure::Cut, Failure::Status(503)] {
            recorder.failed(failure);
        }
        let expected = [("cut response".to_owned(), 1), ("status 503".to_owned(), 2)];
        assert_eq!(recorder.failures(), BTreeMap::from(expected));
        assert_eq!(recorder.failed, 3);
    }

    #[test]
    fn events_that_came_together_have_no_gap() {
        let mut recorder = Recorder::new(None);
        recorder.events(1, None);
        recorder.events(3, Some(Duration::from_millis(20)));
        let gap = recorder.gap().unwrap();
        assert_eq!((recorder.sse_events, gap.count), (4, 3));
        assert!(gap.p50_us < 1.0 && gap.max_us > 19_000.0);
    }
}
