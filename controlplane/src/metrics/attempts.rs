//! Requests and attempts by target and backend: how they ended, and why that backend.

use std::sync::Arc;

use prometheus::IntCounterVec;
use stargate_dataplane::{Attempt, Request};
use stargate_routing::{Backend, TargetName};

use super::{
    families::Families,
    labels::{self, TARGET_AND_BACKEND},
    series::Counters,
};

/// Label value of what is too much for series of its own.
const OTHER: &str = "other";

/// The families.
pub(crate) struct Attempts {
    requests: IntCounterVec,
    ended: IntCounterVec,
    retries: IntCounterVec,
    selections: IntCounterVec,
}

/// The series of one target and one backend.
pub(crate) struct AttemptSeries {
    labels: [Arc<str>; 3],
    requests: Counters<u16>,
    attempts: Counters<[&'static str; 1]>,
    retries: Counters<[&'static str; 1]>,
    selections: Counters<[&'static str; 2]>,
}

// === impl Attempts ===

impl Attempts {
    pub(super) fn register(families: &mut Families) -> Self {
        let [routing_key, model, backend] = TARGET_AND_BACKEND;
        Self {
            requests: families.counters(
                "requests_total",
                "Requests that ended, by the status sent; 499: the client left before one was",
                &[routing_key, model, backend, "status"],
            ),
            ended: families.counters(
                "proxy_attempts_total",
                "Attempts at a backend, by how they ended",
                &[routing_key, model, backend, "result"],
            ),
            retries: families.counters(
                "proxy_retries_total",
                "Attempts that followed a failed one, by the backend tried and how the one before ended",
                &[routing_key, model, backend, "reason"],
            ),
            selections: families.counters(
                "routing_selections_total",
                "Requests for which a backend was chosen; primary: the first of its key's ranking",
                &[routing_key, model, backend, "algorithm", "selection"],
            ),
        }
    }
}

// === impl AttemptSeries ===

impl AttemptSeries {
    pub(crate) fn new(target: Option<&TargetName>, backend: Option<&Backend>) -> Self {
        let [routing_key, model] = labels::of_target(target);
        let backend_id = backend.map_or_else(|| "".into(), |backend| backend.backend_id.clone());
        Self::with_labels([routing_key, model, backend_id])
    }

    /// Of all that have none of their own.
    pub(crate) fn of_others() -> Self {
        Self::with_labels([OTHER.into(), OTHER.into(), OTHER.into()])
    }

    fn with_labels(labels: [Arc<str>; 3]) -> Self {
        Self {
            labels,
            requests: Counters::new(),
            attempts: Counters::new(),
            retries: Counters::new(),
            selections: Counters::new(),
        }
    }

    pub(crate) fn record_request(&mut self, families: &Attempts, request: &Request) {
        self.requests.get(&families.requests, &self.labels, request.status).inc();
        if let Some(selection) = request.selection {
            let rank = if selection.is_fallback { "fallback" } else { "primary" };
            let further = [selection.algorithm.as_str(), rank];
            self.selections.get(&families.selections, &self.labels, further).inc();
        }
    }

    pub(crate) fn record_attempt(&mut self, families: &Attempts, attempt: &Attempt) {
        self.attempts.get(&families.ended, &self.labels, [attempt.result.as_str()]).inc();
        if let Some(reason) = attempt.retry_of {
            self.retries.get(&families.retries, &self.labels, [reason.as_str()]).inc();
        }
    }

    /// Whether these and `other` are the same series.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.labels == other.labels
    }

    pub(crate) fn remove_from(&self, families: &Attempts) {
        self.requests.remove_from(&families.requests, &self.labels);
        self.attempts.remove_from(&families.ended, &self.labels);
        self.retries.remove_from(&families.retries, &self.labels);
        self.selections.remove_from(&families.selections, &self.labels);
    }
}
