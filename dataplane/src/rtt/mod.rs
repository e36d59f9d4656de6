//! Round-trip times to backends, measured: by a kernel program where it may be attached, else by `TCP_INFO`
//! of this gateway's own sockets, and by health checks wherever these have nothing.
//!
//! Each source writes into the backend's own place ([`stargate_routing::BackendRtt`]), from which the best
//! that has measured counts. Which one measures is settled at start, told once, with the reason; a source
//! that is lost later costs no request anything. Nothing here runs on a core but two system calls of
//! `tcp_info`, and those only where it is in use.

mod clock;
mod estimate;
pub mod kernel;
mod monitor;
mod tcp_info;
mod tell;

use std::{
    fmt, io,
    path::PathBuf,
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use stargate_routing::{Backend, Nanos, RttSample, RttSource, Snapshot};

pub(crate) use self::tcp_info::TcpInfoSource;
use self::{clock::monotonic_time, kernel::KernelRtt, monitor::Monitor};
pub use self::{
    monitor::KernelFault,
    tcp_info::handshake_of,
    tell::{Severity, Tell},
};
use crate::settings::{KernelLog, RttChoice, RttSettings};

/// What the explicit choice of the kernel program needs.
const KERNEL_NEEDS: &str = "CAP_BPF and CAP_NET_ADMIN, Linux 5.8, and a mounted cgroup of version 2";

/// Why round-trip times cannot be measured as asked for.
#[derive(Debug, thiserror::Error)]
#[error("rtt.source = \"{}\": {reason}; rtt.source = \"auto\" takes what works", asked_for.as_str())]
pub struct RttError {
    asked_for: RttChoice,
    reason: String,
}

/// Why the service did not start.
#[derive(Debug)]
pub(crate) enum RttStartError {
    /// No source can be used.
    Source(RttError),
    /// Its thread cannot be started.
    Thread(io::Error),
}

/// The service, for the control plane; clones are the same one. Calls may block for system calls.
#[derive(Clone, Debug)]
pub struct Rtt(Arc<Inner>);

struct Inner {
    configured: RttChoice,
    source: RttSource,
    why: String,
    tcp_info: Arc<TcpInfoSource>,
    kernel: Option<Attached>,
}

/// The kernel program, where it is the source.
struct Attached {
    monitor: Arc<Monitor<KernelRtt>>,
    cgroup: PathBuf,
    program_id: u32,
}

/// How round-trip times are measured.
#[derive(Clone, Debug)]
pub struct RttStatus {
    /// What was asked for.
    pub configured: RttChoice,
    /// The source chosen at start.
    pub source: RttSource,
    /// Why that one.
    pub why: String,
    /// Whether `TCP_INFO` is read: as the source, or since the kernel program has failed for some backend.
    pub reads_tcp_info: bool,
    /// The kernel program, where it is the source.
    pub kernel: Option<KernelStatus>,
}

/// The kernel program at work.
#[derive(Clone, Debug)]
pub struct KernelStatus {
    /// The cgroup that it is attached to.
    pub attached_to: PathBuf,
    /// The kernel's number for it, as `bpftool prog show id` takes it.
    pub program_id: u32,
    /// Addresses that it measures.
    pub entries: usize,
    /// Addresses that there is room for.
    pub capacity: usize,
    /// How often each fault has happened.
    pub faults: [(KernelFault, u64); KernelFault::ALL.len()],
}

/// What a source has measured to one backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RttMeasurements {
    /// Round trips measured.
    pub samples: u64,
    /// Connections established, whose handshakes are among them.
    pub connects: u64,
    /// Time since the last.
    pub last_age: Option<Duration>,
    /// The last one.
    pub last: Option<Nanos>,
    /// The kernel's smoothed one (RFC 6298), of the connection that was measured last.
    pub smoothed: Option<Nanos>,
    /// The smallest.
    pub min: Option<Nanos>,
}

/// The service with its thread.
#[derive(Debug)]
pub(crate) struct RttService {
    rtt: Rtt,
    /// Dropping the sender ends the thread.
    thread: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

/// What measures, and why.
#[derive(Debug)]
struct Chosen<K> {
    source: RttSource,
    kernel: Option<K>,
    why: String,
    severity: Severity,
}

/// Takes the best that works, or what is asked for.
fn choose<K, A: fmt::Display, T: fmt::Display>(
    choice: RttChoice,
    attach: impl FnOnce() -> Result<K, A>,
    check_tcp_info: impl FnOnce() -> Result<(), T>,
) -> Result<Chosen<K>, RttError> {
    let chosen = |source, kernel, why: &str| {
        Ok(Chosen { source, kernel, why: why.to_owned(), severity: Severity::Info })
    };
    let fallen_back = |source, why| Ok(Chosen { source, kernel: None, why, severity: Severity::Warn });
    let refused = |reason| Err(RttError { asked_for: choice, reason });
    let asked = "rtt.source asks for it";
    match choice {
        RttChoice::Probe => chosen(RttSource::Probe, None, asked),
        RttChoice::TcpInfo => match check_tcp_info() {
            Ok(()) => chosen(RttSource::TcpInfo, None, asked),
            Err(error) => refused(format!("the kernel does not tell: {error}")),
        },
        RttChoice::Ebpf => match attach() {
            Ok(kernel) => chosen(RttSource::Ebpf, Some(kernel), asked),
            Err(error) => {
                refused(format!("the kernel program cannot be attached: {error}. It needs {KERNEL_NEEDS}"))
            }
        },
        RttChoice::Auto => {
            let no_kernel = match attach() {
                Ok(kernel) => return chosen(RttSource::Ebpf, Some(kernel), "the best that there is"),
                Err(error) => format!("the kernel program cannot be attached: {error}"),
            };
            match check_tcp_info() {
                Ok(()) => fallen_back(RttSource::TcpInfo, no_kernel),
                Err(error) => {
                    fallen_back(RttSource::Probe, format!("{no_kernel}; TCP_INFO cannot be read: {error}"))
                }
            }
        }
    }
}

// === impl RttService ===

impl RttService {
    /// Settles on a source and tells which.
    pub(crate) fn start(settings: RttSettings, mut tell: Tell) -> Result<Self, RttStartError> {
        let options = kernel::Options {
            log: match settings.kernel_log {
                KernelLog::Faults => kernel::LogLevel::Faults,
                KernelLog::Debug => kernel::LogLevel::Debug,
            },
            ..kernel::Options::default()
        };
        let chosen = choose(settings.source, || KernelRtt::attach(options), TcpInfoSource::check)
            .map_err(RttStartError::Source)?;
        let tcp_info = Arc::new(TcpInfoSource::default());
        if chosen.source == RttSource::TcpInfo {
            tcp_info.turn_on();
        }
        let how = match (&chosen.kernel, chosen.source) {
            (Some(kernel), _) => {
                format!("by the kernel program, attached to {}", kernel.attached_to().display())
            }
            (None, RttSource::TcpInfo) => "from TCP_INFO of this gateway's own connections".to_owned(),
            (None, _) => "from the connect times of health checks".to_owned(),
        };
        tell(
            chosen.severity,
            &format!(
                "round-trip times are measured {how} (source {}): {}",
                chosen.source.as_str(),
                chosen.why
            ),
        );
        let kernel = chosen.kernel.map(|kernel| Attached {
            cgroup: kernel.attached_to().to_owned(),
            program_id: kernel.program_id(),
            monitor: Arc::new(Monitor::new(kernel, tcp_info.clone())),
        });
        let thread = match &kernel {
            None => None,
            Some(Attached { monitor, .. }) => {
                let (monitor, (stop, stopped)) = (monitor.clone(), mpsc::channel());
                let thread = std::thread::Builder::new()
                    .name("stargate-rtt".to_owned())
                    .spawn(move || monitor.run(&stopped, &mut tell))
                    .map_err(RttStartError::Thread)?;
                Some((stop, thread))
            }
        };
        let Chosen { source, why, .. } = chosen;
        let rtt = Rtt(Arc::new(Inner { configured: settings.source, source, why, tcp_info, kernel }));
        Ok(Self { rtt, thread })
    }

    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    pub(crate) fn tcp_info(&self) -> Arc<TcpInfoSource> {
        self.rtt.0.tcp_info.clone()
    }

    /// Detaches the program, whoever still holds a handle. Blocks until that is done.
    #[expect(clippy::disallowed_methods, reason = "waits on the thread that stops the data plane")]
    pub(crate) fn stop(self) {
        if let Some((stop, thread)) = self.thread {
            drop(stop);
            let _ = thread.join();
        }
    }
}

// === impl Rtt ===

impl Rtt {
    /// Measures the backends of `snapshot` from now on. To be called before it is stored, and before anyone
    /// connects to a backend that is new in it: a connection is measured when its address was known as it was
    /// established.
    pub fn follow(&self, snapshot: &Snapshot) {
        if let Some(Attached { monitor, .. }) = &self.0.kernel {
            monitor.follow(snapshot);
        }
    }

    /// Takes the handshake of a connection that somebody else than a core has made to `backend`, as
    /// [`handshake_of`] tells: another sample where `TCP_INFO` is the source, and proof of a connection that
    /// the kernel program should have seen where that is.
    pub fn handshake(&self, backend: &Backend, handshake: RttSample) {
        self.0.tcp_info.handshake(backend, handshake);
    }

    /// How round-trip times are measured.
    pub fn status(&self) -> RttStatus {
        let inner = &*self.0;
        RttStatus {
            configured: inner.configured,
            source: inner.source,
            why: inner.why.clone(),
            reads_tcp_info: inner.tcp_info.is_on(),
            kernel: inner.kernel.as_ref().map(|attached| KernelStatus {
                attached_to: attached.cgroup.clone(),
                program_id: attached.program_id,
                entries: attached.monitor.followed().unwrap_or_default(),
                capacity: kernel::ENDPOINTS_MAX as usize,
                faults: KernelFault::ALL.map(|fault| (fault, attached.monitor.faults(fault))),
            }),
        }
    }

    /// What `source` has measured to `backend`; `None` where it has nothing. Of health checks only their
    /// count and their times are known here.
    pub fn measurements(&self, backend: &Backend, source: RttSource) -> Option<RttMeasurements> {
        let now = monotonic_time();
        match source {
            RttSource::Ebpf => {
                let samples = self.0.kernel.as_ref()?.monitor.samples(backend.address)?;
                let micros = |us: u32| (us > 0).then(|| Nanos(u64::from(us) * 1000));
                Some(RttMeasurements {
                    samples: samples.samples,
                    connects: samples.connects,
                    last_age: (samples.last_at_ns > 0)
                        .then(|| now.saturating_sub(Duration::from_nanos(samples.last_at_ns))),
                    last: micros(samples.last_us),
                    smoothed: micros(samples.smoothed_us),
                    min: micros(samples.min_us),
                })
            }
            RttSource::TcpInfo => {
                let recent = backend.rtt.recent();
                let last = recent.newest_first().next()?;
                Some(RttMeasurements {
                    samples: recent.taken(),
                    connects: recent.handshakes(),
                    last_age: Some(now.saturating_sub(last.at)),
                    last: Some(last.rtt),
                    smoothed: None,
                    min: None,
                })
            }
            RttSource::Probe => {
                let last = backend.rtt.recent().last_handshake()?;
                let handshakes = backend.rtt.recent().handshakes();
                Some(RttMeasurements {
                    samples: handshakes,
                    connects: handshakes,
                    last_age: Some(now.saturating_sub(last.at)),
                    ..RttMeasurements::default()
                })
            }
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Inner")
            .field("source", &self.source)
            .field("why", &self.why)
            .field("cgroup", &self.kernel.as_ref().map(|attached| &attached.cgroup))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is chosen where attaching and `TCP_INFO` work, or not.
    fn chosen(
        choice: RttChoice,
        attaches: bool,
        tells: bool,
    ) -> Result<(RttSource, Severity, String), String> {
        let attach = || if attaches { Ok(()) } else { Err("this process lacks CAP_BPF") };
        let check = || if tells { Ok(()) } else { Err("no such option") };
        let chosen = choose(choice, attach, check).map_err(|error| error.to_string())?;
        assert_eq!(chosen.kernel.is_some(), chosen.source == RttSource::Ebpf);
        Ok((chosen.source, chosen.severity, chosen.why))
    }

    #[test]
    fn auto_takes_the_best_that_works_and_warns_where_that_is_not_the_program() {
        let auto = |attaches, tells| chosen(RttChoice::Auto, attaches, tells).unwrap();
        let (source, severity, _) = auto(true, true);
        assert_eq!((source, severity), (RttSource::Ebpf, Severity::Info));
        let (source, severity, why) = auto(false, true);
        assert_eq!((source, severity), (RttSource::TcpInfo, Severity::Warn));
        assert!(why.contains("lacks CAP_BPF"), "{why}");
        let (source, severity, why) = auto(false, false);
        assert_eq!((source, severity), (RttSource::Probe, Severity::Warn));
        assert!(why.contains("lacks CAP_BPF") && why.contains("TCP_INFO"), "{why}");
    }

    #[test]
    fn what_is_asked_for_is_taken_or_refused_with_what_to_do() {
        for (choice, source) in [
            (RttChoice::Ebpf, RttSource::Ebpf),
            (RttChoice::TcpInfo, RttSource::TcpInfo),
            (RttChoice::Probe, RttSource::Probe),
        ] {
            let (found, severity, _) = chosen(choice, true, true).unwrap();
            assert_eq!((found, severity), (source, Severity::Info));
        }
        let error = chosen(RttChoice::Ebpf, false, true).unwrap_err();
        for part in ["rtt.source = \"ebpf\"", "lacks CAP_BPF", KERNEL_NEEDS, "\"auto\""] {
            assert!(error.contains(part), "{part} is not in: {error}");
        }
        assert!(chosen(RttChoice::TcpInfo, true, false).unwrap_err().contains("\"tcp-info\""));
        assert!(chosen(RttChoice::Probe, false, false).is_ok());
    }
}
