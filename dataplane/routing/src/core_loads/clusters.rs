//! The clusters that a core has sent to.
//!
//! Attempts and changes refer to a cluster by its key here. Were they to hold its load themselves, each would count in
//! and out of that `Arc`'s count of holders, which all cores share: what is held back to spare the cores each
//! other's caches would be lost on it.

use std::sync::Arc;

use slab::Slab;

use super::uid_hash::UidMap;
use crate::{ClusterLoad, load::ChangeSum};

/// A cluster's key at one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterKey(u32);

/// A cluster that a core has sent to.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) load: Arc<ClusterLoad>,
    /// What the other cores have not been told.
    pub(super) untold: ChangeSum,
    /// Whether it is among the changed, though what was to be told may have been told.
    pub(super) is_changed: bool,
    /// What refers to it besides.
    users: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Clusters {
    known: Slab<Known>,
    /// By the address of the load. It is nobody else's for as long as the load is held here.
    by_address: UidMap<usize, ClusterKey>,
}

// === impl Clusters ===

impl Clusters {
    /// The key of a cluster, which is referred to once more until [`Self::release`].
    pub(super) fn hold(&mut self, load: &Arc<ClusterLoad>) -> ClusterKey {
        let key = *self.by_address.entry(Arc::as_ptr(load).addr()).or_insert_with(|| {
            let known =
                Known { load: load.clone(), untold: ChangeSum::default(), is_changed: false, users: 0 };
            ClusterKey(self.known.insert(known) as u32)
        });
        self.hold_again(key);
        key
    }

    pub(super) fn hold_again(&mut self, key: ClusterKey) {
        self.get_mut(key).users += 1;
    }

    pub(super) fn release(&mut self, key: ClusterKey) {
        self.get_mut(key).users -= 1;
    }

    #[inline]
    pub(super) fn get(&self, key: ClusterKey) -> &Known {
        &self.known[key.0 as usize]
    }

    pub(super) fn get_mut(&mut self, key: ClusterKey) -> &mut Known {
        &mut self.known[key.0 as usize]
    }

    /// Forgets those that nothing refers to: they may have ended.
    pub(super) fn forget_unused(&mut self) {
        let Self { known, by_address } = self;
        known.retain(|_, cluster| {
            let is_used = cluster.is_changed || cluster.users > 0;
            if !is_used {
                by_address.remove(&Arc::as_ptr(&cluster.load).addr());
            }
            is_used
        });
    }
}

// === impl Known ===

impl Known {
    /// Tells the other cores.
    pub(super) fn tell(&mut self) {
        self.load.add(&self.untold);
        self.untold.clear();
    }
}
