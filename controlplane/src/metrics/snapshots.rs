//! What is in force: the snapshot, and the routing configuration in it.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{Gauge, IntCounterVec};
use stargate_routing::Snapshot;

use super::families::Families;

/// The families.
pub(crate) struct Snapshots {
    version: Gauge,
    age: Gauge,
    routing_version: Gauge,
    routing_changes: IntCounterVec,
}

// === impl Snapshots ===

impl Snapshots {
    pub(super) fn register(families: &mut Families) -> Self {
        Self {
            version: families.gauge("snapshot_version", "Version of the current snapshot"),
            age: families.gauge("snapshot_age_seconds", "Time since the current snapshot was published"),
            routing_version: families.gauge("routing_config_version", "Version of the routing configuration"),
            routing_changes: families.counters(
                "routing_config_changes_total",
                "Attempts to change the routing configuration, by how they ended",
                &["result"],
            ),
        }
    }

    /// Counts an attempt to change the routing configuration.
    pub(crate) fn count_routing_change(&self, result: &str) {
        self.routing_changes.with_label_values(&[result]).inc();
    }

    pub(super) fn set(&self, snapshot: &Snapshot, routing_version: u64) {
        self.routing_version.set(routing_version as f64);
        self.version.set(snapshot.version as f64);
        if snapshot.version > 0 {
            let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
            self.age.set(now_ms.saturating_sub(snapshot.published_at_unix_ms) as f64 / 1e3);
        }
    }
}
