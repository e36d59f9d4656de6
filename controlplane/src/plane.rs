//! The control plane as a whole: the state that its tasks and the REST API share, and what connects them.
//!
//! One lock around the registry, held for as long as a plain change takes; one around the publisher, taken
//! after it. A lock that a panic left behind is taken over: every change is applied whole or not at all.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use stargate_dataplane::{Bells, CoreLevels, GatewayId, Observations, SharedSnapshot, rtt::Rtt};
use stargate_routing::BackendUid;
use tokio::{
    sync::{Notify, watch},
    task::spawn_blocking,
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    config::Config,
    health::{self, CheckReport, CheckTarget, Transition},
    live_routing::{Applied, Change, ChangeError, LiveRouting, Precondition, StartError, Store},
    metrics::Gauges,
    names::BackendId,
    observe::Observer,
    publish::Publisher,
    registry::{RegisterRequest, Registered, Registration, Registry, RegistryError, StatsRequest},
    supervise::supervise,
};

/// Shortest time between two snapshots: more often than that no core would notice.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(5);
/// Publishing pauses for this many times what it took, so that it never takes more than a tenth of a CPU
/// however many backends report.
const PUBLISH_PAUSE_FACTOR: u32 = 9;
/// Between two drains of the observations.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(100);
/// Building ranking tables pauses for this many times what the last one took: at most half a CPU goes into
/// them, and clusters that come together are ranked together.
const TABLE_PAUSE_FACTOR: u32 = 1;
/// Pause after a ranking table that could not be built; decisions rank without.
const TABLE_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Longest that an answer waits for its change to be published.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// The control plane.
pub struct ControlPlane {
    config: Config,
    registry: Mutex<Registry>,
    publisher: Mutex<Publisher>,
    routing: Mutex<LiveRouting>,
    /// Held while the routing configuration is changed: one change is whole before the next is looked at.
    routing_changes: tokio::sync::Mutex<Option<Store>>,
    snapshot: SharedSnapshot,
    observer: Mutex<Observer>,
    data_plane: OnceLock<Cores>,
    rtt: OnceLock<Rtt>,
    log_lines_dropped: OnceLock<Count>,
    changed: Notify,
    leases_changed: Notify,
    tables_wanted: Notify,
    published: watch::Sender<u64>,
    is_stopping: AtomicBool,
}

/// The data plane as far as it is watched.
struct Cores {
    gateway: GatewayId,
    observations: Observations,
    bells: Bells,
    levels: Box<dyn Fn() -> Vec<CoreLevels> + Send + Sync>,
}

/// Something that is counted elsewhere.
type Count = Box<dyn Fn() -> u64 + Send + Sync>;

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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl ControlPlane ===

impl ControlPlane {
    /// With the static backends of `config`, and their targets published already: known, but not routable
    /// before their first good check.
    ///
    /// # Errors
    /// There is no routing configuration to start with.
    pub fn new(config: Config) -> Result<Arc<Self>, StartError> {
        let (routing, store) = LiveRouting::start(&config)?;
        let registry = Registry::new(&config);
        let mut publisher = Publisher::new(routing.policies().clone());
        publisher.publish(&registry);
        let observer = Observer::new(config.metrics.prefix.as_str());
        Ok(Arc::new(Self {
            snapshot: publisher.shared(),
            published: watch::Sender::new(registry.revision()),
            registry: Mutex::new(registry),
            publisher: Mutex::new(publisher),
            routing: Mutex::new(routing),
            routing_changes: tokio::sync::Mutex::new(store),
            observer: Mutex::new(observer),
            data_plane: OnceLock::new(),
            rtt: OnceLock::new(),
            log_lines_dropped: OnceLock::new(),
            changed: Notify::new(),
            leases_changed: Notify::new(),
            tables_wanted: Notify::new(),
            is_stopping: AtomicBool::new(false),
            config,
        }))
    }

    /// Starts the tasks, on the runtime that this is called on: publishing, ranking tables, leases, health
    /// checks, observing.
    pub fn spawn(self: &Arc<Self>) {
        let plane = self.clone();
        supervise("publish", move || plane.clone().publish_changes());
        let plane = self.clone();
        supervise("ranking tables", move || plane.clone().build_tables());
        let plane = self.clone();
        supervise("leases", move || plane.clone().expire_leases());
        let plane = self.clone();
        supervise("observe", move || plane.clone().observe_periodically());
        let uids: Vec<BackendUid> = self.registry().backends().map(|registration| registration.uid).collect();
        for uid in uids {
            health::watch(self, uid);
        }
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
        if self.data_plane.set(cores).is_ok() {
            lock(&self.publisher).set_gateway(gateway);
            self.changed.notify_one();
        }
    }

    /// What the attempts of the data plane are stamped with; `None` while none is watched.
    pub fn gateway_id(&self) -> Option<GatewayId> {
        self.data_plane.get().map(|cores| cores.gateway)
    }

    /// Has round-trip times measured to all backends, from before the first connection; the first one given
    /// is kept. To be called before [`Self::spawn`], which starts health checks.
    pub fn attach_rtt(&self, rtt: Rtt) {
        if self.rtt.set(rtt.clone()).is_ok() {
            lock(&self.publisher).set_rtt(rtt);
        }
    }

    /// How round-trip times are measured; `None` while nobody does but health checks.
    pub fn rtt(&self) -> Option<&Rtt> {
        self.rtt.get()
    }

    /// Levels of every core; empty while there is no data plane.
    pub fn levels(&self) -> Vec<CoreLevels> {
        self.data_plane.get().map(|cores| (cores.levels)()).unwrap_or_default()
    }

    /// Takes how many lines the log has dropped, for the metrics; the first one given is kept.
    pub fn attach_log(&self, lines_dropped: impl Fn() -> u64 + Send + Sync + 'static) {
        let _ = self.log_lines_dropped.set(Box::new(lines_dropped));
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where snapshots are published.
    pub fn snapshot(&self) -> &SharedSnapshot {
        &self.snapshot
    }

    /// The registry, locked: hold it briefly and never across an await.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        lock(&self.registry)
    }

    /// From now on the gateway is not ready.
    pub fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
    }

    /// Whether requests can be served.
    pub fn readiness(&self) -> Readiness {
        let snapshot = self.snapshot.load();
        if self.is_stopping.load(Relaxed) {
            Readiness::Stopping
        } else if snapshot.version == 0 {
            Readiness::NoSnapshot
        } else if !snapshot.is_routable() {
            Readiness::NoRoutableBackend
        } else {
            Readiness::Ready
        }
    }

    /// Registers or renews; returns when the data plane knows.
    pub async fn register(
        self: &Arc<Self>,
        id: &BackendId,
        request: RegisterRequest,
    ) -> Result<Registered, RegistryError> {
        let host = request.url.host().clone();
        let is_known = self.registry().get(id).is_ok();
        let limit = self.config.health.timeout_ms.millis();
        let looked_up = if is_known { None } else { health::locate(&host, limit).await };
        let (registered, revision) = {
            let mut registry = self.registry();
            (registry.register(id, request, looked_up, Instant::now())?, registry.revision())
        };
        if registered.is_new {
            tracing::info!(backend_id = %id, "backend registered");
            health::watch(self, registered.uid);
        }
        self.leases_changed.notify_one();
        self.settle(revision).await;
        Ok(registered)
    }

    /// Takes stats; returns when the data plane knows.
    pub async fn report(&self, id: &BackendId, request: StatsRequest) -> Result<(), RegistryError> {
        let revision = {
            let mut registry = self.registry();
            registry.report(id, request, Instant::now())?;
            registry.revision()
        };
        self.settle(revision).await;
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
        self.settle(revision).await;
        Ok(())
    }

    /// The routing configuration in force, and the versions before it.
    pub fn routing(&self) -> LiveRouting {
        lock(&self.routing).clone()
    }

    /// What `change` would come to.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn plan_routing(&self, change: Change, precondition: &Precondition) -> Result<Applied, ChangeError> {
        let before = self.routing();
        let after = before.plan(change, precondition)?;
        Ok(after.applied(&before, self.known_models().into_iter()))
    }

    /// Changes the routing configuration; returns when every core routes by it from its next request on.
    ///
    /// # Errors
    /// See [`ChangeError`]; then nothing is changed.
    pub async fn change_routing(
        self: &Arc<Self>,
        change: Change,
        precondition: Precondition,
    ) -> Result<Applied, ChangeError> {
        let plane = self.clone();
        // In a task of its own: a caller that leaves does not stop a change between its steps.
        let task = tokio::spawn(async move {
            let result = plane.change_routing_whole(change, &precondition).await;
            lock(&plane.observer).count_routing_change(match &result {
                Ok(Applied { is_new: true, .. }) => "applied",
                Ok(_) => "unchanged",
                Err(ChangeError::Conflict { .. }) => "conflict",
                Err(ChangeError::NotKept { .. }) => "failed",
                Err(ChangeError::NoSuchVersion { .. } | ChangeError::NothingBefore { .. }) => "rejected",
            });
            result
        });
        match task.await {
            Ok(result) => result,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Counts a document that was refused before it could become a change.
    pub(crate) fn count_refused_routing(&self) {
        lock(&self.observer).count_routing_change("rejected");
    }

    async fn change_routing_whole(
        &self,
        change: Change,
        precondition: &Precondition,
    ) -> Result<Applied, ChangeError> {
        let store = self.routing_changes.lock().await;
        let before = self.routing();
        let after = before.plan(change, precondition)?;
        let applied = after.applied(&before, self.known_models().into_iter());
        if !applied.is_new {
            return Ok(applied);
        }
        // Kept first: what has been answered is not forgotten.
        if let Some(store) = store.clone() {
            let (path, stored) = (store.path().to_owned(), after.stored());
            let written = tokio::task::spawn_blocking(move || store.write(&stored)).await;
            written
                .unwrap_or_else(|error| Err(std::io::Error::other(error)))
                .map_err(|source| ChangeError::NotKept { path, source })?;
        }
        lock(&self.publisher).set_routing(after.policies().clone());
        *lock(&self.routing) = after;
        self.publish();
        tracing::info!(
            version = applied.version.number,
            source = ?applied.version.source,
            models = ?applied.models,
            "routing configuration applied"
        );
        Ok(applied)
    }

    fn known_models(&self) -> Vec<Arc<str>> {
        let snapshot = self.snapshot.load();
        snapshot.targets().iter().map(|target| target.name.model.clone()).collect()
    }

    /// Metrics in Prometheus' text format, with everything that has been observed until now.
    pub fn scrape(&self) -> String {
        self.observe();
        let levels = self.levels();
        let registry = self.registry();
        let gauges = Gauges {
            registry: &registry,
            snapshot: &self.snapshot.load(),
            levels: &levels,
            rtt: self.rtt.get().map(Rtt::status),
            routing_version: lock(&self.routing).current().number,
            log_lines_dropped: self.log_lines_dropped.get().map_or(0, |count| count()),
        };
        lock(&self.observer).render(&gauges)
    }

    /// Accounts for everything that the data plane has queued.
    pub fn observe(&self) {
        let Some(cores) = self.data_plane.get() else { return };
        let mut observer = lock(&self.observer);
        let now = Instant::now();
        cores.observations.drain(|observation| observer.record(observation, now));
        let samples = observer.take_samples();
        drop(observer);
        let mut registry = self.registry();
        let before = registry.revision();
        for (uid, target, sample) in samples {
            registry.measured(uid, &target.model, sample, now);
        }
        registry.expire_measured(now);
        registry.follow_rtts();
        if registry.revision() != before {
            self.changed.notify_one();
        }
    }

    /// What to check of this registration; `None` when it has ended.
    pub(crate) fn check_target(&self, uid: BackendUid) -> Option<(BackendId, CheckTarget)> {
        let registry = self.registry();
        let registration = registry.by_uid(uid)?;
        let url = &registration.identity.url;
        let path = registration.identity.health_path.as_ref().unwrap_or(&self.config.health.path);
        let target = CheckTarget {
            host: url.host().clone(),
            authority: url.authority().to_owned(),
            path: format!("{}{}", url.base_path(), path.as_str()),
            address: registration.address(),
        };
        Some((registration.id.clone(), target))
    }

    /// Takes what a check found; `None` when that registration has ended.
    pub(crate) fn checked(&self, uid: BackendUid, report: &CheckReport) -> Option<Transition> {
        let mut registry = self.registry();
        let before = registry.revision();
        let transition = registry.checked(uid, report);
        if let (Some(rtt), Some(handshake)) = (self.rtt.get(), report.handshake)
            && let Some(backend) = registry.by_uid(uid).and_then(Registration::backend)
        {
            rtt.handshake(backend, handshake);
        }
        if registry.revision() != before {
            self.changed.notify_one();
        }
        transition
    }

    /// Waits until everything that is registered now is published, and so known to whoever measures round
    /// trips.
    pub(crate) async fn settle_registered(&self) {
        let revision = self.registry().revision();
        self.settle(revision).await;
    }

    /// Waits until `revision` is published, so that an answer never comes before its effect.
    async fn settle(&self, revision: u64) {
        self.changed.notify_one();
        let mut published = self.published.subscribe();
        let reached = published.wait_for(|published| *published >= revision);
        if timeout(SETTLE_MAX, reached).await.is_err() {
            tracing::warn!(revision, "a change is not published yet");
        }
    }

    async fn publish_changes(self: Arc<Self>) {
        loop {
            self.changed.notified().await;
            let start = std::time::Instant::now();
            self.publish();
            sleep(PUBLISH_INTERVAL.max(start.elapsed() * PUBLISH_PAUSE_FACTOR)).await;
        }
    }

    fn publish(&self) {
        let registry = self.registry();
        let revision = registry.revision();
        if lock(&self.publisher).publish(&registry) {
            self.wake_waiters();
            tracing::debug!(version = self.snapshot.load().version, revision, "published a snapshot");
            self.tables_wanted.notify_one();
        }
        drop(registry);
        self.published.send_replace(revision);
    }

    /// Has the data plane look at the snapshot that was just published for the sake of requests that wait.
    fn wake_waiters(&self) {
        if let Some(cores) = self.data_plane.get() {
            cores.bells.ring();
        }
    }

    /// Builds what tables are wanted, one after another and off the runtime's threads, and has each published.
    async fn build_tables(self: Arc<Self>) {
        loop {
            loop {
                let job = lock(&self.publisher).next_table();
                let Some(job) = job else { break };
                let built = match spawn_blocking(move || job.build()).await {
                    Ok(Some(built)) => built,
                    Ok(None) => break,
                    Err(error) => {
                        tracing::error!(%error, "a ranking table could not be built");
                        sleep(TABLE_RETRY_PAUSE).await;
                        continue;
                    }
                };
                let name = built.target();
                tracing::debug!(
                    model = %name.model, routing_key = name.routing_key.as_deref(), took = ?built.took(),
                    "built a ranking table"
                );
                let took = built.took();
                lock(&self.observer).table_built(took);
                lock(&self.publisher).adopt(&built);
                self.changed.notify_one();
                sleep(took * TABLE_PAUSE_FACTOR).await;
            }
            self.tables_wanted.notified().await;
        }
    }

    async fn expire_leases(self: Arc<Self>) {
        loop {
            let next = self.registry().next_expiry();
            let expiry = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.leases_changed.notified() => {}
                () = expiry => {
                    let expired = self.registry().expire(Instant::now());
                    lock(&self.observer).count_expired(expired.len());
                    for id in expired {
                        tracing::warn!(backend_id = %id, "lease expired, backend removed");
                    }
                    self.changed.notify_one();
                }
            }
        }
    }

    async fn observe_periodically(self: Arc<Self>) {
        loop {
            sleep(OBSERVE_INTERVAL).await;
            self.observe();
            let registry = self.registry();
            lock(&self.observer).sweep(Instant::now(), &registry);
        }
    }
}
