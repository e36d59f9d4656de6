//! Reads what the kernel program has measured, a few times a second, and stores what counts where routing
//! looks.
//!
//! One control thread does it, never a core. It takes 1 % of a CPU at most: the more backends, the rarer it
//! reads.
//!
//! What can go wrong with a program that runs elsewhere is found by its effect, whatever the cause: the
//! kernel refuses to read or write the map, the map has no room for an address, or a handshake that a health
//! check made was not seen (the program was detached, or this process moved to another cgroup). Each is
//! counted, told once, and costs the backends concerned this source: from then on `TCP_INFO` counts for them,
//! and what health checks find until there is any. No request notices.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "runs on a control thread, never on a core"
)]

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

use crossbeam::queue::SegQueue;
use stargate_routing::{Backend, Nanos, RttSample, RttSource, Snapshot};

use super::{
    clock::monotonic_time,
    estimate::{SAMPLES, estimate},
    kernel::{self, KernelRtt, MapError, RttSamples},
    tcp_info::TcpInfoSource,
    tell::{Severity, Tell},
};
use crate::cpus::thread_time;

/// Between two readings: five samples come no faster from a backend with 50 requests a second.
const INTERVAL: Duration = Duration::from_millis(100);
/// The pause after a reading is this many times the CPU time that it took.
const PAUSE_FACTOR: u32 = 99;
/// A handshake is missed when the program has seen nothing for this long before it. Above what a health check
/// takes to note the time after the kernel has, on any host that still serves.
const MISSED_AFTER: Duration = Duration::from_secs(2);

/// What reads and keeps the map: the kernel, but in tests.
pub(super) trait Kernel: Send + 'static {
    /// See [`KernelRtt::follow`].
    fn follow(&mut self, addresses: impl Iterator<Item = SocketAddr>) -> Result<(), MapError>;
    /// See [`KernelRtt::samples`].
    fn samples(&self, address: SocketAddr) -> Result<Option<RttSamples>, MapError>;
    /// See [`KernelRtt::followed`].
    fn followed(&self) -> usize;
    /// See [`KernelRtt::drain_log`].
    fn drain_log(&mut self, line: impl FnMut(kernel::LogLevel, &str));
}

/// What can go wrong while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelFault {
    /// The map had no room for some addresses.
    MapFull,
    /// The kernel refused to read or write the map.
    MapRefused,
    /// The program did not see a connection that there was.
    Missed,
}

/// The program's map, and what it is to measure.
pub(super) struct Monitor<K> {
    /// `None` once detached.
    kernel: Mutex<Option<K>>,
    followed: Mutex<Followed>,
    /// Steps in for backends that the program does not measure.
    tcp_info: Arc<TcpInfoSource>,
    faults: [Fault; KernelFault::ALL.len()],
    /// To be told by the thread; one of each kind at most.
    notices: SegQueue<String>,
}

/// The backends whose addresses are in the map, as far as it has room.
#[derive(Default)]
struct Followed {
    backends: Option<Arc<[Arc<Backend>]>>,
    /// Whether it had room for all.
    has_room: bool,
    /// Nothing is left to be tried again: room for one comes only as another goes.
    is_settled: bool,
}

#[derive(Default)]
struct Fault {
    count: AtomicU64,
    is_told: AtomicBool,
}

/// What the thread remembers of an address from one reading to the next.
struct Address {
    /// When it was first read.
    since: Duration,
    /// The last handshakes, newest first: the kernel keeps one only, and those who read often enough see all.
    handshakes: VecDeque<RttSample>,
    is_missed: bool,
}

// === impl KernelFault ===

impl KernelFault {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::MapFull, Self::MapRefused, Self::Missed];

    /// Its name in metrics and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MapFull => "map_full",
            Self::MapRefused => "map_refused",
            Self::Missed => "missed",
        }
    }
}

// === impl Kernel ===

impl Kernel for KernelRtt {
    fn follow(&mut self, addresses: impl Iterator<Item = SocketAddr>) -> Result<(), MapError> {
        Self::follow(self, addresses)
    }

    fn samples(&self, address: SocketAddr) -> Result<Option<RttSamples>, MapError> {
        Self::samples(self, address)
    }

    fn followed(&self) -> usize {
        Self::followed(self)
    }

    fn drain_log(&mut self, line: impl FnMut(kernel::LogLevel, &str)) {
        Self::drain_log(self, line);
    }
}

// === impl Monitor ===

impl<K: Kernel> Monitor<K> {
    pub(super) fn new(kernel: K, tcp_info: Arc<TcpInfoSource>) -> Self {
        Self {
            kernel: Mutex::new(Some(kernel)),
            followed: Mutex::default(),
            tcp_info,
            faults: <[Fault; KernelFault::ALL.len()]>::default(),
            notices: SegQueue::new(),
        }
    }

    /// Has the program measure connections to the backends of `snapshot` from now on. Blocks for system calls
    /// where they have changed.
    pub(super) fn follow(&self, snapshot: &Snapshot) {
        let Some(backends) = &snapshot.backends else { return };
        let mut followed = lock(&self.followed);
        let is_same = followed.backends.as_ref().is_some_and(|old| Arc::ptr_eq(old, backends));
        if is_same && followed.is_settled {
            return;
        }
        let mut kernel = lock(&self.kernel);
        let Some(kernel) = kernel.as_mut() else { return };
        let result = kernel.follow(backends.iter().map(|backend| backend.address));
        followed.has_room = !matches!(result, Err(MapError::Full { .. }));
        followed.is_settled = !matches!(result, Err(MapError::Refused { .. }));
        followed.backends = Some(backends.clone());
        match result {
            Ok(()) => {}
            Err(error @ MapError::Full { .. }) => self.fault(KernelFault::MapFull, || {
                format!("{error}; TCP_INFO counts for those (rtt_faults_total counts on)")
            }),
            Err(error) => self.refused(&error),
        }
    }

    /// What the program has measured to `address`.
    pub(super) fn samples(&self, address: SocketAddr) -> Option<RttSamples> {
        lock(&self.kernel).as_ref()?.samples(address).ok().flatten()
    }

    /// How many addresses are measured; `None` once detached.
    pub(super) fn followed(&self) -> Option<usize> {
        lock(&self.kernel).as_ref().map(Kernel::followed)
    }

    pub(super) fn faults(&self, fault: KernelFault) -> u64 {
        self.faults[fault as usize].count.load(Relaxed)
    }

    /// Reads until `stop` has no sender any more, then detaches. Told is what goes wrong, and what the
    /// program logs.
    pub(super) fn run(&self, stop: &mpsc::Receiver<()>, tell: &mut Tell) {
        let mut addresses = HashMap::new();
        let mut pause = INTERVAL;
        while stop.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {
            let start = thread_time();
            // Values that stand still unnoticed would be worse than a source that is lost.
            if catch_unwind(AssertUnwindSafe(|| self.round(&mut addresses))).is_err() {
                tell(Severity::Warn, "round-trip times: a reading of the kernel program's map panicked");
            }
            self.tell(tell);
            pause = INTERVAL.max(thread_time().saturating_sub(start) * PAUSE_FACTOR);
        }
        self.tell(tell);
        // Whatever holds a handle on this does not keep the program attached.
        *lock(&self.kernel) = None;
    }

    fn tell(&self, tell: &mut Tell) {
        while let Some(notice) = self.notices.pop() {
            tell(Severity::Warn, &format!("round-trip times: {notice}"));
        }
        if let Some(kernel) = lock(&self.kernel).as_mut() {
            kernel.drain_log(|level, line| {
                let severity = match level {
                    kernel::LogLevel::Faults => Severity::Warn,
                    kernel::LogLevel::Debug => Severity::Debug,
                };
                tell(severity, &format!("kernel program: {line}"));
            });
        }
    }

    /// Reads what was measured to every backend.
    fn round(&self, addresses: &mut HashMap<SocketAddr, Address>) {
        let (backends, has_room) = {
            let followed = lock(&self.followed);
            (followed.backends.clone(), followed.has_room)
        };
        let backends = backends.as_deref().unwrap_or_default();
        // Those that are no longer followed stay behind.
        let mut before = std::mem::take(addresses);
        for backend in backends {
            let now = monotonic_time();
            let address = addresses
                .entry(backend.address)
                .or_insert_with(|| before.remove(&backend.address).unwrap_or_else(|| Address::new(now)));
            match self.measured(backend, address, has_room, now) {
                Some(rtt) => backend.rtt.set(RttSource::Ebpf, rtt),
                None => backend.rtt.clear(RttSource::Ebpf),
            }
        }
    }

    /// The round trip to `backend` that counts; `None` where the program does not measure it, and before it
    /// has.
    fn measured(
        &self,
        backend: &Backend,
        address: &mut Address,
        has_room: bool,
        now: Duration,
    ) -> Option<Nanos> {
        // Locked for one look-up at a time: a publication that follows new backends does not wait for a whole
        // round.
        let read = lock(&self.kernel).as_ref()?.samples(backend.address);
        let samples = match read {
            Ok(samples) => samples,
            Err(error) => {
                self.refused(&error);
                return None;
            }
        };
        // Without room for all it is known why.
        if samples.is_none() && !has_room {
            return None;
        }
        let samples = samples.unwrap_or_default();
        let has_missed = address.has_missed(&samples, backend);
        let was_missed = std::mem::replace(&mut address.is_missed, has_missed);
        if has_missed {
            if !was_missed {
                self.fault(KernelFault::Missed, || {
                    format!(
                        "the kernel program did not see a connection to backend `{}` ({}): it was detached, or \
                         this process moved to another cgroup; TCP_INFO counts until it sees them again",
                        backend.backend_id, backend.address
                    )
                });
            }
            return None;
        }
        address.estimate(&samples, now)
    }

    fn refused(&self, error: &MapError) {
        self.fault(KernelFault::MapRefused, || {
            format!("{error}; TCP_INFO counts for the backends concerned")
        });
    }

    fn fault(&self, fault: KernelFault, notice: impl FnOnce() -> String) {
        let known = &self.faults[fault as usize];
        known.count.fetch_add(1, Relaxed);
        if !known.is_told.swap(true, Relaxed) {
            self.notices.push(notice());
        }
        self.tcp_info.turn_on();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Address ===

impl Address {
    fn new(since: Duration) -> Self {
        Self { since, handshakes: VecDeque::with_capacity(SAMPLES), is_missed: false }
    }

    /// Whether a connection was established to `backend` of which the program knows nothing.
    fn has_missed(&self, samples: &RttSamples, backend: &Backend) -> bool {
        let seen = self.since.max(Duration::from_nanos(samples.last_at_ns));
        backend.rtt.recent().last_handshake().is_some_and(|handshake| handshake.at > seen + MISSED_AFTER)
    }

    fn estimate(&mut self, samples: &RttSamples, now: Duration) -> Option<Nanos> {
        let handshake = samples.handshake.exists().then(|| sample_of(samples.handshake));
        if let Some(new) = handshake.filter(|new| self.handshakes.front() != Some(new)) {
            self.handshakes.truncate(SAMPLES - 1);
            self.handshakes.push_front(new);
        }
        let mut all: Vec<RttSample> =
            samples.recent().map(sample_of).chain(self.handshakes.iter().copied()).collect();
        all.sort_unstable_by_key(|sample| std::cmp::Reverse(sample.at));
        estimate(all, handshake, now)
    }
}

/// A sample of the kernel's map.
fn sample_of(sample: kernel::RttSample) -> RttSample {
    RttSample { rtt: Nanos(sample.rtt_us.saturating_mul(1000)), at: Duration::from_nanos(sample.at_ns) }
}

#[cfg(test)]
mod tests;
