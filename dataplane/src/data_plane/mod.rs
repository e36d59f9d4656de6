//! A running data plane as its host sees it: started as a whole, asked for its levels, stopped as a whole.
//!
//! The one place where the parts meet that know nothing of each other: settings, the snapshot, the cores' threads, their
//! queues of observations, and the measuring of round trips.

mod core_thread;
mod listeners;
pub(crate) mod start_error;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use crossbeam::queue::ArrayQueue;

use self::{
    core_thread::{CoreThread, Start},
    start_error::StartError,
};
use crate::{
    core::{
        bell::Bells,
        levels::{CoreLevels, Levels},
        shared::{Shared, SharedSnapshot},
    },
    cpus,
    gateway_id::GatewayId,
    observation::{self, Observations},
    rtt::{Rtt, RttService, Tell},
    settings::Settings,
};

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
    cores: Vec<Arc<Levels>>,
}

/// Starts one thread a core and returns when all of them listen. `tell` takes what is for the host's log,
/// first how round-trip times are measured.
///
/// # Errors
/// See [`StartError`]; nothing is left running.
#[expect(clippy::needless_pass_by_value, reason = "the data plane keeps it; what it hands on are clones")]
pub fn start(settings: Settings, snapshot: SharedSnapshot, tell: Tell) -> Result<DataPlane, StartError> {
    settings.validate()?;
    let allowed = cpus::allowed();
    let cpus = if settings.cores.is_empty() { allowed.clone() } else { settings.cores.clone() };
    if let Some(cpu) = cpus.iter().copied().find(|cpu| !allowed.contains(cpu)) {
        return Err(StartError::Core { cpu, allowed });
    }
    let (addresses, listeners) = listeners::listen_on_all(&settings.listen, cpus.len())?;
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
