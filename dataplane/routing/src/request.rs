//! What a decision knows of a request.

pub(crate) mod eligible;

use std::time::Duration;

use crate::{BackendUid, ClusterUid, Millis, Tokens};

/// Longest that any request waits for a cluster, counted from its arrival, in milliseconds.
pub(crate) const WAIT_MS_MAX: u64 = 60_000;

/// What a request is routed by. Its target has been looked up already.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoutingRequest<'a> {
    /// Input-token estimate.
    pub input_tokens: Tokens,
    /// Whether the caller said how many input tokens there are; else they were estimated from the body.
    pub input_tokens_given: bool,
    /// Prefix or session identity; `None` when absent or blank.
    pub affinity_key: Option<&'a [u8]>,
    /// Lower is more urgent; 0 when absent.
    pub priority: u32,
    /// Time to first token that the caller wants.
    pub slo: Option<Millis>,
    /// Time since the request arrived, never restarted by a retry.
    pub elapsed: Duration,
    /// It was decided before, and waits since: it is decided again when a report comes, with all others that wait, here and
    /// in other gateways.
    pub is_waiting: bool,
}

/// What has failed within this request and is not to be selected again.
///
/// Bounded: a request makes at most [`Exclusions::CAPACITY`] attempts, and each excludes one thing.
#[derive(Clone, Debug, Default)]
pub struct Exclusions {
    clusters: Bounded<ClusterUid>,
    backends: Bounded<BackendUid>,
}

#[derive(Clone, Debug)]
struct Bounded<T> {
    items: [Option<T>; Exclusions::CAPACITY],
}

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Self { items: [const { None }; Exclusions::CAPACITY] }
    }
}

impl<T: Copy + PartialEq> Bounded<T> {
    /// False when it is full.
    fn insert(&mut self, item: T) -> bool {
        if self.contains(item) {
            return true;
        }
        match self.items.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => {
                *slot = Some(item);
                true
            }
            None => false,
        }
    }

    fn contains(&self, item: T) -> bool {
        self.items.iter().map_while(|slot| *slot).any(|held| held == item)
    }

    fn is_empty(&self) -> bool {
        self.items[0].is_none()
    }
}

// === impl Exclusions ===

impl Exclusions {
    /// How many clusters, and how many backends, can be excluded in one request.
    pub const CAPACITY: usize = 8;

    /// Excludes a whole cluster. False when [`Self::CAPACITY`] are excluded already.
    #[must_use]
    pub fn exclude_cluster(&mut self, cluster: ClusterUid) -> bool {
        self.clusters.insert(cluster)
    }

    /// Excludes one backend; its cluster stays eligible while another backend of it is left.
    /// False when [`Self::CAPACITY`] are excluded already.
    #[must_use]
    pub fn exclude_backend(&mut self, backend: BackendUid) -> bool {
        self.backends.insert(backend)
    }

    /// Whether the cluster was excluded as a whole.
    pub fn has_cluster(&self, cluster: ClusterUid) -> bool {
        self.clusters.contains(cluster)
    }

    /// Whether the backend was excluded.
    pub fn has_backend(&self, backend: BackendUid) -> bool {
        self.backends.contains(backend)
    }

    /// Whether nothing is excluded, the common case.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty() && self.backends.is_empty()
    }
}

#[cfg(test)]
mod tests;
