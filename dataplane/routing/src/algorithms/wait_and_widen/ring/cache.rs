//! The rings that one core keeps.

use std::sync::Arc;

use super::{AffinityRing, GroupScratch, POINTS_MAX};
use crate::{
    TargetName, WaitAndWidenParameters,
    ranking::{fleet::Fleet, score::Base},
};

/// The rings of one core, the one used last in front.
#[derive(Debug, Default)]
pub(crate) struct RingCache {
    entries: Vec<Entry>,
    scratch: GroupScratch,
}

/// A ring, and what it is of.
#[derive(Debug)]
struct Entry {
    name: Arc<TargetName>,
    /// Stands for the list of clusters.
    revision: u64,
    seed_hash: u64,
    virtual_nodes: u16,
    ring: AffinityRing,
}

/// Rings a core keeps: more targets, seeds and numbers of virtual nodes than that, in use at once on one core,
/// build rings anew.
const RINGS_MAX: usize = 16;

/// Points that they have together: 40 MB.
const CACHED_POINTS_MAX: usize = 4 * POINTS_MAX;

// === impl RingCache ===

impl RingCache {
    /// The positions of the clusters in the affinity group of a key.
    pub(crate) fn group(
        &mut self,
        fleet: &Fleet<'_>,
        parameters: &WaitAndWidenParameters,
        affinity_key: &[u8],
    ) -> &[u16] {
        let position = Base::new(&parameters.widening.seed, fleet.name).key(affinity_key);
        self.make_first(fleet, parameters);
        let Self { entries, scratch } = self;
        entries[0].ring.group(position, parameters.affinity_group as usize, scratch)
    }

    /// Brings the target's ring to the front, building it if need be.
    fn make_first(&mut self, fleet: &Fleet<'_>, parameters: &WaitAndWidenParameters) {
        let found = self.entries.iter().position(|entry| entry.is_for(fleet, parameters));
        if let Some(found) = found {
            self.entries[..=found].rotate_right(1);
            if self.entries[0].is_current(fleet) {
                return;
            }
            // A weight has changed, or the list of clusters: only that changes the ring.
            if self.entries[0].ring.is_of(fleet.clusters) {
                self.entries[0].revision = fleet.revision;
                return;
            }
            self.entries.remove(0);
        }
        self.entries.insert(0, Entry::new(fleet, parameters));
        self.entries.truncate(RINGS_MAX);
        let mut points = 0;
        let fitting = self.entries.iter().take_while(|entry| {
            points += entry.ring.points();
            points <= CACHED_POINTS_MAX
        });
        let fitting = fitting.count();
        self.entries.truncate(fitting.max(1));
    }
}

// === impl Entry ===

impl Entry {
    fn new(fleet: &Fleet<'_>, parameters: &WaitAndWidenParameters) -> Self {
        Self {
            name: fleet.name.clone(),
            revision: fleet.revision,
            seed_hash: parameters.widening.seed.hash(),
            virtual_nodes: parameters.virtual_nodes.get(),
            ring: AffinityRing::build(fleet.clusters, &parameters.widening.seed, parameters.virtual_nodes),
        }
    }

    /// Whether it is of this target, as it is or as it was.
    fn is_for(&self, fleet: &Fleet<'_>, parameters: &WaitAndWidenParameters) -> bool {
        self.seed_hash == parameters.widening.seed.hash()
            && self.virtual_nodes == parameters.virtual_nodes.get()
            && (Arc::ptr_eq(&self.name, fleet.name) || self.name == *fleet.name)
    }

    /// Revision 0 says nothing of the list: what it is of is looked at every time then.
    fn is_current(&self, fleet: &Fleet<'_>) -> bool {
        self.revision == fleet.revision && self.revision != 0 && self.ring.has_length_of(fleet.clusters)
    }
}

#[cfg(test)]
mod tests;
