//! Everything that can serve one (routing key, model), and what is configured for it.

use std::sync::Arc;

use crate::{Cluster, Policy, RankingTable, RoundRobinCursor, TargetName, ranking::fleet::Fleet};

/// Everything that can serve one (routing key, model).
#[derive(Debug)]
pub struct Target {
    /// Its name.
    pub name: Arc<TargetName>,
    /// What is configured for its model.
    pub policy: Arc<Policy>,
    /// Whose turn it is under round-robin. Shared by all cores and by successive snapshots of the target: a
    /// new one with every snapshot would send each burst after a publication to the first clusters.
    pub round_robin: Arc<RoundRobinCursor>,
    /// Routable clusters, ordered by `cluster_id`. May be empty: the target is known, but nothing is active.
    pub clusters: Vec<Cluster>,
    /// Changes, never to come back, whenever the list of clusters or a [`Cluster::rendezvous`] weight does:
    /// what was derived from these is good for as long as it stays. No two targets share one, except 0, which
    /// says nothing: nothing is remembered of a target of revision 0.
    pub ranking_revision: u64,
    /// The rankings under the seed and weight of the model's own algorithm, made for these clusters; `None`
    /// where it does not rank, and while it has not been made: then decisions rank directly, to the same
    /// result.
    pub ranking: Option<Arc<RankingTable>>,
}

// === impl Target ===

impl Target {
    /// What an algorithm sees of it.
    pub(crate) fn fleet(&self) -> Fleet<'_> {
        Fleet {
            name: &self.name,
            clusters: &self.clusters,
            revision: self.ranking_revision,
            table: self.ranking.as_deref(),
        }
    }

    /// What decisions rely on and do not check again.
    pub(super) fn is_well_formed(&self) -> bool {
        self.clusters.is_sorted_by(|a, b| a.cluster_id < b.cluster_id)
            && self.clusters.iter().all(|cluster| {
                !cluster.backends.is_empty()
                    && cluster.id_hash == Cluster::hash_id(&cluster.cluster_id)
                    && cluster.stats.queue_time_estimates.is_sorted_by(|(a, _), (b, _)| a < b)
            })
            && self.ranking.as_ref().is_none_or(|table| table.is_of(&self.name, &self.clusters))
    }
}
