//! The outcome of a decision, as a value.

use std::{sync::Arc, time::Duration};

use crate::{Backend, ClusterIndex};

/// What to do with a request now.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Send it to this backend.
    Selected(Selected),
    /// Decide again at a known time, or sooner when something changes.
    Wait(Wait),
    /// Nothing can serve it as things are.
    Unavailable(UnavailableReason),
}

/// A cluster and one of its backends.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The cluster, in the target that was decided on.
    pub cluster: ClusterIndex,
    /// The backend inside it.
    pub backend: Arc<Backend>,
    /// Position from 1: in the key's full ranking, counting the clusters that were walked past, for the
    /// algorithms that rank; under wait-and-widen 1 from the affinity group and 2 from all clusters, where
    /// there is a group. Else 1.
    pub rank: u32,
    /// Whether the key's first choice was given up for it: a rank or a group beyond the primary one.
    pub is_fallback: bool,
    /// Whether a better-ranked cluster, not excluded, was walked past for lack of free KV tokens.
    pub after_kv_skip: bool,
    /// The queue delay at the request's priority when it was chosen, whatever the comparator looked at;
    /// `None` when it is unbounded (work without a valid capacity).
    pub queue_delay: Option<Duration>,
}

/// A wait whose end is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When, counted from the request's arrival, the decision can be another with nothing else changed.
    /// Later than `RoutingRequest::elapsed`.
    pub until: Duration,
    /// What is waited for.
    pub reason: WaitReason,
}

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitReason {
    /// A place in the affinity group.
    Affinity,
    /// The next bucket of times to first token.
    Bucket,
    /// The next band of ranks.
    Band,
}

/// Why nothing can serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnavailableReason {
    /// The target has no routable cluster.
    NoActiveBackend,
    /// Every candidate has failed within this request.
    AllExcluded,
    /// No candidate satisfies what the algorithm needs (a pulsar weight, for instance).
    NoEligibleCandidate,
    /// Every candidate is full.
    NoCapacity,
}

// === impl WaitReason ===

impl WaitReason {
    /// The value of the metric label `reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Affinity => "affinity",
            Self::Bucket => "bucket",
            Self::Band => "band",
        }
    }
}

// === impl UnavailableReason ===

impl UnavailableReason {
    /// The value of the metric label `reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoActiveBackend => "no_active_backend",
            Self::AllExcluded => "all_excluded",
            Self::NoEligibleCandidate => "no_eligible_candidate",
            Self::NoCapacity => "no_capacity",
        }
    }
}
