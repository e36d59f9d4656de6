//! The changes of load that a core has not told the other cores yet.
//!
//! Every candidate of every decision is looked up here, and nearly none is found. So there is an index by the address of
//! the cluster's load, and of its places a bit each, all in one word: most often that says no, without another look at
//! memory.

use std::{ptr, sync::Arc, time::Duration};

use super::clusters::{ClusterKey, Clusters};
use crate::{
    Cluster, ClusterLoad, ClusterStats, EffectiveStats,
    load::{Change, LoadReading},
};

/// A core that has this many changes to tell tells them.
pub(super) const CHANGES_HELD_MAX: usize = 16;
/// The longest that a core keeps a change to itself.
pub(super) const HELD_MAX: Duration = Duration::from_millis(1);

/// At most a quarter of them is taken.
const PLACES: usize = u64::BITS as usize;
const _: () = assert!(4 * CHANGES_HELD_MAX <= PLACES);

/// The changes of one core since it last told them.
#[derive(Debug)]
pub(crate) struct Unflushed {
    /// The latest time that is known.
    now: Duration,
    /// When the first of the changes was made, as far as that is known.
    since: Duration,
    changes: usize,
    /// A bit for each place of the index that is taken.
    taken: u64,
    /// Positions in `changed`, by linear probing; those of places that are not taken mean nothing.
    index: [u8; PLACES],
    /// Who has changed, each once; the first `changed_len` of them.
    changed: [Changed; CHANGES_HELD_MAX],
    changed_len: usize,
    clusters: Clusters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Changed {
    /// Of the cluster's load.
    address: usize,
    cluster: ClusterKey,
}

// === impl Unflushed ===

impl Unflushed {
    /// A time before the latest that is known counts as that.
    pub(super) fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// The latest time that is known.
    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// Clusters by the keys that changes are made by.
    pub(super) fn clusters(&mut self) -> &mut Clusters {
        &mut self.clusters
    }

    /// Takes in a change, and tells all where there are many.
    pub(super) fn change(&mut self, cluster: ClusterKey, change: &Change) {
        let known = self.clusters.get_mut(cluster);
        known.untold.add(change);
        if !known.is_changed {
            known.is_changed = true;
            let address = Arc::as_ptr(&known.load).addr();
            self.insert(Changed { address, cluster });
        }
        if self.changes == 0 {
            self.since = self.now;
        }
        self.changes += 1;
        if self.changes == CHANGES_HELD_MAX {
            self.flush();
        }
    }

    /// When what is here is to be told at the latest.
    pub(super) fn due(&self) -> Option<Duration> {
        (self.changes > 0).then(|| self.since.saturating_add(HELD_MAX))
    }

    /// Tells everything.
    pub(super) fn flush(&mut self) {
        for changed in &self.changed[..self.changed_len] {
            let known = self.clusters.get_mut(changed.cluster);
            known.tell();
            known.is_changed = false;
        }
        (self.taken, self.changed_len, self.changes) = (0, 0, 0);
    }

    /// Tells what is here of one cluster.
    pub(super) fn flush_of(&mut self, cluster: ClusterKey) {
        self.clusters.get_mut(cluster).tell();
    }

    /// The load of a cluster as this core knows it, as far as it counts for a request of `priority`.
    #[inline]
    pub(crate) fn read(&self, load: &ClusterLoad, reported: &ClusterStats, priority: u32) -> LoadReading {
        let shared = load.read(reported, priority);
        match self.find(ptr::from_ref(load).addr()) {
            None => shared,
            Some(cluster) => shared.plus(&self.clusters.get(cluster).untold, reported, priority),
        }
    }

    /// The stats of a cluster for a request of `priority`, with the load as this core knows it.
    #[inline]
    pub(crate) fn effective<'a>(&self, cluster: &'a Cluster, priority: u32) -> EffectiveStats<'a> {
        let load = self.read(&cluster.load, &cluster.stats, priority);
        EffectiveStats::with_load(&cluster.stats, load, priority)
    }

    #[inline]
    fn find(&self, address: usize) -> Option<ClusterKey> {
        let place = home(address);
        if self.is_taken(place) { self.find_from(place, address) } else { None }
    }

    /// Few come here: out of line it leaves the registers to the others.
    #[inline(never)]
    fn find_from(&self, mut place: usize, address: usize) -> Option<ClusterKey> {
        while self.is_taken(place) {
            let changed = self.changed[usize::from(self.index[place]) % CHANGES_HELD_MAX];
            if changed.address == address {
                return Some(changed.cluster);
            }
            place = (place + 1) % PLACES;
        }
        None
    }

    #[inline]
    fn is_taken(&self, place: usize) -> bool {
        self.taken & (1 << place) != 0
    }

    fn insert(&mut self, changed: Changed) {
        // Each change is of one cluster, and with the last of them all are told: there is room.
        let position = self.changed_len;
        let mut place = home(changed.address);
        while self.is_taken(place) {
            place = (place + 1) % PLACES;
        }
        self.taken |= 1 << place;
        self.index[place] = position as u8;
        self.changed[position] = changed;
        self.changed_len += 1;
    }
}

impl Default for Unflushed {
    fn default() -> Self {
        Self {
            now: Duration::ZERO,
            since: Duration::ZERO,
            changes: 0,
            taken: 0,
            index: [0; PLACES],
            changed: Default::default(),
            changed_len: 0,
            clusters: Clusters::default(),
        }
    }
}

/// Where the search for the load at this address begins.
#[inline]
fn home(address: usize) -> usize {
    // Loads are so aligned that the lower bits of all addresses are alike.
    let line = address as u64 / align_of::<ClusterLoad>() as u64;
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.ilog2())) as usize
}
