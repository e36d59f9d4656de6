//! Ranking tables beside the snapshots that they belong to.
//!
//! A table takes milliseconds to make, so publishing never waits for one: a snapshot whose rankings have
//! changed is published without, and decisions rank directly meanwhile. The job that makes the table works on
//! that snapshot, wherever its owner runs it, and the table is published with the next one. Only the newest
//! snapshot has jobs, so that of many changes in a row only the last is built for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use stargate_routing::{
    Cluster, ClusterUid, RankingTable, RendezvousWeight, RendezvousWeights, Seed, Snapshot, Target,
    TargetName,
};

/// Counts the revisions of all targets of this process, from 1: a core remembers rankings by them alone.
static LAST_REVISION: AtomicU64 = AtomicU64::new(0);

/// What a target keeps of its rankings across snapshots.
#[derive(Debug, Default)]
pub(super) struct KeptTable {
    revision: u64,
    /// What the revision stands for.
    ranked: Vec<(ClusterUid, RendezvousWeights)>,
    /// The table that was built last, and the revision that it belongs to.
    built: Option<(u64, Arc<RankingTable>)>,
}

/// A table to be built.
#[derive(Debug)]
pub struct TableJob {
    snapshot: Arc<Snapshot>,
    target: Arc<TargetName>,
    /// The target's table before, which little may have changed since.
    previous: Option<Arc<RankingTable>>,
}

/// A table that was built.
#[derive(Debug)]
pub struct BuiltTable {
    target: Arc<TargetName>,
    revision: u64,
    table: Arc<RankingTable>,
    took: Duration,
}

// === impl KeptTable ===

impl KeptTable {
    /// The revision of these clusters and weights: another one when they differ from the last ones.
    pub(super) fn revise(&mut self, clusters: &[Cluster]) -> u64 {
        let now = || clusters.iter().map(|cluster| (cluster.uid, cluster.rendezvous));
        if self.revision == 0 || !self.ranked.iter().copied().eq(now()) {
            self.ranked = now().collect();
            self.revision = LAST_REVISION.fetch_add(1, Relaxed) + 1;
        }
        self.revision
    }

    /// The table for rankings by this seed and weight, if it has been built for the current revision. The
    /// last one is let go of when the target no longer ranks.
    pub(super) fn current(
        &mut self,
        ranked_by: Option<(&Seed, RendezvousWeight)>,
    ) -> Option<Arc<RankingTable>> {
        let Some(by) = ranked_by else {
            self.built = None;
            return None;
        };
        self.built_for(by, self.revision).cloned()
    }

    fn built_for(&self, by: (&Seed, RendezvousWeight), revision: u64) -> Option<&Arc<RankingTable>> {
        let (built_revision, table) = self.built.as_ref()?;
        (*built_revision == revision && table.is_for(by.0, by.1)).then_some(table)
    }

    /// What is to be built where `target`, whose table this is, ranks and `snapshot` has no table for it.
    pub(super) fn lacking(&self, snapshot: &Arc<Snapshot>, target: &Target) -> Option<TableJob> {
        let by = target.policy.method.algorithm.ranked_by()?;
        if target.clusters.is_empty() || self.built_for(by, target.ranking_revision).is_some() {
            return None;
        }
        let previous = self.built.as_ref().map(|(_, table)| table).filter(|table| table.is_for(by.0, by.1));
        Some(TableJob {
            snapshot: snapshot.clone(),
            target: target.name.clone(),
            previous: previous.cloned(),
        })
    }

    /// Keeps a table, for the next snapshot if nothing has changed since, and to start the next one from
    /// otherwise.
    pub(super) fn adopt(&mut self, built: &BuiltTable) {
        self.built = Some((built.revision, built.table.clone()));
    }
}

// === impl TableJob ===

impl TableJob {
    /// Whose it is.
    pub(super) fn target(&self) -> &Arc<TargetName> {
        &self.target
    }

    /// Builds it: milliseconds of CPU, or a good part of a second with 1000 clusters. `None` when its
    /// target does not rank.
    pub fn build(self) -> Option<BuiltTable> {
        let start = Instant::now();
        let target = self.snapshot.target(self.target.routing_key.as_deref(), &self.target.model)?;
        let (seed, weight) = target.policy.method.algorithm.ranked_by()?;
        let table = match self.previous {
            Some(previous) => previous.updated(&target.clusters),
            None => RankingTable::build(&target.name, seed, weight, &target.clusters),
        };
        Some(BuiltTable {
            revision: target.ranking_revision,
            table: Arc::new(table),
            took: start.elapsed(),
            target: self.target,
        })
    }
}

// === impl BuiltTable ===

impl BuiltTable {
    /// How long it took.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Whose it is.
    pub fn target(&self) -> &TargetName {
        &self.target
    }
}

#[cfg(test)]
mod tests;
