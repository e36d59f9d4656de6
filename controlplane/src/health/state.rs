//! From the results of checks to whether a backend takes requests.

use std::{sync::Arc, time::Duration};

use stargate_routing::Nanos;

use super::CheckFailure;

/// Weight of a new sample in the smoothed round-trip time, as in TCP (RFC 6298).
const RTT_GAIN: f64 = 1.0 / 8.0;
/// Relative change of the smoothed time that routing is told of; below it is noise of the scheduler.
const RTT_CHANGE_MIN: f64 = 0.05;

/// How many checks in a row change a backend's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Failed ones that take it out.
    pub unhealthy_after: u32,
    /// Good ones that bring it back.
    pub healthy_after: u32,
}

/// Health of one registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthState {
    condition: Condition,
    /// Checks in a row that speak against the condition.
    against: u32,
    last_failure: Option<Arc<str>>,
}

/// Whether a backend takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// Never checked: it does not.
    Unknown,
    /// It does.
    Healthy,
    /// It does not.
    Unhealthy,
}

/// What a check changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Nothing.
    None,
    /// It takes requests from now on.
    Up,
    /// It takes none from now on, or, never having taken any, is known not to.
    Down,
}

/// Smoothed round-trip time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SmoothedRtt {
    smoothed_ns: Option<f64>,
    published: Option<Nanos>,
}

// === impl HealthState ===

impl HealthState {
    /// Of a backend that was never checked: its first check decides.
    pub fn unknown() -> Self {
        Self { condition: Condition::Unknown, against: 0, last_failure: None }
    }

    /// Of one that has just shown that it lives.
    pub fn healthy() -> Self {
        Self { condition: Condition::Healthy, ..Self::unknown() }
    }

    /// Whether it takes requests.
    pub fn is_healthy(&self) -> bool {
        self.condition == Condition::Healthy
    }

    /// Its condition.
    pub fn condition(&self) -> Condition {
        self.condition
    }

    /// Why the last failed check failed; `None` again after a good one.
    pub fn last_failure(&self) -> Option<&str> {
        self.last_failure.as_deref()
    }

    /// Takes the result of a check.
    pub fn record(&mut self, result: &Result<(), CheckFailure>, thresholds: Thresholds) -> Transition {
        self.last_failure = result.as_ref().err().map(|failure| failure.to_string().into());
        let (condition, needed, transition) = match (self.condition, result) {
            (Condition::Healthy, Ok(())) | (Condition::Unhealthy, Err(_)) => {
                self.against = 0;
                return Transition::None;
            }
            (Condition::Unknown, Ok(())) => (Condition::Healthy, 1, Transition::Up),
            (Condition::Unhealthy, Ok(())) => (Condition::Healthy, thresholds.healthy_after, Transition::Up),
            (Condition::Unknown, Err(_)) => (Condition::Unhealthy, 1, Transition::Down),
            (Condition::Healthy, Err(_)) => {
                (Condition::Unhealthy, thresholds.unhealthy_after, Transition::Down)
            }
        };
        self.against += 1;
        if self.against < needed {
            return Transition::None;
        }
        self.against = 0;
        self.condition = condition;
        transition
    }
}

// === impl SmoothedRtt ===

impl SmoothedRtt {
    /// Takes a sample. True when what is published changed.
    pub fn add(&mut self, sample: Duration) -> bool {
        let sample = sample.as_nanos() as f64;
        let smoothed = match self.smoothed_ns {
            None => sample,
            Some(smoothed) => smoothed + (sample - smoothed) * RTT_GAIN,
        };
        self.smoothed_ns = Some(smoothed);
        let now = Nanos(smoothed as u64);
        let is_noise = self.published.is_some_and(|published| {
            (smoothed - published.0 as f64).abs() <= published.0 as f64 * RTT_CHANGE_MIN
        });
        if !is_noise {
            self.published = Some(now);
        }
        !is_noise
    }

    /// As routing knows it; `None` until there is a sample.
    pub fn get(&self) -> Option<Nanos> {
        self.published
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: Thresholds = Thresholds { unhealthy_after: 2, healthy_after: 3 };
    const BAD: Result<(), CheckFailure> = Err(CheckFailure::Timeout);

    #[test]
    fn an_unknown_backend_is_decided_by_its_first_check() {
        let mut state = HealthState::unknown();
        assert!(!state.is_healthy());
        assert_eq!(state.record(&Ok(()), THRESHOLDS), Transition::Up);
        assert!(state.is_healthy());
        let mut state = HealthState::unknown();
        assert_eq!(state.record(&BAD, THRESHOLDS), Transition::Down);
        assert_eq!(state.condition(), Condition::Unhealthy);
    }

    #[test]
    fn only_checks_in_a_row_count() {
        let mut state = HealthState::healthy();
        for _ in 0..5 {
            assert_eq!(state.record(&BAD, THRESHOLDS), Transition::None);
            assert!(state.last_failure().is_some());
            assert_eq!(state.record(&Ok(()), THRESHOLDS), Transition::None);
            assert_eq!(state.last_failure(), None);
        }
        assert_eq!(state.record(&BAD, THRESHOLDS), Transition::None);
        assert_eq!(state.record(&BAD, THRESHOLDS), Transition::Down);
        assert_eq!(state.record(&BAD, THRESHOLDS), Transition::None);
        for expected in [Transition::None, Transition::None, Transition::Up] {
            assert_eq!(state.record(&Ok(()), THRESHOLDS), expected);
        }
    }

    #[test]
    fn rtt_is_smoothed_and_noise_is_not_published() {
        let mut rtt = SmoothedRtt::default();
        assert!(rtt.add(Duration::from_micros(800)));
        assert_eq!(rtt.get(), Some(Nanos(800_000)));
        assert!(rtt.add(Duration::from_micros(1600)));
        assert_eq!(rtt.get(), Some(Nanos(900_000)));
        assert!(!rtt.add(Duration::from_micros(950)), "within 5 %");
        assert_eq!(rtt.get(), Some(Nanos(900_000)));
    }
}
