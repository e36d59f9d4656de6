//! Ranking tables: how fair they are, what they take.

use std::time::Duration;

use prometheus::{Gauge, GaugeVec, Histogram};
use stargate_routing::Snapshot;

use super::{
    families::Families,
    labels::{TARGET, of_target},
};

/// Time to build a ranking table, in seconds: from an update to a first build with 1000 clusters.
const BUILD_BUCKETS: [f64; 9] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5];

/// The families.
pub(crate) struct Rankings {
    build: Histogram,
    share_deviation: GaugeVec,
    bytes: Gauge,
}

// === impl Rankings ===

impl Rankings {
    pub(super) fn register(families: &mut Families) -> Self {
        Self {
            build: families.histogram(
                "ranking_build_seconds",
                "Time to build a ranking table or bring it up to date, off the publishing path",
                &BUILD_BUCKETS,
            ),
            share_deviation: families.gauges(
                "ranking_share_deviation_ratio",
                "Largest deviation of a cluster's ranking slots from its fair share, relative to that share",
                &TARGET,
            ),
            bytes: families.gauge("ranking_table_bytes", "Memory of the current snapshot's ranking tables"),
        }
    }

    /// Counts a table that was built.
    pub(crate) fn record_built(&self, took: Duration) {
        self.build.observe(took.as_secs_f64());
    }

    pub(super) fn set(&self, snapshot: &Snapshot) {
        self.share_deviation.reset();
        let mut bytes = 0;
        for target in snapshot.targets() {
            if let Some(table) = &target.ranking {
                let labels = of_target(Some(&target.name));
                self.share_deviation.with_label_values(&labels).set(table.share_deviation());
                bytes += table.memory_bytes();
            }
        }
        self.bytes.set(bytes as f64);
    }
}
