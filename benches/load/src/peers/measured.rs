//! What one contestant showed in one round.

use std::collections::BTreeMap;

use serde::Serialize;

use super::kind::Kind;
use crate::generator::report::{ProcessCost, Report};

/// One quantity. Costs and memory are the proxy's, its children included; on the direct way the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Quantity {
    /// CPU seconds for 100 000 requests of a closed loop.
    #[serde(rename = "cpu_s_per_100k_requests")]
    CpuSPer100kRequests,
    /// CPU seconds for 100 000 requests at the open loop's rate.
    #[serde(rename = "cpu_s_per_100k_requests_open")]
    CpuSPer100kRequestsOpen,
    /// CPU seconds for 100 000 SSE chunks.
    #[serde(rename = "cpu_s_per_100k_chunks")]
    CpuSPer100kChunks,
    /// CPU milliseconds for one request of a closed loop.
    CpuMsPerRequest,
    /// Requests answered a second.
    RequestsPerS,
    /// Requests that a CPU second pays for.
    RequestsPerCpuS,
    ChunksPerS,
    /// Latency to the last byte.
    P50Us,
    P99Us,
    /// Between two SSE events of one stream.
    ChunkGapP99Us,
    /// Streams that were open when memory was read.
    StreamsHeld,
    /// Resident memory before the load.
    RssKbBefore,
    /// Resident memory under load, or at its end.
    RssKb,
    /// What each open stream added to it.
    RssKbPerStream,
}

/// What one contestant showed in one round.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measured {
    pub(super) kind: Kind,
    pub(super) values: BTreeMap<Quantity, f64>,
    /// Requests that failed, by how.
    pub(super) failures: BTreeMap<String, u64>,
    /// Requests that were due and never sent, or streams that were never opened.
    pub(super) unsent: u64,
}

// === impl Measured ===

impl Measured {
    /// Nothing yet.
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, values: BTreeMap::new(), failures: BTreeMap::new(), unsent: 0 }
    }

    /// Notes a value that there may be.
    pub(super) fn set(&mut self, quantity: Quantity, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into() {
            self.values.insert(quantity, value);
        }
    }

    /// Counts failures in.
    pub(super) fn count_failures(&mut self, errors: &BTreeMap<String, u64>) {
        for (kind, count) in errors {
            *self.failures.entry(kind.clone()).or_default() += count;
        }
    }

    /// Notes what a closed loop of requests shows.
    pub(super) fn set_closed(&mut self, report: &Report, cost: &ProcessCost) {
        let per_100k = cost.cpu_s_per_100k_requests;
        self.set(Quantity::CpuSPer100kRequests, per_100k);
        self.set(Quantity::CpuMsPerRequest, per_100k.map(|seconds| seconds / 100.0));
        self.set(Quantity::RequestsPerS, report.requests_per_s);
        self.set(Quantity::RequestsPerCpuS, per_100k.filter(|cost| *cost > 0.0).map(|cost| 1e5 / cost));
        self.count_failures(&report.errors);
    }

    /// Requests that failed.
    pub(super) fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}
