//! What the reports in force include of this gateway's attempts, for the snapshot that is being made.
//!
//! An inclusion is that of one report. While that report is in force it is taken over from the snapshot before,
//! so that a publication costs a look-up for each backend that hands over, whatever it says.

use std::sync::Arc;

use stargate_dataplane::GatewayId;
use stargate_routing::{BackendUid, ClusterUid, Inclusion, Inclusions};

use crate::registry::Model;

/// Inclusions on their way into a snapshot.
pub(super) struct NewInclusions<'a> {
    gateway: Option<GatewayId>,
    former: &'a Inclusions,
    entries: Vec<(ClusterUid, BackendUid, Arc<Inclusion>)>,
}

// === impl NewInclusions ===

impl<'a> NewInclusions<'a> {
    /// None yet; while there is no `gateway`, none will be.
    pub(super) fn new(gateway: Option<GatewayId>, former: &'a Inclusions) -> Self {
        Self { gateway, former, entries: Vec::new() }
    }

    /// Takes what `model`, active on this backend in this cluster, reported last.
    pub(super) fn add(&mut self, cluster: ClusterUid, backend: BackendUid, model: &Model) {
        let (Some(gateway), Some(attempts)) = (self.gateway, &model.stats.attempts) else { return };
        let former = self.former.get(cluster, backend).filter(|former| former.report == model.report);
        let inclusion = former.cloned().unwrap_or_else(|| {
            Arc::new(Inclusion { report: model.report, cores: attempts.of(gateway).into() })
        });
        self.entries.push((cluster, backend, inclusion));
    }

    /// All that was taken; a copy of the former ones while they are the same.
    pub(super) fn finish(self) -> Inclusions {
        let inclusions = Inclusions::new(self.entries);
        if inclusions == *self.former { self.former.clone() } else { inclusions }
    }
}
