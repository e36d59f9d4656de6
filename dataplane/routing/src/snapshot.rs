//! The immutable routing state that the control plane publishes.
//!
//! A target's clusters lie in one flat vector, with all that a decision reads inline. Only what must
//! outlive a snapshot (a cluster's load counters, a backend that a stream is using) is behind an `Arc`,
//! so that a long stream never keeps an old snapshot alive.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use crate::{
    BackendRtt, ClusterLoad, ClusterStats, Inclusions, Policy, RankingTable, RendezvousWeight,
    RoundRobinCursor,
};

/// Identity of one registration of a backend. Never reused within a control plane's life: a backend that
/// leaves and comes back has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendUid(pub u64);

/// Identity of a (target, cluster) pair from its first backend's registration to its last one's end.
/// Never reused within a control plane's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterUid(pub u64);

/// Position of a cluster in its target's `clusters`, valid for one snapshot only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterIndex(pub usize);

/// What a request may be served by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetName {
    /// Authenticated scope; `None` is the unscoped target.
    pub routing_key: Option<Arc<str>>,
    /// Exact model id.
    pub model: Arc<str>,
}

/// One inference server process behind one URL.
#[derive(Debug)]
pub struct Backend {
    /// Identity of this registration.
    pub uid: BackendUid,
    /// What operators call it; the value of `x-inference-server-id`.
    pub backend_id: Arc<str>,
    /// The cluster it belongs to; equal to `backend_id` when none was given.
    pub cluster_id: Arc<str>,
    /// Resolved address that connections go to.
    pub address: SocketAddr,
    /// `host[:port]` of its URL, sent as the `host` header.
    pub authority: Box<str>,
    /// Path prefix of its URL without a trailing slash; usually empty.
    pub base_path: Box<str>,
    /// Whether it pushes its stats to the control plane (it then also understands
    /// `x-stargate-expected-queue-ms`).
    pub publishes_stats: bool,
    /// How far away it is, kept up to date while it is registered.
    pub rtt: Arc<BackendRtt>,
}

/// Backends that share hardware and KV cache, as one target sees them. It has at least one active backend.
#[derive(Debug)]
pub struct Cluster {
    /// Identity across snapshots.
    pub uid: ClusterUid,
    /// What operators call it; the value of `x-stargate-cluster-id`.
    pub cluster_id: Arc<str>,
    /// Hash of `cluster_id`, computed once ([`Cluster::hash_id`]); the cluster's part in rendezvous hashing.
    pub id_hash: u64,
    /// Aggregated stats of its active backends.
    pub stats: ClusterStats,
    /// What its share of keys is proportional to.
    pub rendezvous: RendezvousWeights,
    /// What this gateway has in flight here. Shared by all cores and by successive snapshots.
    pub load: Arc<ClusterLoad>,
    /// Active backends, at least one, ordered by `backend_id`.
    pub backends: Box<[Arc<Backend>]>,
}

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

/// A cluster's weights in rendezvous hashing; 0 where it has none. What was reported, held until it has moved
/// by more than noise, so that a wobble moves no key.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RendezvousWeights {
    /// By `max_input_tps`: finite and not negative.
    pub max_input_tps: f64,
    /// By `last_mean_input_tps`: finite and not negative.
    pub last_mean_input_tps: f64,
}

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

// === impl Cluster ===

impl Cluster {
    /// The hash of a cluster id that `id_hash` must hold. Stable across versions, hosts and restarts.
    pub fn hash_id(cluster_id: &str) -> u64 {
        xxhash_rust::xxh3::xxh3_64(cluster_id.as_bytes())
    }
}

// === impl RendezvousWeights ===

impl RendezvousWeights {
    /// The weights that `stats` report, nothing held.
    pub fn reported(stats: &ClusterStats) -> Self {
        let weight = |tps: crate::TokensPerSecond| if tps.is_valid() { tps.0 } else { 0.0 };
        Self {
            max_input_tps: stats.max_input_tps.map_or(0.0, weight),
            last_mean_input_tps: weight(stats.last_mean_input_tps),
        }
    }

    /// One of them; `None` where the cluster has no such weight, and so no keys.
    pub fn get(self, weight: RendezvousWeight) -> Option<f64> {
        let value = match weight {
            RendezvousWeight::MaxInputTps => self.max_input_tps,
            RendezvousWeight::LastMeanInputTps => self.last_mean_input_tps,
        };
        (value > 0.0).then_some(value)
    }
}

// === impl Target ===

impl Target {
    /// What decisions rely on and do not check again.
    fn is_well_formed(&self) -> bool {
        self.clusters.is_sorted_by(|a, b| a.cluster_id < b.cluster_id)
            && self.clusters.iter().all(|cluster| {
                !cluster.backends.is_empty()
                    && cluster.id_hash == Cluster::hash_id(&cluster.cluster_id)
                    && cluster.stats.queue_time_estimates.is_sorted_by(|(a, _), (b, _)| a < b)
            })
            && self.ranking.as_ref().is_none_or(|table| table.is_of(&self.name, &self.clusters))
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// Indexes `targets`. Of two with one name the later is found.
    ///
    /// # Panics
    /// In builds with debug assertions, when a target breaks what the fields of [`Target`], [`Cluster`] and
    /// [`ClusterStats`] promise: order and uniqueness of cluster ids, `id_hash`, a backend each, order of
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

#[cfg(test)]
mod tests;
