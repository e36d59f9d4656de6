//! The whole configuration, section by section: what it demands across several keys, and what the data plane takes of it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use stargate_dataplane as dataplane;

use super::{
    backends::{self, StaticBackend},
    control_plane::{Health, Log, Metrics, Registration},
    data_plane::{Headers, Limits, Pool, Reservations, Retry, Rtt, Timeouts},
    routing::Routing,
    server::{Address, Admin, Driver, Server},
    violation::Violation,
};
use crate::names::ModelName;

/// The whole configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where the data plane listens and what it runs on.
    pub server: Server,
    /// Where the control plane listens.
    pub admin: Admin,
    /// Bounds on what clients may take.
    pub limits: Limits,
    /// How long each phase may last.
    pub timeouts: Timeouts,
    /// What is read from requests and added to responses.
    pub headers: Headers,
    /// Connections kept open to backends.
    pub pool: Pool,
    /// When a failed attempt is followed by another.
    pub retry: Retry,
    /// How long work just sent is added to what a cluster reports.
    pub reservations: Reservations,
    /// How round-trip times to backends are measured.
    pub rtt: Rtt,
    /// Active checks of backends.
    pub health: Health,
    /// What backends that register themselves may take.
    pub registration: Registration,
    /// What is written to stderr.
    pub log: Log,
    /// Metric names.
    pub metrics: Metrics,
    /// How a cluster is chosen.
    pub routing: Routing,
    /// The static backends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<StaticBackend>,
}

// === impl Config ===

impl Config {
    /// The first rule across several keys that is broken, if any.
    pub fn validate(&self) -> Result<(), Violation> {
        if !self.admin.allow_remote && !self.admin.listen.0.ip().is_loopback() {
            return Err(Violation {
                key: "admin.listen".into(),
                found: self.admin.listen.0.to_string(),
                allowed: "a loopback address, since nothing authenticates callers of the admin API; \
                          admin.allow_remote = true allows others"
                    .into(),
            });
        }
        let is_shared = |address: &&Address| address.0 == self.admin.listen.0 && address.0.port() != 0;
        if let Some(address) = self.server.listen.0.iter().find(is_shared) {
            return Err(Violation {
                key: "admin.listen".into(),
                found: format!("{}, as in server.listen", address.0),
                allowed: "an address of its own".into(),
            });
        }
        if self.backends.len() as u64 > self.registration.max_backends.get() {
            return Err(Violation {
                key: "backends".into(),
                found: format!("{} backends", self.backends.len()),
                allowed: format!(
                    "{} at most (registration.max_backends)",
                    self.registration.max_backends.get()
                ),
            });
        }
        backends::validate(&self.backends, self.registration.max_models_per_backend.count())?;
        self.routing
            .read()
            .map_err(|violation| Violation { key: format!("routing.{}", violation.key), ..violation })?;
        // The CPUs that may be used are a fact of the host, checked at start.
        self.settings(Vec::new()).validate().map_err(Violation::from)
    }

    /// The data plane's settings, to run on `cpus` (empty: every CPU that the process may use).
    pub fn settings(&self, cpus: Vec<usize>) -> dataplane::Settings {
        dataplane::Settings {
            listen: self.server.listen.socket_addresses(),
            cores: cpus,
            driver: match self.server.driver {
                Driver::IoUring => dataplane::Driver::IoUring,
                Driver::Epoll => dataplane::Driver::Epoll,
            },
            limits: self.limits.settings(),
            timeouts: self.timeouts.settings(),
            headers: self.headers.settings(),
            pool: self.pool.settings(),
            retry: self.retry.settings(),
            reservations: self.reservations.settings(),
            rtt: self.rtt.settings(),
        }
    }

    fn routing_summary(&self) -> String {
        match self.routing.read() {
            Ok(document) if document.models.is_empty() => {
                document.default.method.algorithm.kind().as_str().into()
            }
            Ok(document) => format!(
                "{} and {} models' own",
                document.default.method.algorithm.kind().as_str(),
                document.models.len()
            ),
            Err(_) => "invalid".into(),
        }
    }

    /// One line for `check-config`.
    pub fn summary(&self) -> String {
        let listen: Vec<String> = self.server.listen.0.iter().map(|address| address.0.to_string()).collect();
        let models: BTreeSet<&str> =
            self.backends.iter().flat_map(|backend| &backend.models).map(ModelName::as_str).collect();
        format!(
            "data plane on {} ({}, cores {}), admin on {}, {} static backends with {} models, routing {}",
            listen.join(", "),
            self.server.driver.as_str(),
            self.server.cores,
            self.admin.listen.0,
            self.backends.len(),
            models.len(),
            self.routing_summary(),
        )
    }
}
