//! How long a request waits for a place, and which answers it takes as final.

use std::time::Duration;

use super::Hold;
use crate::{Millis, UnavailableReason, Waiting};

/// How long a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Counted from its arrival; at most [`Waiting::MAX_WAIT`].
    pub deadline: Duration,
    /// Who says so.
    pub source: PatienceSource,
}

/// Who says how long a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatienceSource {
    /// The request itself.
    Request,
    /// Its model's `default_max_wait_ms`.
    Model,
    /// Nobody: a wait whose end is known is waited for, and nothing else.
    Nobody,
}

// === impl Patience ===

impl Patience {
    /// Of a request that `asked` for so long, if it said, for a model whose requests wait like this.
    pub fn new(asked: Option<Duration>, waiting: &Waiting) -> Self {
        let (deadline, source) = match asked {
            Some(asked) => (asked, PatienceSource::Request),
            None if waiting.default_max_wait > Duration::ZERO => {
                (waiting.default_max_wait, PatienceSource::Model)
            }
            None => (Waiting::MAX_WAIT, PatienceSource::Nobody),
        };
        Self { deadline: deadline.min(Waiting::MAX_WAIT), source }
    }

    /// When waiting becomes pointless, counted from the arrival: at the deadline, or at the SLO where that is sooner.
    pub fn limit(self, slo: Option<Millis>) -> Duration {
        slo.map_or(self.deadline, |slo| self.deadline.min(slo.into()))
    }

    /// When a request that is held like this is decided again, whatever happens, counted from the arrival.
    pub fn due(self, hold: Hold) -> Duration {
        hold.until.min(self.deadline)
    }

    /// Whether a request that gets this answer is refused, and does not wait until it is another.
    pub fn is_final(self, reason: UnavailableReason) -> bool {
        match reason {
            UnavailableReason::NoActiveBackend | UnavailableReason::NoCapacity => !self.has_budget(),
            // What failed within this request does not come back within it, and what a cluster reports of itself
            // hardly ever changes.
            UnavailableReason::AllExcluded | UnavailableReason::NoEligibleCandidate => true,
        }
    }

    /// Whether the request waits also where nobody knows for how long it will have to.
    fn has_budget(self) -> bool {
        self.source != PatienceSource::Nobody
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn waiting(default_max_wait_ms: u64) -> Waiting {
        Waiting { default_max_wait: ms(default_max_wait_ms), ..Waiting::default() }
    }

    #[test]
    fn the_request_speaks_before_its_model_and_a_minute_bounds_both() {
        for (asked, model, deadline, source) in [
            (Some(ms(5)), 7, ms(5), PatienceSource::Request),
            (Some(ms(0)), 7, ms(0), PatienceSource::Request),
            (Some(ms(90_000)), 7, ms(60_000), PatienceSource::Request),
            (None, 7, ms(7), PatienceSource::Model),
            (None, 90_000, ms(60_000), PatienceSource::Model),
            (None, 0, ms(60_000), PatienceSource::Nobody),
        ] {
            assert_eq!(Patience::new(asked, &waiting(model)), Patience { deadline, source });
        }
    }

    #[test]
    fn only_what_can_change_is_waited_for_and_only_with_a_budget() {
        let (patient, impatient) = (Patience::new(None, &waiting(1)), Patience::new(None, &waiting(0)));
        for (reason, can_change) in [
            (UnavailableReason::NoActiveBackend, true),
            (UnavailableReason::NoCapacity, true),
            (UnavailableReason::AllExcluded, false),
            (UnavailableReason::NoEligibleCandidate, false),
        ] {
            assert_eq!(patient.is_final(reason), !can_change, "{reason:?}");
            assert!(impatient.is_final(reason), "{reason:?}");
        }
    }

    #[test]
    fn waiting_is_pointless_beyond_the_slo() {
        let patience = Patience::new(Some(ms(50)), &waiting(0));
        assert_eq!(patience.limit(None), ms(50));
        assert_eq!(patience.limit(Some(Millis(20))), ms(20));
        assert_eq!(patience.limit(Some(Millis(80))), ms(50));
    }
}
