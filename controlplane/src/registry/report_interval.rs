//! How often a backend reports one model, and how many requests it completes in between.
//!
//! Between two reports its queue drains unseen. A limit on queueing (`max_queued`) below what it completes in that
//! time lets it run dry, and others take its slots; this tells how deep the limit must be.

use std::time::Duration;

use stargate_routing::Nanos;
use tokio::time::Instant;

/// Share of what is remembered that each interval replaces.
const DECAY: f64 = 1.0 / 8.0;

/// Smoothed over the last reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReportInterval {
    last_report: Option<Instant>,
    /// Since then.
    completed: u32,
    smoothed: Option<Smoothed>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Smoothed {
    seconds: f64,
    completions: f64,
}

// === impl ReportInterval ===

impl ReportInterval {
    /// A report has come.
    pub(super) fn report(&mut self, now: Instant) {
        if let Some(last) = self.last_report {
            let newest = Smoothed {
                seconds: now.saturating_duration_since(last).as_secs_f64(),
                completions: f64::from(self.completed),
            };
            self.smoothed = Some(self.smoothed.map_or(newest, |old| Smoothed {
                seconds: old.seconds + DECAY * (newest.seconds - old.seconds),
                completions: old.completions + DECAY * (newest.completions - old.completions),
            }));
        }
        self.last_report = Some(now);
        self.completed = 0;
    }

    /// A request has been completed.
    pub(super) fn completion(&mut self) {
        self.completed = self.completed.saturating_add(1);
    }

    /// Between two reports; `None` before the second.
    pub fn interval(&self) -> Option<Duration> {
        self.smoothed.and_then(|smoothed| Duration::try_from_secs_f64(smoothed.seconds).ok())
    }

    /// Requests completed between two reports; `None` before the second.
    pub fn completions(&self) -> Option<f64> {
        self.smoothed.map(|smoothed| smoothed.completions)
    }

    /// The least `max_queued` with which this backend does not run dry unseen: what it completes in one interval and
    /// the round trip after it. `None` before the second report.
    pub fn max_queued_needed(&self, rtt: Nanos) -> Option<u64> {
        let Smoothed { seconds, completions } = self.smoothed?;
        let within_rtt = if seconds > 0.0 { completions / seconds * rtt.as_secs_f64() } else { 0.0 };
        // Hundredths are the smoothing's, not requests.
        Some((completions + within_rtt - 0.01).ceil().max(0.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_needs_a_queue_as_deep_as_it_is_long() {
        let mut interval = ReportInterval::default();
        assert_eq!(interval.max_queued_needed(Nanos(0)), None);
        for _ in 0..40 {
            interval.report(Instant::now());
            (0..12).for_each(|_| interval.completion());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(interval.interval(), Some(Duration::from_secs(1)));
        assert_eq!(interval.max_queued_needed(Nanos(0)), Some(12));
        // Half a second more is six more.
        assert_eq!(interval.max_queued_needed(Nanos(500_000_000)), Some(18));
    }

    #[tokio::test(start_paused = true)]
    async fn it_follows_a_change_of_pace() {
        let mut interval = ReportInterval::default();
        for completions in [10, 10, 10].into_iter().chain([0; 60]) {
            interval.report(Instant::now());
            (0..completions).for_each(|_| interval.completion());
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        assert_eq!(interval.max_queued_needed(Nanos(0)), Some(0));
        assert!(interval.completions().unwrap() < 0.01);
    }
}
