//! A cluster and its backends, as one target sees them: all that a decision reads of it lies inline.
//!
//! Only what must outlive a snapshot (a cluster's load counters, a backend that a stream is using) is behind an `Arc`, so
//! that a long stream never keeps an old snapshot alive.

pub(crate) mod identity;
pub(crate) mod weights;

use std::{net::SocketAddr, sync::Arc};

use self::{
    identity::{BackendUid, ClusterUid},
    weights::RendezvousWeights,
};
use crate::{BackendRtt, ClusterLoad, ClusterStats};

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

// === impl Cluster ===

impl Cluster {
    /// The hash of a cluster id that `id_hash` must hold. Stable across versions, hosts and restarts.
    pub fn hash_id(cluster_id: &str) -> u64 {
        xxhash_rust::xxh3::xxh3_64(cluster_id.as_bytes())
    }
}
