//! The configuration: one TOML file, overridden by environment variables, `--set` and flags.
//!
//! Every value is typed and checked against its range as it is read, so that a [`Config`] which exists can be
//! used, but for what spans several keys ([`Config::validate`]). An error names the place that it came from,
//! the key, what was found and what is allowed.

mod backends;
mod control_plane;
mod data_plane;
mod error;
mod layers;
mod routing;
mod sections;
mod server;
mod violation;
mod warnings;

pub use backends::StaticBackend;
pub use control_plane::{
    Health, LEASE_MS_MAX, LEASE_MS_MIN, Log, LogFormat, LogLevel, Metrics, MetricsPrefix, Registration,
};
pub use data_plane::{
    HeaderMode, Headers, KernelLog, Limits, MaxConnections, Pool, Reservations, Retry, Rtt, RttSource,
    Timeouts,
};
pub use error::{ConfigError, Origin};
pub use layers::{Layers, Override};
pub use routing::{Document, Entry, MethodView, Methods, Policies, Routing};
pub use sections::Config;
pub use server::{Address, Addresses, Admin, Cores, Driver, Server};
pub use violation::Violation;

#[cfg(test)]
mod documentation;
#[cfg(test)]
mod tests;
