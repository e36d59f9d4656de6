//! What a target and its clusters keep from one snapshot to the next: from the first registration to the end of the
//! last one, whatever health checks and stats do.

use std::{collections::BTreeMap, sync::Arc};

use stargate_routing::{Cluster, ClusterLoad, ClusterUid, RendezvousWeights, RoundRobinCursor, TargetName};

use super::{
    plan::Plan,
    room::{HeldDraw, HeldShare},
    tables::KeptTable,
};

/// All that is kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    targets: BTreeMap<TargetName, KeptTarget>,
    last_cluster: u64,
}

/// What a target keeps.
#[derive(Debug)]
pub(super) struct KeptTarget {
    pub(super) name: Arc<TargetName>,
    pub(super) round_robin: Arc<RoundRobinCursor>,
    pub(super) clusters: BTreeMap<Arc<str>, KeptCluster>,
    pub(super) share: HeldShare,
    pub(super) table: KeptTable,
}

/// What a (target, cluster) keeps.
#[derive(Clone, Debug)]
pub(super) struct KeptCluster {
    pub(super) uid: ClusterUid,
    pub(super) id_hash: u64,
    pub(super) load: Arc<ClusterLoad>,
    pub(super) held: RendezvousWeights,
    pub(super) draw: HeldDraw,
}

// === impl Kept ===

impl Kept {
    pub(super) fn get(&self, name: &TargetName) -> Option<&KeptTarget> {
        self.targets.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &TargetName) -> Option<&mut KeptTarget> {
        self.targets.get_mut(name)
    }

    /// Ends what has no registration left and begins what is new.
    pub(super) fn follow(&mut self, plan: &Plan<'_>) {
        self.targets.retain(|name, kept| {
            plan.get(name).is_some_and(|clusters| {
                kept.clusters.retain(|cluster_id, _| clusters.contains_key(cluster_id));
                true
            })
        });
        for (name, clusters) in plan {
            let kept = self.targets.entry(name.clone()).or_insert_with(|| KeptTarget {
                name: Arc::new(name.clone()),
                round_robin: Arc::default(),
                clusters: BTreeMap::new(),
                share: HeldShare::default(),
                table: KeptTable::default(),
            });
            for cluster_id in clusters.keys() {
                kept.clusters.entry(cluster_id.clone()).or_insert_with(|| {
                    self.last_cluster += 1;
                    KeptCluster {
                        uid: ClusterUid(self.last_cluster),
                        id_hash: Cluster::hash_id(cluster_id),
                        load: Arc::default(),
                        held: RendezvousWeights::default(),
                        draw: HeldDraw::default(),
                    }
                });
            }
        }
    }
}
