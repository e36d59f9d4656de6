//! The immutable routing state that the control plane publishes.
//!
//! It is replaced as a whole: a request that has looked up its target decides by one moment's state.

pub(crate) mod ranking;
pub(crate) mod target;

use std::{collections::HashMap, sync::Arc};

use self::target::Target;

use crate::{Backend, CoreLoads, Inclusions};

/// The routing state at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Counts publications, from 1; 0 is the empty snapshot before the first.
    pub version: u64,
    /// When it was published, in Unix milliseconds.
    pub published_at_unix_ms: u64,
    /// Every registered backend that has an address, active or not, ordered by uid: the same allocation in
    /// successive snapshots while none comes, goes, moves or begins to publish its stats. `None` where that is not known: then no registration
    /// is taken to have ended.
    pub backends: Option<Arc<[Arc<Backend>]>>,
    /// Which attempts the stats in it include, where their publishers say so.
    pub inclusions: Inclusions,
    targets: Vec<Target>,
    by_model: HashMap<Arc<str>, ModelTargets>,
}

#[derive(Debug, Default)]
struct ModelTargets {
    unscoped: Option<usize>,
    scoped: HashMap<Arc<str>, usize>,
}

// === impl Snapshot ===

impl Snapshot {
    /// Indexes `targets`. Of two with one name the later is found.
    ///
    /// # Panics
    /// In builds with debug assertions, when a target breaks what the fields of [`Target`],
    /// [`Cluster`](crate::Cluster) and [`ClusterStats`](crate::ClusterStats) promise: order and uniqueness of cluster ids, `id_hash`, a backend each, order of
    /// the queue time estimates, a ranking table of these very clusters.
    pub fn new(version: u64, published_at_unix_ms: u64, targets: Vec<Target>) -> Self {
        let mut by_model: HashMap<Arc<str>, ModelTargets> = HashMap::new();
        for (index, target) in targets.iter().enumerate() {
            debug_assert!(target.is_well_formed(), "malformed target {:?}", target.name);
            let entry = by_model.entry(target.name.model.clone()).or_default();
            match &target.name.routing_key {
                None => entry.unscoped = Some(index),
                Some(key) => {
                    entry.scoped.insert(key.clone(), index);
                }
            }
        }
        Self {
            version,
            published_at_unix_ms,
            backends: None,
            inclusions: Inclusions::default(),
            targets,
            by_model,
        }
    }

    /// The target of exactly this scope and model. A scoped request is never served by an unscoped target,
    /// nor the reverse.
    pub fn target(&self, routing_key: Option<&str>, model: &str) -> Option<&Target> {
        let entry = self.by_model.get(model)?;
        let index = match routing_key {
            None => entry.unscoped?,
            Some(key) => *entry.scoped.get(key)?,
        };
        self.targets.get(index)
    }

    /// All targets, in the order they were given.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Whether any target has a routable cluster.
    pub fn is_routable(&self) -> bool {
        self.targets.iter().any(|target| !target.clusters.is_empty())
    }
}

// === impl CoreLoads ===

impl CoreLoads {
    /// Takes a snapshot's word on which registrations have ended and which attempts its stats include. To be called
    /// with every other snapshot before anything is decided by it: no decision is to see stats together with
    /// reservations that they already include.
    pub fn follow(&self, snapshot: &Snapshot) {
        self.follow_reports(snapshot.backends.as_ref(), &snapshot.inclusions);
    }
}

#[cfg(test)]
mod tests;
