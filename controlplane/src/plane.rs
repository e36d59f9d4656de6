//! The control plane as its users have it: the daemon, which starts it and attaches a data plane, and the REST API.
//!
//! A change is answered when the data plane knows of it. What is behind it is in `shared`, what goes on by itself in
//! `tasks`.

use std::sync::{Arc, MutexGuard, atomic::Ordering::Relaxed};

use stargate_dataplane::{Bells, CoreLevels, GatewayId, Observations, SharedSnapshot, rtt::Rtt};
use tokio::time::Instant;

use crate::{
    config::Config,
    health,
    live_routing::{Applied, Change, ChangeError, LiveRouting, Precondition, StartError},
    names::BackendId,
    registry::{RegisterRequest, Registered, Registry, RegistryError, StatsRequest},
    routing_changes,
    shared::{Cores, Shared},
    tasks,
};

/// The control plane; a clone is another handle of it.
#[derive(Clone)]
pub struct ControlPlane {
    shared: Arc<Shared>,
}

/// Whether requests can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// They can.
    Ready,
    /// No snapshot has been published yet.
    NoSnapshot,
    /// No backend takes requests.
    NoRoutableBackend,
    /// The gateway is stopping.
    Stopping,
}

// === impl ControlPlane: its life ===

impl ControlPlane {
    /// With the static backends of `config`, and their targets published already: known, but not routable
    /// before their first good check.
    ///
    /// # Errors
    /// There is no routing configuration to start with.
    pub fn new(config: Config) -> Result<Self, StartError> {
        Ok(Self { shared: Arc::new(Shared::new(config)?) })
    }

    /// Starts the tasks, on the runtime that this is called on: publishing, ranking tables, leases, health
    /// checks, observing.
    pub fn spawn(&self) {
        tasks::start(&self.shared);
    }

    /// Watches a data plane; the first one given is kept. `gateway` is what it stamps its attempts with.
    pub fn attach(
        &self,
        gateway: GatewayId,
        observations: Observations,
        bells: Bells,
        levels: impl Fn() -> Vec<CoreLevels> + Send + Sync + 'static,
    ) {
        let cores = Cores { gateway, observations, bells, levels: Box::new(levels) };
        if self.shared.cores.set(cores).is_ok() {
            self.shared.publisher().set_gateway(gateway);
            self.shared.changed.notify_one();
        }
    }

    /// Has round-trip times measured to all backends, from before the first connection; the first one given
    /// is kept. To be called before [`Self::spawn`], which starts health checks.
    pub fn attach_rtt(&self, rtt: Rtt) {
        if self.shared.rtt.set(rtt.clone()).is_ok() {
            self.shared.publisher().set_rtt(rtt);
        }
    }

    /// Takes how many lines the log has dropped, for the metrics; the first one given is kept.
    pub fn attach_log(&self, lines_dropped: impl Fn() -> u64 + Send + Sync + 'static) {
        let _ = self.shared.log_lines_dropped.set(Box::new(lines_dropped));
    }

    /// From now on the gateway is not ready.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Relaxed);
    }
}

// === impl ControlPlane: what it shows ===

impl ControlPlane {
    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Where snapshots are published.
    pub fn snapshot(&self) -> &SharedSnapshot {
        &self.shared.snapshot
    }

    /// The registry, locked: hold it briefly and never across an await.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.shared.registry()
    }

    /// The routing configuration in force, and the versions before it.
    pub fn routing(&self) -> Arc<LiveRouting> {
        self.shared.routing.load_full()
    }

    /// What the attempts of the data plane are stamped with; `None` while none is watched.
    pub fn gateway_id(&self) -> Option<GatewayId> {
        self.shared.cores.get().map(|cores| cores.gateway)
    }

    /// How round-trip times are measured; `None` while nobody does but health checks.
    pub fn rtt(&self) -> Option<&Rtt> {
        self.shared.rtt.get()
    }

    /// Levels of every core; empty while there is no data plane.
    pub fn levels(&self) -> Vec<CoreLevels> {
        self.shared.levels()
    }

    /// Whether requests can be served.
    pub fn readiness(&self) -> Readiness {
        let snapshot = self.shared.snapshot.load();
        if self.shared.is_stopping.load(Relaxed) {
            Readiness::Stopping
        } else if snapshot.version == 0 {
            Readiness::NoSnapshot
        } else if !snapshot.is_routable() {
            Readiness::NoRoutableBackend
        } else {
            Readiness::Ready
        }
    }

    /// Metrics in Prometheus' text format, with everything that has been observed until now.
    pub fn scrape(&self) -> String {
        tasks::observing::scrape(&self.shared)
    }

    /// Accounts for everything that the data plane has queued.
    pub fn observe(&self) {
        tasks::observing::observe(&self.shared);
    }
}

// === impl ControlPlane: changes ===

impl ControlPlane {
    /// Registers or renews; returns when the data plane knows.
    pub async fn register(
        &self,
        id: &BackendId,
        request: RegisterRequest,
    ) -> Result<Registered, RegistryError> {
        let host = request.url.host().clone();
        let is_known = self.registry().get(id).is_ok();
        let limit = self.config().health.timeout_ms.millis();
        let looked_up = if is_known { None } else { health::locate(&host, limit).await };
        let (registered, revision) = {
            let mut registry = self.registry();
            (registry.register(id, request, looked_up, Instant::now())?, registry.revision())
        };
        if registered.is_new {
            tracing::info!(backend_id = %id, "backend registered");
            tasks::health::watch(&self.shared, registered.uid);
        }
        self.shared.leases_changed.notify_one();
        self.shared.settle(revision).await;
        Ok(registered)
    }

    /// Takes stats; returns when the data plane knows.
    pub async fn report(&self, id: &BackendId, request: StatsRequest) -> Result<(), RegistryError> {
        let revision = {
            let mut registry = self.registry();
            registry.report(id, request, Instant::now())?;
            registry.revision()
        };
        self.shared.settle(revision).await;
        Ok(())
    }

    /// Removes a backend; returns when the data plane knows.
    pub async fn remove(&self, id: &BackendId) -> Result<(), RegistryError> {
        let revision = {
            let mut registry = self.registry();
            registry.remove(id)?;
            registry.revision()
        };
        tracing::info!(backend_id = %id, "backend removed");
        self.shared.settle(revision).await;
        Ok(())
    }

    /// What `change` of the routing configuration would come to.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn plan_routing(&self, change: Change, precondition: &Precondition) -> Result<Applied, ChangeError> {
        routing_changes::plan(&self.shared, change, precondition).map(|planned| planned.applied)
    }

    /// Changes the routing configuration; returns when every core routes by it from its next request on.
    ///
    /// # Errors
    /// See [`ChangeError`]; then nothing is changed.
    pub async fn change_routing(
        &self,
        change: Change,
        precondition: Precondition,
    ) -> Result<Applied, ChangeError> {
        routing_changes::change(&self.shared, change, precondition).await
    }

    /// Counts a document that was refused before it could become a change.
    pub(crate) fn count_refused_routing(&self) {
        routing_changes::count_refused(&self.shared);
    }
}
