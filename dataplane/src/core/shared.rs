//! What all cores of a data plane share: the snapshot that they decide by, and a few counts that bound them together.
//! Everything else is a core's own.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize},
};

use arc_swap::ArcSwap;
use stargate_routing::Snapshot;

use crate::{gateway_id::GatewayId, rtt::TcpInfoSource};

/// Where the control plane publishes and every core looks. Cores see a new snapshot at their next
/// decision; those with requests that wait are woken by [`Bells`](crate::Bells).
pub type SharedSnapshot = Arc<ArcSwap<Snapshot>>;

/// What all cores share besides the snapshot and the load counters in it.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// When the data plane started, in Unix seconds.
    pub(crate) started_unix_s: u64,
    /// Tells this process's attempts from another's.
    pub(crate) gateway: GatewayId,
    /// How many cores there are.
    pub(crate) cores: usize,
    /// Client connections open.
    pub(crate) connections: AtomicUsize,
    /// Bytes of request bodies held for replay.
    pub(crate) replay_bytes: AtomicU64,
    /// Tells round trips to backends, where nobody better does.
    pub(crate) tcp_info: Arc<TcpInfoSource>,
}
