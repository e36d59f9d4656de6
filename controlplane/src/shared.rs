//! What the tasks of the control plane and the REST API share, each part behind the one lock that guards it.
//!
//! The locks, in the order in which they are taken where more than one is needed:
//! 1. `routing_changes`, over the whole of a change of the routing configuration, its file included. Alone of all it
//!    is held across awaits, so nobody but another change ever waits for it.
//! 2. `registry`, for as long as a plain change takes, a publication, or a page of metrics.
//! 3. `publisher` or `observer`, under the registry's or alone; never one of them under the other.
//!
//! What is read at every turn and changes as a whole has no lock: the snapshot, the routing configuration, and what
//! is attached, once. A lock that a panic left behind is taken over: every change is applied whole or not at all.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use arc_swap::ArcSwap;
use stargate_dataplane::{Bells, CoreLevels, GatewayId, Observations, SharedSnapshot, rtt::Rtt};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use crate::{
    config::Config,
    live_routing::{LiveRouting, StartError, Store},
    observe::Observer,
    publish::Publisher,
    registry::Registry,
};

/// Longest that an answer waits for its change to be published.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// The shared state.
pub(crate) struct Shared {
    pub(crate) config: Config,
    registry: Mutex<Registry>,
    publisher: Mutex<Publisher>,
    observer: Mutex<Observer>,
    /// Stored only by whoever holds `routing_changes`.
    pub(crate) routing: ArcSwap<LiveRouting>,
    /// Where versions are kept; `None` without a state directory.
    pub(crate) routing_changes: tokio::sync::Mutex<Option<Store>>,
    pub(crate) snapshot: SharedSnapshot,
    pub(crate) cores: OnceLock<Cores>,
    pub(crate) rtt: OnceLock<Rtt>,
    pub(crate) log_lines_dropped: OnceLock<Count>,
    /// Something may have to be published.
    pub(crate) changed: Notify,
    /// The next lease to run out may be another.
    pub(crate) leases_changed: Notify,
    /// A snapshot may lack ranking tables.
    pub(crate) tables_wanted: Notify,
    /// The registry's revision that was published last.
    published: watch::Sender<u64>,
    pub(crate) is_stopping: AtomicBool,
}

/// The data plane as far as it is watched.
pub(crate) struct Cores {
    pub(crate) gateway: GatewayId,
    pub(crate) observations: Observations,
    pub(crate) bells: Bells,
    pub(crate) levels: Box<dyn Fn() -> Vec<CoreLevels> + Send + Sync>,
}

/// Something that is counted elsewhere.
pub(crate) type Count = Box<dyn Fn() -> u64 + Send + Sync>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Shared ===

impl Shared {
    /// With the static backends of `config`, and their targets published already.
    pub(crate) fn new(config: Config) -> Result<Self, StartError> {
        let (routing, store) = LiveRouting::start(&config)?;
        let registry = Registry::new(&config);
        let mut publisher = Publisher::new(routing.policies().clone());
        publisher.publish(&registry);
        let observer = Observer::new(config.metrics.prefix.as_str());
        Ok(Self {
            snapshot: publisher.shared(),
            published: watch::Sender::new(registry.revision()),
            registry: Mutex::new(registry),
            publisher: Mutex::new(publisher),
            observer: Mutex::new(observer),
            routing: ArcSwap::from_pointee(routing),
            routing_changes: tokio::sync::Mutex::new(store),
            cores: OnceLock::new(),
            rtt: OnceLock::new(),
            log_lines_dropped: OnceLock::new(),
            changed: Notify::new(),
            leases_changed: Notify::new(),
            tables_wanted: Notify::new(),
            is_stopping: AtomicBool::new(false),
            config,
        })
    }

    /// The registry, locked: never across an await.
    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        lock(&self.registry)
    }

    /// The publisher, locked: after the registry, where both are needed.
    pub(crate) fn publisher(&self) -> MutexGuard<'_, Publisher> {
        lock(&self.publisher)
    }

    /// The observer, locked: after the registry, where both are needed.
    pub(crate) fn observer(&self) -> MutexGuard<'_, Observer> {
        lock(&self.observer)
    }

    /// Levels of every core; empty while there is no data plane.
    pub(crate) fn levels(&self) -> Vec<CoreLevels> {
        self.cores.get().map(|cores| (cores.levels)()).unwrap_or_default()
    }

    /// Models that requests can be for now, once for each of their targets.
    pub(crate) fn known_models(&self) -> Vec<Arc<str>> {
        self.snapshot.load().targets().iter().map(|target| target.name.model.clone()).collect()
    }

    /// Publishes what is in force now, where that is news, and has the data plane look at it for the sake of
    /// requests that wait.
    pub(crate) fn publish(&self) {
        let registry = self.registry();
        let revision = registry.revision();
        if self.publisher().publish(&registry) {
            if let Some(cores) = self.cores.get() {
                cores.bells.ring();
            }
            tracing::debug!(version = self.snapshot.load().version, revision, "published a snapshot");
            self.tables_wanted.notify_one();
        }
        drop(registry);
        self.published.send_replace(revision);
    }

    /// Waits until `revision` of the registry is published, so that an answer never comes before its effect.
    pub(crate) async fn settle(&self, revision: u64) {
        self.changed.notify_one();
        let mut published = self.published.subscribe();
        let reached = published.wait_for(|published| *published >= revision);
        if timeout(SETTLE_MAX, reached).await.is_err() {
            tracing::warn!(revision, "a change is not published yet");
        }
    }

    /// Waits until everything that is registered now is published, and so known to whoever measures round trips.
    pub(crate) async fn settle_registered(&self) {
        let revision = self.registry().revision();
        self.settle(revision).await;
    }
}
