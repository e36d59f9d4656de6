//! Who is registered, with which lease, in which health, with which stats.
//!
//! Plain state without a clock, a lock or I/O: every operation gets `now`, applies whole or not at all, and
//! counts up the revision when routing may have to change. It knows nothing of snapshots.

mod attempts;
mod bounded_map;
mod error;
mod identity;
mod registration;
mod registrations;
mod report_interval;
mod request;
mod routed_rtt;
mod stats;

pub use attempts::Attempts;
pub use error::RegistryError;
pub use identity::Identity;
pub use registration::{Lease, Model, Registration};
pub use registrations::{Registered, Registry};
pub use report_interval::ReportInterval;
pub use request::{ModelRequest, ModelStatus, RegisterRequest, StatsRequest};
pub use routed_rtt::RoutedRtt;
pub use stats::{Labels, ModelStats, QueueTimeEstimates, Rate, Reporting, Requests, TokenCount, UnixMillis};
