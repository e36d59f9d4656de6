//! The changes of load that a core has not told the other cores yet.
//!
//! Every candidate of every decision is looked up here, and nearly none is found. So there is an index as small as a
//! cache line, by the address of the cluster's load, whose empty entries say no at the price of one look.

use std::{array, ptr, sync::Arc, time::Duration};

use super::{CHANGES_HELD_MAX, HELD_MAX};
use crate::{
    Cluster, ClusterLoad, ClusterStats, EffectiveStats,
    load::{Change, ChangeSum, LoadReading},
};

/// Positions of clusters in `changed`, by linear probing. At most a quarter is taken.
const INDEX_LEN: usize = 4 * CHANGES_HELD_MAX;
const VACANT: u8 = u8::MAX;

/// The changes of one core since it last told them.
#[derive(Debug)]
pub(crate) struct Unflushed {
    /// The latest time that is known.
    now: Duration,
    /// When the first of the changes was made, as far as that is known.
    since: Duration,
    changes: usize,
    index: [u8; INDEX_LEN],
    /// The first `changed_len` are in use.
    changed: [Changed; CHANGES_HELD_MAX],
    changed_len: usize,
}

/// The sum of the changes of one cluster.
#[derive(Debug, Default)]
struct Changed {
    load: Option<Arc<ClusterLoad>>,
    sum: ChangeSum,
}

// === impl Unflushed ===

impl Unflushed {
    pub(super) fn advance(&mut self, now: Duration) {
        debug_assert!(now >= self.now, "time goes back");
        self.now = self.now.max(now);
    }

    /// Takes in a change, and tells all where there are many.
    pub(super) fn change(&mut self, load: &Arc<ClusterLoad>, change: &Change) {
        let position = self.find(load).unwrap_or_else(|| self.insert(load.clone()));
        self.changed[position].sum.add(change);
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
        for changed in &mut self.changed[..self.changed_len] {
            if let Some(load) = changed.load.take() {
                load.add(&changed.sum);
                changed.sum.clear();
            }
        }
        self.index = [VACANT; INDEX_LEN];
        (self.changed_len, self.changes) = (0, 0);
    }

    /// Tells what is here of one cluster.
    pub(super) fn flush_of(&mut self, load: &ClusterLoad) {
        if let Some(position) = self.find(load) {
            let sum = &mut self.changed[position].sum;
            load.add(sum);
            sum.clear();
        }
    }

    /// The load of a cluster as this core knows it, as far as it counts for a request of `priority`.
    #[inline]
    pub(crate) fn read(&self, load: &ClusterLoad, reported: &ClusterStats, priority: u32) -> LoadReading {
        let shared = load.read(reported, priority);
        match self.find(load) {
            None => shared,
            Some(position) => shared.plus(&self.changed[position].sum, reported, priority),
        }
    }

    /// The stats of a cluster for a request of `priority`, with the load as this core knows it.
    #[inline]
    pub(crate) fn effective<'a>(&self, cluster: &'a Cluster, priority: u32) -> EffectiveStats<'a> {
        let load = self.read(&cluster.load, &cluster.stats, priority);
        EffectiveStats::with_load(&cluster.stats, load, priority)
    }

    #[inline]
    fn find(&self, load: &ClusterLoad) -> Option<usize> {
        let mut at = home(load);
        loop {
            let position = self.index[at];
            if position == VACANT {
                return None;
            }
            let position = usize::from(position) % CHANGES_HELD_MAX;
            if self.changed[position].load.as_deref().is_some_and(|other| ptr::eq(other, load)) {
                return Some(position);
            }
            at = (at + 1) % INDEX_LEN;
        }
    }

    fn insert(&mut self, load: Arc<ClusterLoad>) -> usize {
        // Each of the changes is of at most one cluster, and with the last of them all are told: there is room.
        let position = self.changed_len;
        let mut at = home(&load);
        while self.index[at] != VACANT {
            at = (at + 1) % INDEX_LEN;
        }
        self.index[at] = position as u8;
        self.changed[position].load = Some(load);
        self.changed_len += 1;
        position
    }
}

impl Default for Unflushed {
    fn default() -> Self {
        Self {
            now: Duration::ZERO,
            since: Duration::ZERO,
            changes: 0,
            index: [VACANT; INDEX_LEN],
            changed: array::from_fn(|_| Changed::default()),
            changed_len: 0,
        }
    }
}

/// Where the search for a load begins.
#[inline]
fn home(load: &ClusterLoad) -> usize {
    // Loads are so aligned that the lower bits of all addresses are alike.
    let line = ptr::from_ref(load).addr() as u64 / align_of::<ClusterLoad>() as u64;
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - INDEX_LEN.ilog2())) as usize
}
