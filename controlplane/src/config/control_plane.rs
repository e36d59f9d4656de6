//! `[health]`, `[registration]`, `[log]`, `[metrics]`: the control plane's own settings.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{
    health_path::HealthPath,
    ranged::{Interval, Whole},
};

/// Shortest lease that is granted: below it a busy backend could not renew in time.
pub const LEASE_MS_MIN: u64 = 100;
/// Longest lease that is granted: one day.
pub const LEASE_MS_MAX: u64 = 86_400_000;

/// `[health]`: active checks of backends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Health {
    /// Between two checks of one backend.
    pub interval_ms: Interval,
    /// How long one check may take, from look-up to answer.
    pub timeout_ms: Interval,
    /// Failed checks in a row that take a backend out.
    pub unhealthy_after: Whole<1, 1000>,
    /// Good checks in a row that bring it back.
    pub healthy_after: Whole<1, 1000>,
    /// What is asked for.
    pub path: HealthPath,
}

/// `[registration]`: what backends that register themselves may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Registration {
    /// Lease of a registration that names none.
    pub lease_ms: Whole<LEASE_MS_MIN, LEASE_MS_MAX>,
    /// Backends, static ones included.
    pub max_backends: Whole<1, 65_536>,
    /// Models of one backend.
    pub max_models_per_backend: Whole<1, 1024>,
    /// Bytes of one request to the REST API.
    pub max_body_bytes: Whole<1024, 67_108_864>,
}

/// `[log]`: what is written to stderr.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// The least severe level that is written.
    pub level: LogLevel,
    /// How a line looks.
    pub format: LogFormat,
}

/// Severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "named as everywhere")]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// `[metrics]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// What every name begins with.
    pub prefix: MetricsPrefix,
}

/// The beginning of a metric name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct MetricsPrefix(Arc<str>);

// === impl Health ===

impl Default for Health {
    fn default() -> Self {
        Self {
            interval_ms: Whole::new(1000),
            timeout_ms: Whole::new(1000),
            // One lost check is no proof: a busy engine's event loop stalls for a second at times.
            unhealthy_after: Whole::new(2),
            healthy_after: Whole::new(1),
            path: HealthPath::default(),
        }
    }
}

// === impl Registration ===

impl Default for Registration {
    fn default() -> Self {
        Self {
            // Three heartbeats of 5 s, the slowest that the field's agents send.
            lease_ms: Whole::new(15_000),
            max_backends: Whole::new(4096),
            max_models_per_backend: Whole::new(64),
            max_body_bytes: Whole::new(1_048_576),
        }
    }
}

// === impl MetricsPrefix ===

impl MetricsPrefix {
    /// The prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_valid(text: &str) -> bool {
        text.len() <= 64
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !text.starts_with(|first: char| first.is_ascii_digit())
    }
}

impl Default for MetricsPrefix {
    fn default() -> Self {
        Self("stargate_".into())
    }
}

impl<'de> Deserialize<'de> for MetricsPrefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = MetricsPrefix;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("up to 64 characters out of A-Z a-z 0-9 _, not beginning with a digit")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<MetricsPrefix, E> {
                if MetricsPrefix::is_valid(text) {
                    Ok(MetricsPrefix(text.into()))
                } else {
                    Err(E::invalid_value(de::Unexpected::Str(text), &self))
                }
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}
