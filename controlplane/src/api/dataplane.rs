//! `GET /api/v1/dataplane`: the data plane as it runs: its cores, and how far away it has measured each
//! backend to be.

use axum::{Json, extract::State};
use serde::Serialize;
use stargate_dataplane::{
    CoreLevels,
    rtt::{KernelStatus, Rtt, RttStatus},
};
use stargate_routing::{Backend, Nanos, RttSource};

use crate::{health::ProbedRtt, names::BackendId, plane::ControlPlane, registry::Registration};

/// The data plane, as it is answered.
#[derive(Debug, Serialize)]
pub(super) struct DataPlaneView {
    /// What attempts are stamped with; null while there is no data plane.
    gateway: Option<String>,
    cores: Vec<CoreView>,
    rtt: RttView,
}

#[derive(Debug, Serialize)]
struct CoreView {
    cpu: usize,
    driver: &'static str,
    /// Over the last second, of 1.
    busy_ratio: f64,
    snapshot_version: u64,
    waiters: u64,
    client_connections_active: u64,
    client_connections_idle: u64,
    upstream_connections_active: u64,
    upstream_connections_idle: u64,
    replay_bytes: u64,
}

/// How round-trip times are measured, and what they are.
#[derive(Debug, Serialize)]
struct RttView {
    /// Null, like the next two, while there is no data plane.
    configured: Option<&'static str>,
    /// Chosen at start.
    source: Option<&'static str>,
    why: Option<String>,
    /// As the source, or since the kernel program has failed for some backend.
    reads_tcp_info: bool,
    /// Null where it is not the source.
    kernel_program: Option<KernelView>,
    backends: Vec<BackendView>,
}

#[derive(Debug, Serialize)]
struct KernelView {
    attached_to: String,
    program_id: u32,
    entries: usize,
    capacity: usize,
    faults: serde_json::Map<String, serde_json::Value>,
}

/// How far away a backend is. Null is what is not known.
#[derive(Debug, Serialize)]
struct BackendView {
    id: BackendId,
    address: Option<String>,
    /// As measured: what a reservation lives for.
    rtt_ms: Option<f64>,
    /// As decisions see it, without noise.
    routed_rtt_ms: Option<f64>,
    /// What counts here now; the rest is what this source has measured.
    source: Option<&'static str>,
    samples: u64,
    connects: u64,
    last_sample_age_ms: Option<f64>,
    last_ms: Option<f64>,
    smoothed_ms: Option<f64>,
    min_ms: Option<f64>,
}

pub(super) async fn get(State(plane): State<ControlPlane>) -> Json<DataPlaneView> {
    let rtt = plane.rtt();
    let status = rtt.map(Rtt::status);
    let kernel_program = status.as_ref().and_then(|status| status.kernel.as_ref()).map(KernelView::of);
    Json(DataPlaneView {
        gateway: plane.gateway_id().map(|id| id.to_string()),
        cores: plane.levels().iter().map(CoreView::of).collect(),
        rtt: RttView {
            configured: status.as_ref().map(|status| status.configured.as_str()),
            source: status.as_ref().map(|status| status.source.as_str()),
            reads_tcp_info: status.as_ref().is_some_and(|status| status.reads_tcp_info),
            why: status.map(|RttStatus { why, .. }| why),
            kernel_program,
            backends: backends(&plane),
        },
    })
}

fn backends(plane: &ControlPlane) -> Vec<BackendView> {
    // Two steps: the kernel is not asked under the registry's lock.
    let known: Vec<_> = {
        let registry = plane.registry();
        let known = |registration: &Registration| {
            let source = registration.rtt().map(|(_, source)| source);
            (BackendView::of(registration), registration.backend().cloned().zip(source))
        };
        registry.backends().map(known).collect()
    };
    known
        .into_iter()
        .map(|(view, measured)| match (plane.rtt(), measured) {
            (Some(rtt), Some((backend, source))) => view.with_measurements(rtt, &backend, source),
            _ => view,
        })
        .collect()
}

fn ms(rtt: Nanos) -> f64 {
    rtt.as_secs_f64() * 1e3
}

// === impl CoreView ===

impl CoreView {
    fn of(levels: &CoreLevels) -> Self {
        Self {
            cpu: levels.cpu,
            driver: levels.driver,
            busy_ratio: levels.busy_ratio,
            snapshot_version: levels.snapshot_version,
            waiters: levels.waiters,
            client_connections_active: levels.client_active,
            client_connections_idle: levels.client_idle,
            upstream_connections_active: levels.upstream_active,
            upstream_connections_idle: levels.upstream_idle,
            replay_bytes: levels.replay_bytes,
        }
    }
}

// === impl KernelView ===

impl KernelView {
    fn of(kernel: &KernelStatus) -> Self {
        let faults = kernel.faults.iter().map(|(fault, count)| (fault.as_str().to_owned(), (*count).into()));
        Self {
            attached_to: kernel.attached_to.display().to_string(),
            program_id: kernel.program_id,
            entries: kernel.entries,
            capacity: kernel.capacity,
            faults: faults.collect(),
        }
    }
}

// === impl BackendView ===

impl BackendView {
    /// With all that the registry knows.
    fn of(registration: &Registration) -> Self {
        let measured = registration.rtt();
        let source = measured.map(|(_, source)| source);
        let probed = Some(&registration.probed_rtt).filter(|_| source == Some(RttSource::Probe));
        let probes = probed.map_or(0, ProbedRtt::probes);
        Self {
            id: registration.id.clone(),
            address: registration.address().map(|address| address.to_string()),
            rtt_ms: measured.map(|(rtt, _)| ms(rtt)),
            routed_rtt_ms: registration.routed_rtt().map(ms),
            source: source.map(RttSource::as_str),
            samples: probes,
            connects: probes,
            last_sample_age_ms: None,
            last_ms: probed.and_then(ProbedRtt::last).map(ms),
            smoothed_ms: probed.and_then(ProbedRtt::smoothed).map(ms),
            min_ms: probed.and_then(ProbedRtt::quickest).map(ms),
        }
    }

    /// Also with what the source that counts has measured.
    fn with_measurements(mut self, rtt: &Rtt, backend: &Backend, source: RttSource) -> Self {
        let Some(measured) = rtt.measurements(backend, source) else { return self };
        self.last_sample_age_ms = measured.last_age.map(|age| age.as_secs_f64() * 1e3);
        if source != RttSource::Probe {
            (self.samples, self.connects) = (measured.samples, measured.connects);
            self.last_ms = measured.last.map(ms);
            self.smoothed_ms = measured.smoothed.map(ms);
            self.min_ms = measured.min.map(ms);
        }
        self
    }
}
