//! Routing decisions: which cluster answers a request, and which of its backends.
//!
//! Everything here is a pure function of (snapshot, load, request, now, rng). It knows no I/O, no clock,
//! no thread and no configuration file, so that the proxy, the simulator under a virtual clock and the
//! property tests run one and the same code.

// Unit tests run on ordinary threads, which may wait for each other.
#![cfg_attr(test, allow(clippy::disallowed_types, clippy::disallowed_methods))]

mod algorithm;
mod backend;
mod comparator;
mod decide;
mod decision;
mod eligible;
#[cfg(test)]
mod fleet;
mod load;
mod power_of_n;
mod pulsar;
mod random;
mod request;
mod round_robin;
mod sample;
mod snapshot;
mod stats;
mod units;

pub use algorithm::{Algorithm, Comparator, PulsarParameters, RendezvousWeight, SampleCount};
pub use decide::decide;
pub use decision::{Decision, Selected, UnavailableReason};
pub use load::{ClusterLoad, Running};
pub use request::{Exclusions, RoutingRequest};
pub use round_robin::RoundRobinCursor;
pub use snapshot::{Backend, BackendUid, Cluster, ClusterIndex, ClusterUid, Snapshot, Target, TargetName};
pub use stats::{ClusterStats, EffectiveStats};
pub use units::{Millis, Nanos, Seconds, Tokens, TokensPerSecond};
