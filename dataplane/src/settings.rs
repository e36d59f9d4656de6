//! Everything about the data plane that an operator can set, with its defaults and their reasons.
//!
//! Plain values: where they come from (file, flags, environment) is the control plane's business. They are
//! valid when [`Settings::validate`] says so.

use std::{net::SocketAddr, time::Duration};

/// Settings of the whole data plane.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where clients connect; every core listens on each. Port 0 takes a free one, the same on all cores.
    pub listen: Vec<SocketAddr>,
    /// CPU numbers to run on, one pinned thread each. Empty: every CPU that the process may use.
    pub cores: Vec<usize>,
    /// Which kernel interface does the I/O.
    pub driver: Driver,
    /// Bounds on what one client, and all of them, may take.
    pub limits: Limits,
    /// How long each phase may last.
    pub timeouts: Timeouts,
    /// What is read from request headers and what is added to responses.
    pub headers: HeaderPolicy,
    /// Connections kept open to backends.
    pub pool: Pool,
    /// When a failed attempt is followed by another.
    pub retry: Retry,
    /// How long reservations live.
    pub reservations: Reservations,
    /// How round-trip times to backends are measured.
    pub rtt: RttSettings,
}

/// Which kernel interface does the I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// `io_uring`; starting fails, with the reason, where the kernel has none.
    #[default]
    IoUring,
    /// epoll: for kernels and sandboxes without `io_uring`.
    Epoll,
}

/// Bounds on what one client, and all of them, may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Client connections over all cores. At the limit no more are accepted until one closes.
    pub max_connections: usize,
    /// Bytes of a request's or response's head; above it 431 (or 502 for a response). 4096..=1048576.
    pub max_head_bytes: usize,
    /// Headers of one head; above it 431 (or 502). 16..=256.
    pub max_headers: usize,
    /// Bytes of one request body; above it 413. Bodies are held for replay until the engine answers.
    pub max_body_bytes: u64,
    /// Bytes of all request bodies held at once, over all cores; above it 503 `no_capacity`.
    pub max_replay_bytes: u64,
    /// Requests served on one client connection before it is closed; 0 is unlimited.
    pub max_requests_per_connection: u64,
}

/// How long each phase may last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request's head to its last; 408.
    pub header: Duration,
    /// An idle client connection is kept this long.
    pub keep_alive: Duration,
    /// Between two reads of a request body; 408.
    pub body_idle: Duration,
    /// TCP connect to a backend; the attempt fails and may move on.
    pub connect: Duration,
    /// From the request sent to the response's head; 504. It is no proof that the engine did not start.
    pub first_byte: Duration,
    /// Between two reads of a response body; the response is cut.
    pub stream_idle: Duration,
    /// A write that makes no progress, to a client or a backend.
    pub write: Duration,
    /// How long open requests may go on after a shutdown was asked for.
    pub shutdown_grace: Duration,
}

/// What is read from request headers and what is added to responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderPolicy {
    /// Derivation from the body is off: `x-model`, `x-request-id` and `x-input-tokens` are required.
    pub strict: bool,
    /// Callers may set Stargate's request headers. Otherwise they are ignored and stripped.
    pub trusted: bool,
    /// Add `x-request-id` to responses.
    pub response_request_id: bool,
    /// Add `x-inference-server-id` to responses.
    pub response_server_id: bool,
    /// Add `x-stargate-cluster-id` to responses.
    pub response_cluster_id: bool,
}

/// Connections kept open to backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Idle connections kept per backend on each core.
    pub max_idle_per_backend: usize,
    /// An idle connection is closed after this long. It must be below the engine's own keep-alive time
    /// (uvicorn, so vLLM and SGLang: 5 s), or requests race with the engine's close.
    pub idle_timeout: Duration,
}

/// When a failed attempt is followed by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// More attempts after a failed connect.
    pub max_connect_retries: u32,
    /// More attempts after a rejection that proves that nothing was executed.
    pub max_rejection_retries: u32,
    /// Retries as a share of requests, in percent, per core.
    pub budget_percent: u32,
    /// Retries allowed per second on each core whatever the share.
    pub budget_min_per_second: u32,
    /// A reused connection that closes before any response byte is retried only when nothing of the body
    /// had been written; with this set, also when it had been: safe only for engines that never run a
    /// request whose connection they close unanswered.
    pub retry_on_stale_connection: bool,
}

/// How long a reservation lives whose end no report tells: one round trip to its backend, within these
/// bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservations {
    /// The least, and the time where no round trip was measured.
    pub ttl_min: Duration,
    /// The most.
    pub ttl_max: Duration,
}

/// How round-trip times to backends are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RttSettings {
    /// By whom.
    pub source: RttChoice,
    /// What the kernel program logs.
    pub kernel_log: KernelLog,
}

/// Who is to measure round-trip times. Health checks always do, too: what they find counts where the source
/// has nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RttChoice {
    /// The best that works here.
    #[default]
    Auto,
    /// The kernel program; starting fails, with the reason, where it cannot be attached.
    Ebpf,
    /// `TCP_INFO` of this gateway's own sockets.
    TcpInfo,
    /// Health checks alone.
    Probe,
}

/// What the kernel program logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelLog {
    /// What should not happen.
    #[default]
    Faults,
    /// Each connection and sample, too: about a microsecond of the CPU each.
    Debug,
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {found} is not allowed, {allowed}")]
pub struct SettingsError {
    /// Path of the setting, such as `limits.max_headers`.
    pub setting: &'static str,
    /// The value found.
    pub found: String,
    /// What would be allowed.
    pub allowed: &'static str,
}

/// Descriptors kept for everything that is not a proxied connection: listeners, rings, the control plane.
const RESERVED_DESCRIPTORS: u64 = 200;

const MIB: u64 = 1024 * 1024;

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 8080))],
            cores: Vec::new(),
            driver: Driver::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            headers: HeaderPolicy::default(),
            pool: Pool::default(),
            retry: Retry::default(),
            reservations: Reservations::default(),
            rtt: RttSettings::default(),
        }
    }
}

impl Settings {
    /// The first setting that cannot be used, if any.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let check = |ok: bool, setting, found: String, allowed| {
            if ok { Ok(()) } else { Err(SettingsError { setting, found, allowed }) }
        };
        let limits = &self.limits;
        check(!self.listen.is_empty(), "listen", "an empty list".into(), "one address at least is needed")?;
        check(
            limits.max_connections > 0,
            "limits.max_connections",
            limits.max_connections.to_string(),
            "1 at least",
        )?;
        check(
            (4096..=1 << 20).contains(&limits.max_head_bytes),
            "limits.max_head_bytes",
            limits.max_head_bytes.to_string(),
            "4096 to 1048576",
        )?;
        check(
            (16..=256).contains(&limits.max_headers),
            "limits.max_headers",
            limits.max_headers.to_string(),
            "16 to 256",
        )?;
        check(
            limits.max_body_bytes <= limits.max_replay_bytes,
            "limits.max_body_bytes",
            limits.max_body_bytes.to_string(),
            "at most limits.max_replay_bytes",
        )?;
        check(
            self.headers.trusted || !self.headers.strict,
            "headers.trusted",
            "false".into(),
            "true where headers.mode is strict, which reads callers' headers",
        )?;
        let timeouts = &self.timeouts;
        for (setting, value) in [
            ("timeouts.header", timeouts.header),
            ("timeouts.keep_alive", timeouts.keep_alive),
            ("timeouts.body_idle", timeouts.body_idle),
            ("timeouts.connect", timeouts.connect),
            ("timeouts.first_byte", timeouts.first_byte),
            ("timeouts.stream_idle", timeouts.stream_idle),
            ("timeouts.write", timeouts.write),
            ("pool.idle_timeout", self.pool.idle_timeout),
        ] {
            check(!value.is_zero(), setting, format!("{value:?}"), "longer than 0")?;
        }
        let Reservations { ttl_min, ttl_max } = self.reservations;
        check(
            ttl_min <= ttl_max,
            "reservations.ttl_min",
            format!("{ttl_min:?}"),
            "at most reservations.ttl_max",
        )?;
        check(
            self.retry.max_connect_retries + self.retry.max_rejection_retries
                < stargate_routing::Exclusions::CAPACITY as u32,
            "retry",
            format!(
                "{} connect and {} rejection retries",
                self.retry.max_connect_retries, self.retry.max_rejection_retries
            ),
            "7 together at most",
        )
    }
}

impl RttChoice {
    /// As it is written in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ebpf => "ebpf",
            Self::TcpInfo => "tcp-info",
            Self::Probe => "probe",
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: connections_within_descriptor_limit(),
            max_head_bytes: 64 * 1024,
            max_headers: 100,
            max_body_bytes: 64 * MIB,
            max_replay_bytes: 1024 * MIB,
            max_requests_per_connection: 0,
        }
    }
}

/// A proxied connection takes two descriptors, one on each side.
fn connections_within_descriptor_limit() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let descriptors = limit.maximum.unwrap_or(1 << 20);
    usize::try_from(descriptors.saturating_sub(RESERVED_DESCRIPTORS) / 2).unwrap_or(usize::MAX).max(16)
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(10),
            keep_alive: Duration::from_secs(75),
            body_idle: Duration::from_secs(30),
            connect: Duration::from_secs(2),
            first_byte: Duration::from_secs(600),
            stream_idle: Duration::from_secs(120),
            write: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(30),
        }
    }
}

impl Default for HeaderPolicy {
    fn default() -> Self {
        Self {
            strict: false,
            trusted: true,
            response_request_id: true,
            response_server_id: true,
            response_cluster_id: true,
        }
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self { max_idle_per_backend: 1024, idle_timeout: Duration::from_secs(4) }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_connect_retries: 2,
            max_rejection_retries: 2,
            budget_percent: 20,
            budget_min_per_second: 3,
            retry_on_stale_connection: false,
        }
    }
}

impl Default for Reservations {
    fn default() -> Self {
        let (ttl_min, ttl_max) = stargate_routing::CoreLoads::TTL.into_inner();
        Self { ttl_min, ttl_max }
    }
}
