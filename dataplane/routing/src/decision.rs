//! The outcome of a decision, as a value.

use std::{sync::Arc, time::Duration};

use crate::{Backend, ClusterIndex};

/// What to do with a request now.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Send it to this backend.
    Selected(Selected),
    /// Nothing can serve it.
    Unavailable(UnavailableReason),
}

/// A cluster and one of its backends.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The cluster, in the target that was decided on.
    pub cluster: ClusterIndex,
    /// The backend inside it.
    pub backend: Arc<Backend>,
    /// Position in the key's full ranking, from 1, counting the clusters that were walked past. Algorithms
    /// without a ranking give 1.
    pub rank: u32,
    /// Whether a better-ranked cluster, not excluded, was walked past for lack of free KV tokens.
    pub after_kv_skip: bool,
    /// The queue delay at the request's priority when it was chosen, whatever the comparator looked at;
    /// `None` when it is unbounded (work without a valid capacity).
    pub queue_delay: Option<Duration>,
}

/// Why nothing can serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnavailableReason {
    /// The target has no routable cluster.
    NoActiveBackend,
    /// Every candidate has failed within this request.
    AllExcluded,
    /// No candidate satisfies what the algorithm needs (a pulsar weight, for instance).
    NoEligibleCandidate,
}
