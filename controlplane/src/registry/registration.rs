//! One registration of one backend, and its models.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use stargate_routing::{Backend, BackendRtt, BackendUid, Nanos, RttSource};
use tokio::time::Instant;

use super::{
    identity::Identity,
    report_interval::ReportInterval,
    request::ModelStatus,
    routed_rtt::RoutedRtt,
    stats::{ModelStats, Rate},
};
use crate::{
    health::{HealthState, ProbedRtt},
    learn::ThroughputEstimate,
    names::{BackendId, ModelName},
};

/// One registration, from a PUT (or the configuration) to its end.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Identity; another registration of the same backend has another.
    pub uid: BackendUid,
    /// What operators call the backend.
    pub id: BackendId,
    /// What may not change.
    pub identity: Identity,
    /// Its lease; `None` for a static backend, which has none.
    pub lease: Option<Lease>,
    /// What the active checks say.
    pub health: HealthState,
    /// TCP connect time of the checks.
    pub probed_rtt: ProbedRtt,
    /// Whether it has posted stats, or registered with stats that hand over.
    pub publishes_stats: bool,
    /// What it serves.
    pub models: BTreeMap<ModelName, Model>,
    /// Where it is now; `None` while its name could not be looked up.
    address: Option<SocketAddr>,
    /// Identity in snapshots: `uid`, until its name moves to another address. The data plane keeps connections
    /// by it, and those to the former address must not be used again.
    backend_uid: BackendUid,
    /// How far it is to that address; measured by the data plane, and by the checks.
    measured_rtt: Arc<BackendRtt>,
    /// How far it is as routing sees it, without noise.
    routed_rtt: RoutedRtt,
    /// Its form in snapshots, shared by all of them while nothing in it changes.
    published: Option<Arc<Backend>>,
}

/// How long a registration lives without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Granted at each renewal.
    pub length: Duration,
    /// When it ends.
    pub expires_at: Instant,
}

/// One model of a registration.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Whether it takes requests.
    pub status: ModelStatus,
    /// As reported last.
    pub stats: ModelStats,
    /// Position of that report among all; 0 when nothing was reported.
    pub report: u64,
    /// What its traffic shows of its prefill throughput.
    pub measured: ThroughputEstimate,
    /// How often it reports.
    pub report_interval: ReportInterval,
}

// === impl Registration ===

impl Registration {
    pub(super) fn new(
        uid: BackendUid,
        id: BackendId,
        identity: Identity,
        lease: Option<Lease>,
        health: HealthState,
        address: Option<SocketAddr>,
    ) -> Self {
        let mut registration = Self {
            uid,
            id,
            identity,
            lease,
            health,
            probed_rtt: ProbedRtt::default(),
            publishes_stats: false,
            models: BTreeMap::new(),
            address,
            backend_uid: uid,
            measured_rtt: Arc::default(),
            routed_rtt: RoutedRtt::default(),
            published: None,
        };
        registration.refresh();
        registration
    }

    /// Where it is now.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Its identity in snapshots.
    pub fn backend_uid(&self) -> BackendUid {
        self.backend_uid
    }

    /// Its form in a snapshot; `None` while it has no address.
    pub fn backend(&self) -> Option<&Arc<Backend>> {
        self.published.as_ref()
    }

    /// Whether it can take requests at all; its models decide for themselves.
    pub fn is_available(&self) -> bool {
        self.health.is_healthy() && self.published.is_some()
    }

    /// Its round-trip time by the best source that has measured one, and that source.
    pub fn rtt(&self) -> Option<(Nanos, RttSource)> {
        self.measured_rtt.get()
    }

    /// Its round-trip time as routing sees it, without noise.
    pub fn routed_rtt(&self) -> Option<Nanos> {
        self.routed_rtt.get()
    }

    pub(super) fn set_address(&mut self, address: SocketAddr, backend_uid: BackendUid) {
        self.address = Some(address);
        if self.backend_uid != backend_uid {
            self.backend_uid = backend_uid;
            // Gateways number the attempts at each identity anew.
            self.models.values_mut().for_each(|model| model.stats.disown_attempts());
        }
        // What was measured to the former one says nothing of this.
        self.measured_rtt = Arc::default();
        self.probed_rtt = ProbedRtt::default();
        self.refresh();
    }

    /// Takes the connect time of a check.
    pub(super) fn probed(&mut self, connect: Duration) {
        self.measured_rtt.set(RttSource::Probe, self.probed_rtt.add(connect));
    }

    /// Follows what is measured now. True when what routing sees has changed.
    pub(super) fn follow_rtt(&mut self) -> bool {
        self.routed_rtt.follow(self.rtt().map(|(rtt, _)| rtt))
    }

    /// True when that is new.
    pub(super) fn set_publishes_stats(&mut self) -> bool {
        let is_new = !self.publishes_stats;
        if is_new {
            self.publishes_stats = true;
            self.refresh();
        }
        is_new
    }

    fn refresh(&mut self) {
        self.published = self.address.map(|address| {
            Arc::new(Backend {
                uid: self.backend_uid,
                backend_id: self.id.shared(),
                cluster_id: self.identity.cluster_id.shared(),
                address,
                authority: self.identity.url.authority().into(),
                base_path: self.identity.url.base_path().into(),
                publishes_stats: self.publishes_stats,
                rtt: self.measured_rtt.clone(),
            })
        });
    }
}

// === impl Model ===

impl Model {
    /// Replaces the stats whole, but for the sticky ones.
    pub(super) fn report(&mut self, mut stats: ModelStats, position: u64, now: Instant) {
        self.report_interval.report(now);
        stats.keep_sticky(&self.stats);
        self.stats = stats;
        self.report = position;
    }

    /// Prefill throughput, reported or else measured; `None` while nobody knows.
    pub fn input_tps(&self) -> Option<f64> {
        self.stats
            .last_mean_input_tps
            .map(Rate::get)
            .filter(|tps| *tps > 0.0)
            .or_else(|| self.measured.published())
    }
}
