//! The door to the kernel program that measures round-trip times (`ebpf/`): loads it, attaches it to a cgroup, tells it
//! which addresses to measure, and reads what it measured.
//!
//! All here blocks for system calls and belongs on a thread of its own, never on a core. It knows nothing of backends or
//! snapshots, and judges no sample: that is for whoever reads them.
//!
//! What it needs: Linux 5.8 (ring buffers; 6.10 for samples beyond handshakes'), cgroup v2 mounted somewhere, and
//! `CAP_BPF` and `CAP_NET_ADMIN`. Everything that it makes in the kernel hangs on descriptors of this process: whatever
//! ends it, nothing stays behind.

#![allow(clippy::disallowed_methods, reason = "runs on a control thread, never on a core")]

mod capabilities;
pub mod cgroup;
mod endpoints;
mod error;
mod log;
mod object;
mod program;

use std::{
    fmt,
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
};

pub use stargate_ebpf_common::{ENDPOINTS_MAX, RECENT_SAMPLES, RttSample, RttSamples};

use self::{endpoints::Endpoints, log::KernelLog, program::Program};
pub use self::{
    error::{AttachError, MapError},
    log::LogLevel,
    object::Object,
};

/// What is attached, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cgroup (version 2) whose processes' connections are measured. `None`: this process's own, with those of all
    /// processes that are in it. A process is measured by the cgroup that it was in when it opened a socket.
    pub cgroup: Option<PathBuf>,
    /// Most addresses that can be measured at once.
    pub addresses_max: u32,
    /// What the program logs.
    pub log: LogLevel,
    /// The program.
    pub object: Object,
}

/// The attached program. Detached when dropped.
pub struct KernelRtt {
    cgroup: PathBuf,
    endpoints: Endpoints,
    log: KernelLog,
    program: Program,
}

// === impl Options ===

impl Default for Options {
    /// The embedded program on this process's own cgroup.
    fn default() -> Self {
        Self { cgroup: None, addresses_max: ENDPOINTS_MAX, log: LogLevel::Faults, object: Object::embedded() }
    }
}

// === impl KernelRtt ===

impl KernelRtt {
    /// Loads the program and attaches it. It measures nothing before [`Self::follow`].
    ///
    /// # Errors
    /// See [`AttachError`]; nothing is left in the kernel.
    pub fn attach(options: Options) -> Result<Self, AttachError> {
        let cgroup = match options.cgroup {
            Some(cgroup) => cgroup,
            None => cgroup::own().map_err(AttachError::NoCgroup)?,
        };
        let folder = File::open(&cgroup)
            .map_err(|source| AttachError::CgroupNotOpened { cgroup: cgroup.clone(), source })?;
        let (mut program, maps) = Program::load(&options.object, options.addresses_max, options.log)?;
        program.attach(&folder, &cgroup)?;
        Ok(Self { cgroup, endpoints: maps.endpoints, log: maps.log, program })
    }

    /// Measures connections to these addresses from now on, and no others. What was measured to those that were followed
    /// before is kept; that of others is forgotten. A connection is measured when its address was followed at the time that
    /// it was established.
    ///
    /// May take a fifth of a second for thousands of new addresses, while the kernel finds memory.
    ///
    /// # Errors
    /// [`MapError::Full`] when some found no room: those are not measured, all others are. They are tried again by the next
    /// call. After any other error the next call tries again what was left.
    pub fn follow(&mut self, addresses: impl Iterator<Item = SocketAddr>) -> Result<(), MapError> {
        self.endpoints.follow(addresses)
    }

    /// What was measured to this address since it is followed, over all CPUs; `None` when it is not followed.
    ///
    /// # Errors
    /// When the kernel refuses to read.
    pub fn samples(&self, address: SocketAddr) -> Result<Option<RttSamples>, MapError> {
        self.endpoints.samples(address)
    }

    /// How many addresses are measured.
    pub fn followed(&self) -> usize {
        self.endpoints.len()
    }

    /// The cgroup that the program is attached to.
    pub fn attached_to(&self) -> &Path {
        &self.cgroup
    }

    /// The kernel's number for the program, as `bpftool prog show id` takes it.
    pub fn program_id(&self) -> u32 {
        self.program.id()
    }

    /// Hands on what the program has logged since the last call. Lines that nobody fetches in time are lost, never waited for.
    pub fn drain_log(&mut self, line: impl FnMut(LogLevel, &str)) {
        self.log.drain(line);
    }
}

impl fmt::Debug for KernelRtt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("KernelRtt")
            .field("cgroup", &self.cgroup)
            .field("program_id", &self.program_id())
            .field("followed", &self.followed())
            .finish_non_exhaustive()
    }
}
