//! From the results of checks to whether a backend takes requests.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use stargate_routing::Nanos;

use super::check::CheckFailure;

/// Weight of a new sample in the smoothed round-trip time, as in TCP (RFC 6298).
const RTT_GAIN: f64 = 1.0 / 8.0;
/// Probes of which the quickest counts, as for every source: a busy scheduler only ever adds to one.
const PROBES: usize = 5;

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

/// Round-trip time by the connect time of probes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbedRtt {
    smoothed_ns: Option<f64>,
    /// Newest last.
    last_ns: VecDeque<u64>,
    probes: u64,
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

// === impl ProbedRtt ===

impl ProbedRtt {
    /// Takes a sample and returns the quickest of the last ones.
    pub fn add(&mut self, sample: Duration) -> Nanos {
        let sample = u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX);
        let smoothed = self.smoothed_ns.unwrap_or(sample as f64);
        self.smoothed_ns = Some(smoothed + (sample as f64 - smoothed) * RTT_GAIN);
        if self.last_ns.len() == PROBES {
            self.last_ns.pop_front();
        }
        self.last_ns.push_back(sample);
        self.probes += 1;
        self.quickest().unwrap_or(Nanos(sample))
    }

    /// Smoothed over all probes, for people; `None` until there is one.
    pub fn smoothed(&self) -> Option<Nanos> {
        self.smoothed_ns.map(|ns| Nanos(ns as u64))
    }

    /// The quickest of the last probes; `None` until there is one.
    pub fn quickest(&self) -> Option<Nanos> {
        self.last_ns.iter().copied().min().map(Nanos)
    }

    /// The last one.
    pub fn last(&self) -> Option<Nanos> {
        self.last_ns.back().copied().map(Nanos)
    }

    /// How many there were.
    pub fn probes(&self) -> u64 {
        self.probes
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
    fn the_quickest_of_the_last_probes_counts() {
        let mut rtt = ProbedRtt::default();
        assert_eq!((rtt.quickest(), rtt.last(), rtt.probes()), (None, None, 0));
        assert_eq!(rtt.add(Duration::from_micros(1600)), Nanos(1_600_000));
        assert_eq!(rtt.add(Duration::from_micros(800)), Nanos(800_000));
        assert_eq!(rtt.smoothed(), Some(Nanos(1_500_000)));
        for _ in 1..PROBES {
            assert_eq!(rtt.add(Duration::from_millis(3)), Nanos(800_000));
        }
        assert_eq!(rtt.add(Duration::from_millis(3)), Nanos(3_000_000), "the quick one is too long ago");
        assert_eq!((rtt.last(), rtt.probes()), (Some(Nanos(3_000_000)), 7));
    }
}
