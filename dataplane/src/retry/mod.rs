//! Whether a request is tried again after an attempt that did not serve it, and what is left out then.
//!
//! The verdict is a value made of values: what became of the attempt, the retries that are left, the request's own
//! deadline, and the budget, which keeps a failing fleet from being loaded with its own retries. It knows of no
//! request and no connection; `stages::attempts` acts on it. Whether an engine can have begun, `stages::attempt` says.

pub(crate) mod budget;

use std::time::Instant;

use self::budget::RetryBudget;
use crate::settings::Retry;

/// What kept an attempt from serving its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setback {
    /// The engine refused before executing.
    Rejected {
        /// Its queue was not as it was expected to be.
        is_queue_mismatch: bool,
    },
    /// There is no response.
    Failed {
        /// The engine can't have begun.
        is_safe_to_retry: bool,
        /// Only the kept connection is at fault, not the backend.
        is_stale: bool,
    },
}

/// What is done about a setback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryVerdict {
    /// It stands: the engine's rejection is the answer, or the request is refused for the failure.
    Stands,
    /// The request is tried again, without this.
    Again(LeftOut),
}

/// What a further attempt does without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// The kept connections to the backend.
    KeptConnections,
    /// The backend.
    Backend,
    /// The whole cluster.
    Cluster,
}

/// The retries that a request has left, by what they would follow.
#[derive(Debug)]
pub(crate) struct Retries {
    after_failure: u32,
    after_rejection: u32,
    /// From then on there are none.
    deadline: Option<Instant>,
}

// === impl RetryVerdict ===

impl RetryVerdict {
    /// On a setback of which `left` more may be retried.
    pub(crate) fn new(setback: Setback, left: u32, is_past_deadline: bool, has_budget: bool) -> Self {
        if left == 0 || is_past_deadline || !has_budget {
            return Self::Stands;
        }
        match setback {
            Setback::Failed { is_safe_to_retry: false, .. } => Self::Stands,
            Setback::Failed { is_stale: true, .. } => Self::Again(LeftOut::KeptConnections),
            Setback::Failed { is_stale: false, .. } => Self::Again(LeftOut::Backend),
            // A mismatch concerns this backend's queue; any other rejection, the cluster.
            Setback::Rejected { is_queue_mismatch: true } => Self::Again(LeftOut::Backend),
            Setback::Rejected { is_queue_mismatch: false } => Self::Again(LeftOut::Cluster),
        }
    }
}

// === impl Retries ===

impl Retries {
    pub(crate) fn new(settings: &Retry, deadline: Option<Instant>) -> Self {
        Self {
            after_failure: settings.max_connect_retries,
            after_rejection: settings.max_rejection_retries,
            deadline,
        }
    }

    /// The verdict on a setback. A retry that it grants is taken from what is left, and from the budget.
    pub(crate) fn judge(&mut self, setback: Setback, now: Instant, budget: &mut RetryBudget) -> RetryVerdict {
        let is_past_deadline = self.deadline.is_some_and(|deadline| now >= deadline);
        let left = match setback {
            Setback::Failed { .. } => &mut self.after_failure,
            Setback::Rejected { .. } => &mut self.after_rejection,
        };
        let verdict = RetryVerdict::new(setback, *left, is_past_deadline, budget.has_one(now));
        if verdict != RetryVerdict::Stands {
            *left -= 1;
            let is_taken = budget.take(now);
            debug_assert!(is_taken, "the verdict has looked");
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const REJECTED: Setback = Setback::Rejected { is_queue_mismatch: false };
    const MISMATCH: Setback = Setback::Rejected { is_queue_mismatch: true };
    const UNSAFE: Setback = Setback::Failed { is_safe_to_retry: false, is_stale: false };
    const UNSAFE_STALE: Setback = Setback::Failed { is_safe_to_retry: false, is_stale: true };
    const SAFE: Setback = Setback::Failed { is_safe_to_retry: true, is_stale: false };
    const SAFE_STALE: Setback = Setback::Failed { is_safe_to_retry: true, is_stale: true };

    #[test]
    fn what_is_safe_is_tried_again_without_what_was_at_fault() {
        use LeftOut::{Backend, Cluster, KeptConnections};
        use RetryVerdict::{Again, Stands};
        for (setback, verdict) in [
            (REJECTED, Again(Cluster)),
            (MISMATCH, Again(Backend)),
            (SAFE, Again(Backend)),
            (SAFE_STALE, Again(KeptConnections)),
            (UNSAFE, Stands),
            (UNSAFE_STALE, Stands),
        ] {
            assert_eq!(RetryVerdict::new(setback, 1, false, true), verdict, "{setback:?}");
        }
    }

    #[test]
    fn nothing_is_tried_again_without_a_retry_left_in_time_and_within_the_budget() {
        for setback in [REJECTED, MISMATCH, SAFE, SAFE_STALE, UNSAFE, UNSAFE_STALE] {
            for (left, is_past_deadline, has_budget) in [(0, false, true), (1, true, true), (1, false, false)]
            {
                let verdict = RetryVerdict::new(setback, left, is_past_deadline, has_budget);
                assert_eq!(verdict, RetryVerdict::Stands, "{setback:?}");
            }
        }
    }

    #[test]
    fn each_kind_has_its_own_retries_and_all_take_from_one_budget() {
        let settings = Retry {
            max_connect_retries: 2,
            max_rejection_retries: 1,
            budget_percent: 0,
            budget_min_per_second: 1,
            ..Retry::default()
        };
        let start = Instant::now();
        let budget = &mut RetryBudget::new(&settings, start);
        let granted = |retries: &mut Retries, setback, now, budget: &mut RetryBudget| {
            (0..5).filter(|_| retries.judge(setback, now, budget) != RetryVerdict::Stands).count()
        };
        let mut retries = Retries::new(&settings, None);
        assert_eq!(granted(&mut retries, UNSAFE, start, budget), 0, "and takes none");
        assert_eq!(granted(&mut retries, SAFE, start, budget), 2);
        assert_eq!(granted(&mut retries, REJECTED, start, budget), 1);
        let late = start + Duration::from_millis(1);
        assert_eq!(
            granted(&mut Retries::new(&settings, Some(late)), SAFE, late, budget),
            0,
            "it is too late"
        );
        let after_failures =
            (0..10).map(|_| granted(&mut Retries::new(&settings, None), SAFE, start, budget));
        assert_eq!(
            after_failures.sum::<usize>(),
            7,
            "ten seconds' worth at the start, of which three were taken"
        );
    }
}
