//! Cores: one row below is one metric, or one series of those with labels of their own.

use prometheus::{Gauge, GaugeVec, IntCounter};
use stargate_dataplane::CoreLevels;

use super::families::{Families, follow};

/// Something of one core.
type Of<T> = fn(&CoreLevels) -> T;

/// Name, help, and what is shown of each core.
const EACH: [(&str, &str, Of<f64>); 3] = [
    ("core_snapshot_version", "Version of the snapshot that a core last looked at", |core| {
        core.snapshot_version as f64
    }),
    ("routing_waiters", "Requests that wait for a place", |core| core.waiters as f64),
    ("core_busy_ratio", "Share of time that a core thread worked, over the last second", |core| {
        core.busy_ratio
    }),
];
/// Name, help, and what all cores together have counted since they started.
const TOTALS: [(&str, &str, Of<u64>); 3] = [
    ("observations_dropped_total", "Observations that a core dropped because its queue was full", |core| {
        core.observations_dropped
    }),
    ("accept_paused_total", "Times that accepting paused at a limit", |core| core.accept_paused),
    ("request_panics_total", "Requests that met a panic", |core| core.panics),
];
/// Result of a routing expression, and how many there were.
const EXPRESSIONS: [(&str, Of<u64>); 3] = [
    ("cached", |core| core.expressions_found),
    ("read", |core| core.expressions_read),
    ("refused", |core| core.expressions_refused),
];
/// Side and state of connections, and how many there are.
const CONNECTIONS: [([&str; 2], Of<u64>); 4] = [
    (["client", "active"], |core| core.client_active),
    (["client", "idle"], |core| core.client_idle),
    (["upstream", "active"], |core| core.upstream_active),
    (["upstream", "idle"], |core| core.upstream_idle),
];

/// The families, or their series, in the order of the rows.
pub(super) struct Cores {
    each: [GaugeVec; EACH.len()],
    totals: [IntCounter; TOTALS.len()],
    expressions: [IntCounter; EXPRESSIONS.len()],
    connections: GaugeVec,
    replay_bytes: Gauge,
}

fn sum(cores: &[CoreLevels], of: Of<u64>) -> u64 {
    cores.iter().map(of).sum()
}

// === impl Cores ===

impl Cores {
    pub(super) fn register(families: &mut Families) -> Self {
        let expressions = families.counters(
            "routing_expressions_total",
            "Values of x-routing-method; cached: kept from before, read: read anew, refused: answered with 400",
            &["result"],
        );
        Self {
            each: EACH.map(|(name, help, _)| families.gauges(name, help, &["core"])),
            totals: TOTALS.map(|(name, help, _)| families.counter(name, help)),
            expressions: EXPRESSIONS.map(|(result, _)| expressions.with_label_values(&[result])),
            connections: families.gauges(
                "connections",
                "Open connections to clients and to backends, with a request on them or idle",
                &["side", "state"],
            ),
            replay_bytes: families
                .gauge("proxy_replay_buffer_bytes", "Bytes of request bodies held for replay"),
        }
    }

    pub(super) fn set(&self, cores: &[CoreLevels]) {
        for core in cores {
            let label = [core.cpu.to_string()];
            for (family, (_, _, of)) in self.each.iter().zip(EACH) {
                family.with_label_values(&label).set(of(core));
            }
        }
        for (counter, (_, _, of)) in self.totals.iter().zip(TOTALS) {
            follow(counter, sum(cores, of));
        }
        for (counter, (_, of)) in self.expressions.iter().zip(EXPRESSIONS) {
            follow(counter, sum(cores, of));
        }
        for (labels, of) in CONNECTIONS {
            self.connections.with_label_values(&labels).set(sum(cores, of) as f64);
        }
        self.replay_bytes.set(sum(cores, |core| core.replay_bytes) as f64);
    }
}
