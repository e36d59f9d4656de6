//! All groups of families, and what those that show a state are read off at each scrape.

use stargate_dataplane::{CoreLevels, rtt::RttStatus};
use stargate_routing::Snapshot;

use super::{
    attempts::Attempts, backends::Backends, cores::Cores, families::Families, losses::Losses,
    rankings::Rankings, requests::Requests, reservations::Reservations, snapshots::Snapshots,
};
use crate::registry::Registry;

/// All groups.
pub(crate) struct Metrics {
    pub(crate) requests: Requests,
    pub(crate) attempts: Attempts,
    pub(crate) backends: Backends,
    pub(crate) rankings: Rankings,
    pub(crate) snapshots: Snapshots,
    pub(crate) losses: Losses,
    cores: Cores,
    reservations: Reservations,
}

/// What is read off at a scrape.
pub(crate) struct Gauges<'a> {
    /// Registrations.
    pub(crate) registry: &'a Registry,
    /// The current snapshot.
    pub(crate) snapshot: &'a Snapshot,
    /// Levels of every core; empty while there is no data plane.
    pub(crate) levels: &'a [CoreLevels],
    /// How round-trip times are measured.
    pub(crate) rtt: Option<RttStatus>,
    /// Version of the routing configuration.
    pub(crate) routing_version: u64,
    /// Lines that the log has dropped.
    pub(crate) log_lines_dropped: u64,
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn register(families: &mut Families) -> Self {
        Self {
            requests: Requests::register(families),
            attempts: Attempts::register(families),
            backends: Backends::register(families),
            rankings: Rankings::register(families),
            snapshots: Snapshots::register(families),
            losses: Losses::register(families),
            cores: Cores::register(families),
            reservations: Reservations::register(families),
        }
    }

    /// Follows the state that there is now.
    pub(crate) fn set(&self, gauges: &Gauges<'_>) {
        self.backends.set(gauges.registry, gauges.snapshot, gauges.rtt.as_ref());
        self.rankings.set(gauges.snapshot);
        self.snapshots.set(gauges.snapshot, gauges.routing_version);
        self.losses.set(gauges.log_lines_dropped);
        // Nothing is known of cores before there are any.
        if !gauges.levels.is_empty() {
            self.cores.set(gauges.levels);
            self.reservations.set(gauges.levels);
        }
    }
}
