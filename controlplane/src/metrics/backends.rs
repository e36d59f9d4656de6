//! Backends: how many there are, how well, how far away.

use prometheus::{Gauge, GaugeVec, IntCounter};
use stargate_dataplane::rtt::{KernelFault, RttStatus};
use stargate_routing::Snapshot;

use super::{
    families::{Families, follow},
    labels::{TARGET, of_target},
};
use crate::{health::Condition, registry::Registry};

const CONDITIONS: [(Condition, &str); 3] =
    [(Condition::Unknown, "unknown"), (Condition::Healthy, "healthy"), (Condition::Unhealthy, "unhealthy")];

/// The families.
pub(crate) struct Backends {
    active: GaugeVec,
    by_health: GaugeVec,
    expired: IntCounter,
    rtt: GaugeVec,
    rtt_endpoints: Gauge,
    rtt_faults: [IntCounter; KernelFault::ALL.len()],
}

// === impl Backends ===

impl Backends {
    pub(super) fn register(families: &mut Families) -> Self {
        let rtt_faults = families.counters(
            "rtt_faults_total",
            "Faults of the kernel program that measures round-trip times; other sources count for what it misses",
            &["fault"],
        );
        Self {
            active: families.gauges(
                "active_inference_servers",
                "Backends that take requests of a target",
                &TARGET,
            ),
            by_health: families.gauges("backends", "Registered backends, by health", &["health"]),
            expired: families.counter("registrations_expired_total", "Registrations whose lease ran out"),
            rtt: families.gauges(
                "backend_rtt_seconds",
                "Round-trip time to a backend, by the source that counts; probe: TCP connect time of health checks",
                &["inference_server_id", "source"],
            ),
            rtt_endpoints: families.gauge(
                "rtt_endpoints",
                "Addresses that the kernel program measures; 0 where it is not attached",
            ),
            rtt_faults: KernelFault::ALL.map(|fault| rtt_faults.with_label_values(&[fault.as_str()])),
        }
    }

    /// Counts registrations whose lease ran out.
    pub(crate) fn count_expired(&self, registrations: usize) {
        self.expired.inc_by(registrations as u64);
    }

    pub(super) fn set(&self, registry: &Registry, snapshot: &Snapshot, rtt: Option<&RttStatus>) {
        self.set_registered(registry);
        self.set_active(snapshot);
        if let Some(kernel) = rtt.and_then(|status| status.kernel.as_ref()) {
            self.rtt_endpoints.set(kernel.entries as f64);
            for (counter, (_, count)) in self.rtt_faults.iter().zip(kernel.faults) {
                follow(counter, count);
            }
        }
    }

    fn set_registered(&self, registry: &Registry) {
        for (condition, name) in CONDITIONS {
            let is_so = |condition_now: Condition| condition_now == condition;
            let count = registry.backends().filter(|backend| is_so(backend.health.condition())).count();
            self.by_health.with_label_values(&[name]).set(count as f64);
        }
        self.rtt.reset();
        for registration in registry.backends() {
            if let Some((rtt, source)) = registration.rtt() {
                let labels = [registration.id.as_str(), source.as_str()];
                self.rtt.with_label_values(&labels).set(rtt.as_secs_f64());
            }
        }
    }

    fn set_active(&self, snapshot: &Snapshot) {
        self.active.reset();
        for target in snapshot.targets() {
            let active: usize = target.clusters.iter().map(|cluster| cluster.backends.len()).sum();
            self.active.with_label_values(&of_target(Some(&target.name))).set(active as f64);
        }
    }
}
