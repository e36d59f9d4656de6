//! What registrations, clusters and targets are known by. Knows nothing of what they are.

use std::sync::Arc;

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
