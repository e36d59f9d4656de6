//! What the configuration says of one model: how it is routed, admitted and waited for.
//!
//! A policy is published with the snapshot and shared by targets. A request keeps the one that it started
//! with, whatever is published while it waits or is retried.

mod admission_fields;
mod method_fields;
pub(crate) mod policy_fields;

use std::time::Duration;

use crate::{Algorithm, AlgorithmKind, Millis, fields::field::words, names::names, request::WAIT_MS_MAX};

/// Everything that is configured for a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// How requests are routed that ask for nothing else.
    pub method: Method,
    /// What `x-routing-method` may select besides: at most one of each kind.
    pub request_methods: Box<[Method]>,
    /// How requests wait.
    pub waiting: Waiting,
    /// How many leading messages of the body make the affinity key when a request brings none; 0 turns
    /// that derivation off.
    pub affinity_from_leading_messages: usize,
}

/// An algorithm, and what a request must satisfy to be routed by it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Method {
    /// How a cluster is chosen.
    pub algorithm: Algorithm,
    /// Who is let in.
    pub admission: Admission,
}

/// What a request must satisfy before it is routed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// Refuse requests without an affinity key.
    pub require_cache_affinity_key: bool,
    /// Refuse requests that do not say how many input tokens they have.
    pub require_input_tokens: bool,
    /// Refuse requests while the work ahead of them, in seconds, exceeds this; finite and positive.
    pub max_input_work_seconds: Option<f64>,
}

/// How requests wait for a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Longest wait of a request that does not say; zero is no limit of its own, see
    /// [`Waiting::MAX_WAIT`]. At most that.
    pub default_max_wait: Duration,
    /// Time to first token of a request that does not say.
    pub slo: Option<Millis>,
    /// Answer a waiter at once that cannot get its first token within its SLO any more.
    pub shed_unreachable: bool,
    /// Who is served first.
    pub order: WaitOrder,
    /// Waiters of one target on one core; at least 1.
    pub max_waiters: u32,
}

/// Who is served first among waiters of the same priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitOrder {
    /// The oldest, and in overload the newest.
    #[default]
    Adaptive,
    /// Always the oldest.
    OldestFirst,
}

// === impl Policy ===

impl Policy {
    /// The method of this kind that a request may select; the model's own is always among them.
    pub fn selectable(&self, kind: AlgorithmKind) -> Option<&Method> {
        let is_it = |method: &&Method| method.algorithm.kind() == kind;
        self.request_methods.iter().find(is_it).or_else(|| Some(&self.method).filter(is_it))
    }
}

// === impl WaitOrder ===

names!(WaitOrder {
    Adaptive = "adaptive",
    OldestFirst = "oldest-first",
});

words!(WaitOrder);

// === impl Waiting ===

impl Waiting {
    /// Longest that any request waits for a cluster, counted from its arrival.
    pub const MAX_WAIT: Duration = Duration::from_millis(WAIT_MS_MAX);
    /// Waiters of one target on one core, unless configured.
    pub const DEFAULT_MAX_WAITERS: u32 = 1024;
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            default_max_wait: Duration::ZERO,
            slo: None,
            shed_unreachable: true,
            order: WaitOrder::default(),
            max_waiters: Self::DEFAULT_MAX_WAITERS,
        }
    }
}

#[cfg(test)]
mod tests;
