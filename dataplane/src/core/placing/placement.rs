//! Where a request goes: the backend that was chosen for it, and the place that it holds there.

use std::{sync::Arc, time::Duration};

use stargate_routing::{AlgorithmKind, Backend, ClusterUid, Selected, Target};

use super::reserved::Reserved;
use crate::observation::Selection;

/// A backend chosen, and a place in it.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) backend: Arc<Backend>,
    pub(crate) cluster: ClusterUid,
    pub(crate) cluster_id: Arc<str>,
    pub(crate) reserved: Reserved,
    pub(crate) selection: Selection,
    /// How long it is expected to be queued there; `None` when nobody can tell.
    pub(crate) expected_queue: Option<Duration>,
}

// === impl Placement ===

impl Placement {
    /// `reserved` in the cluster of `target` that was selected.
    pub(super) fn new(
        target: &Target,
        selected: Selected,
        reserved: Reserved,
        algorithm: AlgorithmKind,
    ) -> Self {
        let Selected { cluster, backend, rank, is_fallback, after_kv_skip, queue_delay } = selected;
        let cluster = &target.clusters[cluster.0];
        Self {
            backend,
            cluster: cluster.uid,
            cluster_id: cluster.cluster_id.clone(),
            reserved,
            selection: Selection { algorithm, rank, is_fallback, after_kv_skip },
            expected_queue: queue_delay,
        }
    }
}
