//! The data plane: one pinned monoio thread a core, each with its own listener, connection pools and
//! decision state, proxying HTTP/1.1 to the backend that the current snapshot says is best.
//!
//! A request goes through stages, one file each, in this order: accept, read head, derive, decide, reserve,
//! attempt, relay, account. A core thread takes no lock, makes no blocking call and allocates nothing to
//! decide. The border to the control plane is two things only: snapshots come in ([`SharedSnapshot`], and
//! [`Bells`] to ring for them), observations go out ([`Observations`]).

mod core;
mod data_plane;
mod error;
mod explain;
mod gateway_id;
mod http;
mod io;
mod observation;
mod request_id;
mod retry;
mod routing_expression;
pub mod rtt;
mod settings;
mod stages;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use arc_swap::ArcSwap;
use crossbeam::queue::ArrayQueue;
use stargate_routing::{ReservationCounts, Snapshot};

pub use crate::core::bell::Bells;
use crate::{
    core::Shared,
    data_plane::core_thread::{CoreThread, Start, allowed_cpus, listen},
    rtt::{Rtt, RttError, RttService, Tell},
};
pub use error::{ErrorCode, ErrorRow, Fault};
pub use explain::{ReadRequest, RequestRefusal, read_request};
pub use gateway_id::{GatewayId, InvalidGatewayId};
pub use observation::{
    Attempt, AttemptResult, Failure, Observation, Observations, Rejection, Request, Selection,
};
pub use routing_expression::{ExpressionError, method_of};
pub use settings::{
    Driver, HeaderPolicy, KernelLog, Limits, Pool, Reservations, Retry, RttChoice, RttSettings, Settings,
    SettingsError, Timeouts,
};
pub use stargate_routing::WaitedFor;

/// Where the control plane publishes and every core looks. Cores see a new snapshot at their next
/// decision; those with requests that wait are woken by [`Bells`].
pub type SharedSnapshot = Arc<ArcSwap<Snapshot>>;

/// Why the data plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// `cores` names a CPU that this process may not use.
    #[error("cannot run on CPU {cpu}: this process may use {allowed:?}")]
    Core {
        /// The CPU asked for.
        cpu: usize,
        /// Those allowed.
        allowed: Vec<usize>,
    },
    /// The kernel interface cannot be used.
    #[error("{0}")]
    Driver(String),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// Round-trip times cannot be measured as asked for.
    #[error(transparent)]
    Rtt(#[from] RttError),
}

/// A running data plane.
#[derive(Debug)]
pub struct DataPlane {
    gateway_id: GatewayId,
    addresses: Vec<SocketAddr>,
    observations: Observations,
    cores: Vec<CoreThread>,
    rtt: RttService,
}

/// Reads the levels of all cores of a data plane; outlives it.
#[derive(Clone, Debug)]
pub struct LevelReader {
    cores: Vec<Arc<crate::core::levels::Levels>>,
}

/// Levels of one core at one moment, for gauges.
#[derive(Clone, Debug, Default)]
pub struct CoreLevels {
    /// CPU number.
    pub cpu: usize,
    /// Which driver it runs on: `io_uring (defer_taskrun)`, `io_uring (coop_taskrun)`, `io_uring`, `epoll`.
    pub driver: &'static str,
    /// Client connections: with a request in progress.
    pub client_active: u64,
    /// Client connections: waiting for a request.
    pub client_idle: u64,
    /// Upstream connections: in use.
    pub upstream_active: u64,
    /// Upstream connections: idle in the pool.
    pub upstream_idle: u64,
    /// Bytes of request bodies held for replay, bodies of 16 KiB and more.
    pub replay_bytes: u64,
    /// Requests that wait for a place.
    pub waiters: u64,
    /// Version of the snapshot that it last looked at.
    pub snapshot_version: u64,
    /// Share of time spent working, 0..=1, over the last second.
    pub busy_ratio: f64,
    /// Observations dropped because the queue was full, since start.
    pub observations_dropped: u64,
    /// Times that accepting paused at a limit, since start.
    pub accept_paused: u64,
    /// Requests that met a panic, since start.
    pub panics: u64,
    /// Routing expressions that were found as they had been read before, since start.
    pub expressions_found: u64,
    /// Routing expressions that were read, since start.
    pub expressions_read: u64,
    /// Routing expressions that were refused, since start.
    pub expressions_refused: u64,
    /// What has become of its reservations, as of some moment within the last tick of 25 ms.
    pub reservations: ReservationCounts,
}

/// Starts one thread a core and returns when all of them listen. `tell` takes what is for the host's log,
/// first how round-trip times are measured.
///
/// # Errors
/// See [`StartError`]; nothing is left running.
#[expect(clippy::needless_pass_by_value, reason = "the data plane keeps it; what it hands on are clones")]
pub fn start(settings: Settings, snapshot: SharedSnapshot, tell: Tell) -> Result<DataPlane, StartError> {
    settings.validate()?;
    let allowed = allowed_cpus();
    let cpus = if settings.cores.is_empty() { allowed.clone() } else { settings.cores.clone() };
    if let Some(cpu) = cpus.iter().copied().find(|cpu| !allowed.contains(cpu)) {
        return Err(StartError::Core { cpu, allowed });
    }
    let (addresses, listeners) = listen_on_all(&settings.listen, cpus.len())?;
    let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // Before any core, whose first connection is to be measured.
    let rtt = RttService::start(settings.rtt, tell)?;
    let shared = Arc::new(Shared {
        started_unix_s,
        gateway: GatewayId::draw(),
        cores: cpus.len(),
        tcp_info: rtt.tcp_info(),
        ..Shared::default()
    });
    let settings = Arc::new(settings);
    let mut data_plane = DataPlane {
        gateway_id: shared.gateway,
        addresses,
        observations: Observations::default(),
        cores: Vec::new(),
        rtt,
    };
    for (cpu, listeners) in cpus.into_iter().zip(listeners) {
        let observations = Arc::new(ArrayQueue::new(observation::QUEUE_CAPACITY));
        data_plane.observations.queues.push(observations.clone());
        let started = CoreThread::start(Start {
            cpu,
            settings: settings.clone(),
            snapshot: snapshot.clone(),
            shared: shared.clone(),
            listeners,
            observations,
        });
        match started {
            Ok(core) => data_plane.cores.push(core),
            Err(error) => {
                data_plane.shutdown();
                return Err(error);
            }
        }
    }
    Ok(data_plane)
}

/// Listeners for every core on every address. All are bound before any core runs, so that connections are
/// spread over all from the first.
fn listen_on_all(
    asked: &[SocketAddr],
    cores: usize,
) -> Result<(Vec<SocketAddr>, Vec<Vec<std::net::TcpListener>>), StartError> {
    let mut addresses = Vec::new();
    let mut listeners: Vec<Vec<_>> = (0..cores).map(|_| Vec::new()).collect();
    for asked in asked {
        let mut address = *asked;
        for core in &mut listeners {
            let listener = listen(address)?;
            // Port 0 is settled by the first core's listener.
            address = listener.local_addr().map_err(|source| StartError::Listen { address, source })?;
            core.push(listener);
        }
        addresses.push(address);
    }
    Ok((addresses, listeners))
}

// === impl DataPlane ===

impl DataPlane {
    /// The addresses listened on, in the order of `Settings::listen`, with ports as taken.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What its attempts are stamped with.
    pub fn gateway_id(&self) -> GatewayId {
        self.gateway_id
    }

    /// The control plane's end of the observation queues.
    pub fn observations(&self) -> Observations {
        self.observations.clone()
    }

    /// Levels of every core now.
    pub fn levels(&self) -> Vec<CoreLevels> {
        self.cores.iter().map(|core| core.levels.read()).collect()
    }

    /// Reads the levels of all cores, also while [`Self::shutdown`] drains them and after.
    pub fn level_reader(&self) -> LevelReader {
        LevelReader { cores: self.cores.iter().map(|core| core.levels.clone()).collect() }
    }

    /// How round-trip times to backends are measured.
    pub fn rtt(&self) -> Rtt {
        self.rtt.rtt().clone()
    }

    /// What to ring after each snapshot that was stored.
    pub fn bells(&self) -> Bells {
        Bells { bells: self.cores.iter().map(|core| core.bell.clone()).collect() }
    }

    /// Stops accepting, lets open requests finish for up to `Timeouts::shutdown_grace`, then stops all
    /// threads. Blocks until they have ended. Returns how many requests were cut at the end of the grace.
    pub fn shutdown(self) -> u64 {
        self.cores.iter().for_each(CoreThread::start_draining);
        let cut = self.cores.into_iter().map(CoreThread::join).sum();
        self.rtt.stop();
        cut
    }
}

// === impl LevelReader ===

impl LevelReader {
    /// Levels of every core now.
    pub fn read(&self) -> Vec<CoreLevels> {
        self.cores.iter().map(|core| core.read()).collect()
    }
}
