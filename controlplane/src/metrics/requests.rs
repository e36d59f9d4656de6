//! Requests by target: how long they took, what they waited for, why they were not let in.

use std::sync::Arc;

use prometheus::{HistogramVec, IntCounterVec, local::LocalHistogram};
use stargate_dataplane::Request;
use stargate_routing::TargetName;

use super::{
    families::Families,
    labels::{self, TARGET},
    series::{Counters, Histograms},
};

/// Time to first byte, in seconds: from a cached short prompt to a queue of minutes.
const DURATION_BUCKETS: [f64; 18] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
    600.0,
];
/// Time spent on routing, in seconds: from a decision alone to the longest wait.
const ROUTING_BUCKETS: [f64; 14] = [
    0.000_001,
    0.000_002_5,
    0.000_005,
    0.000_01,
    0.000_025,
    0.000_1,
    0.000_5,
    0.002_5,
    0.01,
    0.05,
    0.25,
    1.0,
    10.0,
    60.0,
];
/// Time that a request waited, in seconds: from the first free place to the longest wait.
const WAIT_BUCKETS: [f64; 13] =
    [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

/// The families.
pub(crate) struct Requests {
    duration: HistogramVec,
    routing: HistogramVec,
    waits: HistogramVec,
    rejections: IntCounterVec,
    kv_skips: IntCounterVec,
}

/// The series of one target.
pub(crate) struct RequestSeries {
    labels: [Arc<str>; 2],
    duration: LocalHistogram,
    routing: LocalHistogram,
    waits: Histograms<[&'static str; 1]>,
    rejections: Counters<[&'static str; 1]>,
    kv_skips: Counters<[&'static str; 0]>,
}

// === impl Requests ===

impl Requests {
    pub(super) fn register(families: &mut Families) -> Self {
        let [routing_key, model] = TARGET;
        let with_reason = [routing_key, model, "reason"];
        Self {
            duration: families.histograms(
                "proxy_duration_seconds",
                "From a request's arrival to the first byte of its response sent",
                &DURATION_BUCKETS,
                &TARGET,
            ),
            routing: families.histograms(
                "routing_duration_seconds",
                "Time of a request spent in decisions and in waiting for one",
                &ROUTING_BUCKETS,
                &TARGET,
            ),
            waits: families.histograms(
                "routing_wait_seconds",
                "Time that requests waited for a place, those that did, by what they waited for at the end",
                &WAIT_BUCKETS,
                &with_reason,
            ),
            rejections: families.counters(
                "admission_rejections_total",
                "Requests that were not let in, or not waited for any longer",
                &with_reason,
            ),
            kv_skips: families.counters(
                "routing_kv_free_token_fallback_selections_total",
                "Requests for which a better-ranked cluster was passed over for lack of free KV tokens",
                &TARGET,
            ),
        }
    }
}

// === impl RequestSeries ===

impl RequestSeries {
    pub(crate) fn new(families: &Requests, target: Option<&TargetName>) -> Self {
        let labels = labels::of_target(target);
        Self {
            duration: families.duration.with_label_values(&labels).local(),
            routing: families.routing.with_label_values(&labels).local(),
            waits: Histograms::new(),
            rejections: Counters::new(),
            kv_skips: Counters::new(),
            labels,
        }
    }

    pub(crate) fn record(&mut self, families: &Requests, request: &Request) {
        if let Some((reason, waited)) = request.waited {
            self.waits.get(&families.waits, &self.labels, [reason.as_str()]).observe(waited.as_secs_f64());
        }
        if let Some(rejection) = request.rejection {
            self.rejections.get(&families.rejections, &self.labels, [rejection.as_str()]).inc();
        }
        if request.selection.is_some_and(|selection| selection.after_kv_skip) {
            self.kv_skips.get(&families.kv_skips, &self.labels, []).inc();
        }
        self.routing.observe(request.routing.as_secs_f64());
        if let Some(first_byte) = request.first_byte {
            self.duration.observe(first_byte.as_secs_f64());
        }
    }

    /// Has everything shown that was recorded.
    pub(crate) fn flush(&self) {
        self.duration.flush();
        self.routing.flush();
        self.waits.flush();
    }

    /// Whether these and `other` are the same series.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.labels == other.labels
    }

    pub(crate) fn remove_from(self, families: &Requests) {
        self.waits.remove_from(&families.waits, &self.labels);
        self.rejections.remove_from(&families.rejections, &self.labels);
        self.kv_skips.remove_from(&families.kv_skips, &self.labels);
        let _ = families.duration.remove_label_values(&self.labels);
        let _ = families.routing.remove_label_values(&self.labels);
    }
}
