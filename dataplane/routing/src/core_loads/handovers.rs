//! Who waits for which report: attempts whose reservation ends with the first report that includes them.

use slab::Slab;

use super::{chain::Chain, clusters::ClusterKey, uid_hash::UidMap, unflushed::Unflushed};
use crate::{BackendUid, ClusterUid, Inclusions, load::Change};

/// One list for each (target, cluster) and backend whose reports say which attempts they include.
#[derive(Debug, Default)]
pub(super) struct Handovers {
    lists: Slab<Handover>,
    by_uids: UidMap<(ClusterUid, BackendUid), u32>,
    /// What was followed last.
    pub(super) inclusions: Inclusions,
}

/// The attempts of this core at one backend of one (target, cluster).
#[derive(Debug)]
pub(super) struct Handover {
    pub(super) uids: (ClusterUid, BackendUid),
    /// Known once there was an attempt.
    cluster: Option<ClusterKey>,
    /// Those that no report includes yet, in the order of their sequence numbers.
    pub(super) awaiting: Chain,
    /// Those that the latest report includes and that have ended since.
    ended: u64,
    /// The latest report.
    pub(super) report: u64,
}

// === impl Handovers ===

impl Handovers {
    pub(super) fn find(&self, cluster: ClusterUid, backend: BackendUid) -> Option<u32> {
        self.by_uids.get(&(cluster, backend)).copied()
    }

    pub(super) fn insert(&mut self, cluster: ClusterUid, backend: BackendUid, report: u64) {
        let uids = (cluster, backend);
        let handover = Handover { uids, cluster: None, awaiting: Chain::default(), ended: 0, report };
        let list = self.lists.insert(handover) as u32;
        self.by_uids.insert(uids, list);
    }

    /// Takes out one that has nothing left to undo.
    pub(super) fn remove(&mut self, list: u32, unflushed: &mut Unflushed) {
        let handover = self.lists.remove(list as usize);
        debug_assert!(handover.awaiting.is_empty() && handover.ended == 0);
        self.by_uids.remove(&handover.uids);
        if let Some(cluster) = handover.cluster {
            unflushed.clusters().release(cluster);
        }
    }

    pub(super) fn get_mut(&mut self, list: u32) -> &mut Handover {
        &mut self.lists[list as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.lists.len()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Handover)> {
        self.lists.iter_mut().map(|(list, handover)| (list as u32, handover))
    }
}

// === impl Handover ===

impl Handover {
    pub(super) fn set_cluster(&mut self, cluster: ClusterKey, unflushed: &mut Unflushed) {
        if self.cluster.is_none() {
            unflushed.clusters().hold_again(cluster);
            self.cluster = Some(cluster);
        }
    }

    /// One that the latest report includes has ended.
    pub(super) fn count_ended(&mut self) {
        self.ended += 1;
    }

    /// Another report has come, or none will: those that had ended are not counted in reported stats any more.
    pub(super) fn forget_ended(&mut self, unflushed: &mut Unflushed) {
        let ended = std::mem::take(&mut self.ended);
        if let (Some(cluster), 1..) = (self.cluster, ended) {
            unflushed.change(cluster, &Change { ended: ended.wrapping_neg(), ..Change::default() });
        }
    }
}
