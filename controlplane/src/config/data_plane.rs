//! `[limits]`, `[timeouts]`, `[headers]`, `[pool]`, `[retry]`, `[reservations]`, `[rtt]`: what the data plane takes as
//! its settings.
//! The defaults and their reasons are the data plane's own; here are the ranges.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use stargate_dataplane as dataplane;

use crate::ranged::{Interval, Whole};

/// Bytes from none to 1 TiB: more than any host of today has memory for.
type Bytes = Whole<0, 1_099_511_627_776>;

/// `[limits]`: bounds on what one client, and all of them, may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Client connections over all cores.
    pub max_connections: MaxConnections,
    /// Bytes of a request's or response's head.
    pub max_head_bytes: Whole<4096, 1_048_576>,
    /// Headers of one head.
    pub max_headers: Whole<16, 256>,
    /// Bytes of one request body.
    pub max_body_bytes: Bytes,
    /// Bytes of all request bodies held at once.
    pub max_replay_bytes: Bytes,
    /// Requests served on one client connection; 0 is unlimited.
    pub max_requests_per_connection: Whole<0, 1_000_000_000>,
}

/// A number of client connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxConnections {
    /// As many as the descriptor limit of the process allows.
    Auto,
    /// This many.
    Count(Whole<1, 10_000_000>),
}

/// `[timeouts]`: how long each phase may last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// From the first byte of a request's head to its last.
    pub header_ms: Interval,
    /// An idle client connection.
    pub keep_alive_ms: Interval,
    /// Between two reads of a request body.
    pub body_idle_ms: Interval,
    /// TCP connect to a backend.
    pub connect_ms: Interval,
    /// From the request sent to the response's head.
    pub first_byte_ms: Interval,
    /// Between two reads of a response body.
    pub stream_idle_ms: Interval,
    /// A write without progress.
    pub write_ms: Interval,
    /// How long open requests may go on after a shutdown was asked for; 0 cuts them at once.
    pub shutdown_grace_ms: Whole<0, 86_400_000>,
}

/// `[headers]`: what is read from requests and added to responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each a key of the file")]
pub struct Headers {
    /// Whether what a header leaves out is derived from the body.
    pub mode: HeaderMode,
    /// Whether callers may set Stargate's request headers.
    pub trusted: bool,
    /// Add `x-request-id`.
    pub response_request_id: bool,
    /// Add `x-inference-server-id`.
    pub response_server_id: bool,
    /// Add `x-stargate-cluster-id`.
    pub response_cluster_id: bool,
}

/// Whether what a header leaves out is derived from the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeaderMode {
    /// It is.
    Derive,
    /// It is not: `x-model`, `x-request-id` and `x-input-tokens` are required.
    Strict,
}

/// `[pool]`: connections kept open to backends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pool {
    /// Idle connections kept per backend on each core; 0 keeps none.
    pub max_idle_per_backend: Whole<0, 1_000_000>,
    /// An idle connection is closed after this long.
    pub idle_timeout_ms: Interval,
}

/// `[retry]`: when a failed attempt is followed by another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// More attempts after a failed connect.
    pub max_connect_retries: Whole<0, 7>,
    /// More attempts after a rejection before execution.
    pub max_rejection_retries: Whole<0, 7>,
    /// Retries as a share of requests, in percent.
    pub budget_percent: Whole<0, 100>,
    /// Retries allowed per second and core whatever the share.
    pub budget_min_per_second: Whole<0, 1_000_000>,
    /// Also retry on a reused connection that broke after the body was written.
    pub retry_on_stale_connection: bool,
}

/// `[reservations]`: how long work just sent to a cluster is added to what the cluster reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reservations {
    /// The least.
    pub ttl_min_ms: ReservationMillis,
    /// The most.
    pub ttl_max_ms: ReservationMillis,
}

/// Milliseconds from 1 to a minute: beyond any round trip.
type ReservationMillis = Whole<1, 60_000>;

/// `[rtt]`: how round-trip times to backends are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rtt {
    /// By whom.
    pub source: RttSource,
    /// What the kernel program logs.
    pub kernel_log: KernelLog,
}

/// Who measures round-trip times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RttSource {
    /// The best that works here.
    #[default]
    Auto,
    /// The kernel program.
    Ebpf,
    /// `TCP_INFO` of the gateway's own sockets.
    // As metrics and the API call it.
    #[serde(alias = "tcp_info")]
    TcpInfo,
    /// Health checks.
    Probe,
}

/// What the kernel program logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelLog {
    /// What should not happen.
    #[default]
    Faults,
    /// Each connection and sample, too.
    Debug,
}

fn millis<const MIN: u64, const MAX: u64>(duration: Duration) -> Whole<MIN, MAX> {
    Whole::new(duration.as_millis() as u64)
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        let limits = dataplane::Limits::default();
        Self {
            max_connections: MaxConnections::Auto,
            max_head_bytes: Whole::new(limits.max_head_bytes as u64),
            max_headers: Whole::new(limits.max_headers as u64),
            max_body_bytes: Whole::new(limits.max_body_bytes),
            max_replay_bytes: Whole::new(limits.max_replay_bytes),
            max_requests_per_connection: Whole::new(limits.max_requests_per_connection),
        }
    }
}

impl Limits {
    /// As the data plane takes them.
    pub fn settings(&self) -> dataplane::Limits {
        dataplane::Limits {
            max_connections: match self.max_connections {
                MaxConnections::Auto => dataplane::Limits::default().max_connections,
                MaxConnections::Count(count) => count.count(),
            },
            max_head_bytes: self.max_head_bytes.count(),
            max_headers: self.max_headers.count(),
            max_body_bytes: self.max_body_bytes.get(),
            max_replay_bytes: self.max_replay_bytes.get(),
            max_requests_per_connection: self.max_requests_per_connection.get(),
        }
    }
}

// === impl MaxConnections ===

impl Serialize for MaxConnections {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Count(count) => count.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for MaxConnections {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = MaxConnections;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\" or an integer from 1 to 10000000")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<MaxConnections, E> {
                match text {
                    "auto" => Ok(MaxConnections::Auto),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<MaxConnections, E> {
                Whole::deserialize(de::value::I64Deserializer::<E>::new(value))
                    .map(MaxConnections::Count)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

// === impl Timeouts ===

impl Default for Timeouts {
    fn default() -> Self {
        let timeouts = dataplane::Timeouts::default();
        Self {
            header_ms: millis(timeouts.header),
            keep_alive_ms: millis(timeouts.keep_alive),
            body_idle_ms: millis(timeouts.body_idle),
            connect_ms: millis(timeouts.connect),
            first_byte_ms: millis(timeouts.first_byte),
            stream_idle_ms: millis(timeouts.stream_idle),
            write_ms: millis(timeouts.write),
            shutdown_grace_ms: millis(timeouts.shutdown_grace),
        }
    }
}

impl Timeouts {
    /// As the data plane takes them.
    pub fn settings(&self) -> dataplane::Timeouts {
        dataplane::Timeouts {
            header: self.header_ms.millis(),
            keep_alive: self.keep_alive_ms.millis(),
            body_idle: self.body_idle_ms.millis(),
            connect: self.connect_ms.millis(),
            first_byte: self.first_byte_ms.millis(),
            stream_idle: self.stream_idle_ms.millis(),
            write: self.write_ms.millis(),
            shutdown_grace: self.shutdown_grace_ms.millis(),
        }
    }
}

// === impl Headers ===

impl Default for Headers {
    fn default() -> Self {
        let policy = dataplane::HeaderPolicy::default();
        Self {
            mode: if policy.strict { HeaderMode::Strict } else { HeaderMode::Derive },
            trusted: policy.trusted,
            response_request_id: policy.response_request_id,
            response_server_id: policy.response_server_id,
            response_cluster_id: policy.response_cluster_id,
        }
    }
}

impl Headers {
    /// As the data plane takes them.
    pub fn settings(&self) -> dataplane::HeaderPolicy {
        dataplane::HeaderPolicy {
            strict: self.mode == HeaderMode::Strict,
            trusted: self.trusted,
            response_request_id: self.response_request_id,
            response_server_id: self.response_server_id,
            response_cluster_id: self.response_cluster_id,
        }
    }
}

// === impl Pool ===

impl Default for Pool {
    fn default() -> Self {
        let pool = dataplane::Pool::default();
        Self {
            max_idle_per_backend: Whole::new(pool.max_idle_per_backend as u64),
            idle_timeout_ms: millis(pool.idle_timeout),
        }
    }
}

impl Pool {
    /// As the data plane takes it.
    pub fn settings(&self) -> dataplane::Pool {
        dataplane::Pool {
            max_idle_per_backend: self.max_idle_per_backend.count(),
            idle_timeout: self.idle_timeout_ms.millis(),
        }
    }
}

// === impl Retry ===

impl Default for Retry {
    fn default() -> Self {
        let retry = dataplane::Retry::default();
        Self {
            max_connect_retries: Whole::new(retry.max_connect_retries.into()),
            max_rejection_retries: Whole::new(retry.max_rejection_retries.into()),
            budget_percent: Whole::new(retry.budget_percent.into()),
            budget_min_per_second: Whole::new(retry.budget_min_per_second.into()),
            retry_on_stale_connection: retry.retry_on_stale_connection,
        }
    }
}

impl Retry {
    /// As the data plane takes it.
    pub fn settings(&self) -> dataplane::Retry {
        dataplane::Retry {
            max_connect_retries: self.max_connect_retries.get() as u32,
            max_rejection_retries: self.max_rejection_retries.get() as u32,
            budget_percent: self.budget_percent.get() as u32,
            budget_min_per_second: self.budget_min_per_second.get() as u32,
            retry_on_stale_connection: self.retry_on_stale_connection,
        }
    }
}

// === impl Reservations ===

impl Default for Reservations {
    fn default() -> Self {
        let reservations = dataplane::Reservations::default();
        Self { ttl_min_ms: millis(reservations.ttl_min), ttl_max_ms: millis(reservations.ttl_max) }
    }
}

impl Reservations {
    /// As the data plane takes it.
    pub fn settings(&self) -> dataplane::Reservations {
        dataplane::Reservations { ttl_min: self.ttl_min_ms.millis(), ttl_max: self.ttl_max_ms.millis() }
    }
}

// === impl Rtt ===

impl Rtt {
    /// As the data plane takes it.
    pub fn settings(self) -> dataplane::RttSettings {
        dataplane::RttSettings {
            source: match self.source {
                RttSource::Auto => dataplane::RttChoice::Auto,
                RttSource::Ebpf => dataplane::RttChoice::Ebpf,
                RttSource::TcpInfo => dataplane::RttChoice::TcpInfo,
                RttSource::Probe => dataplane::RttChoice::Probe,
            },
            kernel_log: match self.kernel_log {
                KernelLog::Faults => dataplane::KernelLog::Faults,
                KernelLog::Debug => dataplane::KernelLog::Debug,
            },
        }
    }
}
