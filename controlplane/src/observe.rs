//! Accounts for what the data plane observed: counters, histograms, one log line per failed request, and
//! samples of prefill throughput.
//!
//! This runs for every request that the gateway serves, so handles of series are kept by (target, backend)
//! and found with one look-up. Label values come from targets and backends that were registered, never from
//! requests: what names no target counts as model `unknown`. Series of what has left are dropped in time.

use std::{collections::HashMap, sync::Arc, time::Duration};

use prometheus::{IntCounter, IntCounterVec, local::LocalHistogram};
use stargate_dataplane::{
    Attempt, AttemptResult, Failure, Fault, Observation, Rejection, Request, Selection, WaitedFor,
};
use stargate_routing::{AlgorithmKind, Backend, BackendUid, TargetName};
use tokio::time::Instant;

use crate::{
    learn::Sample,
    metrics::{Gauges, Metrics},
    registry::Registry,
};

/// Model label of requests that name no known target.
const UNKNOWN_MODEL: &str = "unknown";
/// Label value of what is too much for series of its own.
const OTHER: &str = "other";
/// Most (target, backend) pairs with series of their own: some 10 MB of handles.
const PAIRS_MAX: usize = 20_000;
/// Series of a backend or target that has left stay this long, so that scrapers see their last values.
const RETENTION: Duration = Duration::from_mins(10);
/// Between two searches for series to drop.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// Samples kept between two hand-overs; more than that in 100 ms adds nothing to an estimate.
const SAMPLES_MAX: usize = 4096;
/// Status of a request whose client left before one was sent.
const CLIENT_LEFT: u16 = 499;

/// Accounts for observations.
pub(crate) struct Observer {
    metrics: Metrics,
    targets: HashMap<TargetKey, TargetSeries>,
    pairs: HashMap<(TargetKey, u64), PairSeries>,
    samples: Vec<(BackendUid, Arc<TargetName>, Sample)>,
    last_sweep: Option<Instant>,
}

/// Address of a target's name, which is one allocation for as long as the target lives, and which the series
/// keep alive; 0 for none.
type TargetKey = usize;

/// Handles for one target.
struct TargetSeries {
    target: Option<Arc<TargetName>>,
    duration: LocalHistogram,
    routing: LocalHistogram,
    waits: Vec<(WaitedFor, LocalHistogram)>,
    rejections: Vec<(Rejection, IntCounter)>,
    kv_skips: Option<IntCounter>,
    used_at: Instant,
}

/// Handles for one target and one registration of a backend.
struct PairSeries {
    target: Option<Arc<TargetName>>,
    backend: Option<(BackendUid, Arc<str>)>,
    labels: [Arc<str>; 3],
    requests: Vec<(u16, IntCounter)>,
    attempts: Vec<(AttemptResult, IntCounter)>,
    retries: Vec<(AttemptResult, IntCounter)>,
    selections: Vec<(AlgorithmKind, bool, IntCounter)>,
    used_at: Instant,
}

fn key_of(target: Option<&Arc<TargetName>>) -> TargetKey {
    target.map_or(0, |target| Arc::as_ptr(target).addr())
}

// === impl Observer ===

impl Observer {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            metrics: Metrics::new(prefix),
            targets: HashMap::new(),
            pairs: HashMap::new(),
            samples: Vec::new(),
            last_sweep: None,
        }
    }

    pub(crate) fn record(&mut self, observation: Observation, now: Instant) {
        match observation {
            Observation::Attempt(attempt) => self.attempt(&attempt, now),
            Observation::Request(request) => self.request(&request, now),
            Observation::Failure(failure) => log(&failure),
        }
    }

    /// Samples since the last call.
    pub(crate) fn take_samples(&mut self) -> Vec<(BackendUid, Arc<TargetName>, Sample)> {
        std::mem::take(&mut self.samples)
    }

    /// Counts an attempt to change the routing configuration.
    pub(crate) fn count_routing_change(&self, result: &str) {
        self.metrics.routing_changes.with_label_values(&[result]).inc();
    }

    pub(crate) fn count_expired(&self, registrations: usize) {
        self.metrics.expired.inc_by(registrations as u64);
    }

    pub(crate) fn table_built(&self, took: Duration) {
        self.metrics.ranking_build.observe(took.as_secs_f64());
    }

    /// All metrics, as text.
    pub(crate) fn render(&mut self, gauges: &Gauges<'_>) -> String {
        for series in self.targets.values() {
            series.duration.flush();
            series.routing.flush();
            series.waits.iter().for_each(|(_, waits)| waits.flush());
        }
        self.metrics.render(gauges)
    }

    fn attempt(&mut self, attempt: &Attempt, now: Instant) {
        if attempt.result == AttemptResult::Completed
            && let Some(first_byte) = attempt.first_byte
            && self.samples.len() < SAMPLES_MAX
        {
            let sample = Sample { input: attempt.input_tokens, first_byte };
            self.samples.push((attempt.backend.uid, attempt.target.clone(), sample));
        }
        let (metrics, pair) = self.pair(Some(&attempt.target), Some(&attempt.backend), now);
        pair.attempt(metrics, attempt.result).inc();
        if let Some(reason) = attempt.retry_of {
            pair.retry(metrics, reason).inc();
        }
    }

    fn request(&mut self, request: &Request, now: Instant) {
        let (metrics, pair) = self.pair(request.target.as_ref(), request.backend.as_ref(), now);
        pair.request(metrics, request.status).inc();
        if let Some(Selection { algorithm, is_fallback, .. }) = request.selection {
            pair.selection(metrics, algorithm, !is_fallback).inc();
        }
        let (metrics, target) = self.target(request.target.as_ref(), now);
        if let Some((reason, waited)) = request.waited {
            target.wait(metrics, reason).observe(waited.as_secs_f64());
        }
        if let Some(rejection) = request.rejection {
            target.rejection(metrics, rejection).inc();
        }
        if request.selection.is_some_and(|selection| selection.after_kv_skip) {
            target.kv_skip(metrics).inc();
        }
        target.routing.observe(request.routing.as_secs_f64());
        if let Some(first_byte) = request.first_byte {
            target.duration.observe(first_byte.as_secs_f64());
        }
    }

    fn target(&mut self, target: Option<&Arc<TargetName>>, now: Instant) -> (&Metrics, &mut TargetSeries) {
        let series = self.targets.entry(key_of(target)).or_insert_with(|| {
            let [routing_key, model] = target_labels(target);
            TargetSeries {
                target: target.cloned(),
                duration: self.metrics.duration.with_label_values(&[&*routing_key, &*model]).local(),
                routing: self.metrics.routing.with_label_values(&[&*routing_key, &*model]).local(),
                waits: Vec::new(),
                rejections: Vec::new(),
                kv_skips: None,
                used_at: now,
            }
        });
        series.used_at = now;
        (&self.metrics, series)
    }

    fn pair(
        &mut self,
        target: Option<&Arc<TargetName>>,
        backend: Option<&Arc<Backend>>,
        now: Instant,
    ) -> (&Metrics, &mut PairSeries) {
        let mut key = (key_of(target), backend.map_or(0, |backend| backend.uid.0));
        let is_full = self.pairs.len() >= PAIRS_MAX && !self.pairs.contains_key(&key);
        if is_full {
            self.metrics.count_overflow();
            key = (usize::MAX, u64::MAX);
        }
        let pair = self.pairs.entry(key).or_insert_with(|| {
            if is_full {
                return PairSeries::new(None, None, [OTHER.into(), OTHER.into(), OTHER.into()], now);
            }
            let [routing_key, model] = target_labels(target);
            let backend_id: Arc<str> =
                backend.map_or_else(|| "".into(), |backend| backend.backend_id.clone());
            let backend = backend.map(|backend| (backend.uid, backend.backend_id.clone()));
            PairSeries::new(target.cloned(), backend, [routing_key, model, backend_id], now)
        });
        pair.used_at = now;
        (&self.metrics, pair)
    }

    /// Drops the series of what has left long ago.
    pub(crate) fn sweep(&mut self, now: Instant, registry: &Registry) {
        if self.last_sweep.is_some_and(|last| now - last < SWEEP_INTERVAL) {
            return;
        }
        self.last_sweep = Some(now);
        let is_target_live = |target: &TargetName| {
            registry.backends().any(|registration| {
                registration.identity.routing_key.as_ref().map(crate::names::RoutingKey::as_str)
                    == target.routing_key.as_deref()
                    && registration.models.contains_key(&*target.model)
            })
        };
        let is_over = |used_at: Instant| now - used_at >= RETENTION;
        let gone: Vec<_> = self
            .pairs
            .iter()
            .filter(|(_, pair)| {
                is_over(pair.used_at)
                    && (pair.backend.as_ref().is_some_and(|(uid, _)| registry.by_uid(*uid).is_none())
                        || pair.target.as_deref().is_some_and(|target| !is_target_live(target)))
            })
            .map(|(key, _)| *key)
            .collect();
        for key in gone {
            let Some(pair) = self.pairs.remove(&key) else { continue };
            // Another registration of the same backend goes on with the same series.
            if !self.pairs.values().any(|other| other.labels == pair.labels) {
                pair.remove_from(&self.metrics);
            }
        }
        let gone: Vec<TargetKey> = self
            .targets
            .iter()
            .filter(|(_, series)| {
                is_over(series.used_at)
                    && series.target.as_deref().is_some_and(|target| !is_target_live(target))
            })
            .map(|(key, _)| *key)
            .collect();
        for key in gone {
            let Some(series) = self.targets.remove(&key) else { continue };
            let labels = target_labels(series.target.as_ref());
            if !self.targets.values().any(|other| target_labels(other.target.as_ref()) == labels) {
                series.remove_from(&self.metrics);
            }
        }
    }
}

/// (routing key, model) as label values.
fn target_labels(target: Option<&Arc<TargetName>>) -> [Arc<str>; 2] {
    match target {
        None => ["".into(), UNKNOWN_MODEL.into()],
        Some(target) => [target.routing_key.clone().unwrap_or_else(|| "".into()), target.model.clone()],
    }
}

// === impl TargetSeries ===

impl TargetSeries {
    fn wait(&mut self, metrics: &Metrics, reason: WaitedFor) -> &LocalHistogram {
        let position = self.waits.iter().position(|(known, _)| *known == reason).unwrap_or_else(|| {
            let [routing_key, model] = target_labels(self.target.as_ref());
            let waits = metrics.waits.with_label_values(&[&*routing_key, &*model, reason.as_str()]);
            self.waits.push((reason, waits.local()));
            self.waits.len() - 1
        });
        &self.waits[position].1
    }

    fn rejection(&mut self, metrics: &Metrics, reason: Rejection) -> &IntCounter {
        let position = self.rejections.iter().position(|(known, _)| *known == reason).unwrap_or_else(|| {
            let [routing_key, model] = target_labels(self.target.as_ref());
            let labels = [&*routing_key, &*model, reason.as_str()];
            self.rejections.push((reason, metrics.rejections.with_label_values(&labels)));
            self.rejections.len() - 1
        });
        &self.rejections[position].1
    }

    fn kv_skip(&mut self, metrics: &Metrics) -> &IntCounter {
        let [routing_key, model] = target_labels(self.target.as_ref());
        self.kv_skips.get_or_insert_with(|| metrics.kv_skips.with_label_values(&[&*routing_key, &*model]))
    }

    fn remove_from(self, metrics: &Metrics) {
        let [routing_key, model] = target_labels(self.target.as_ref());
        let labels = [&*routing_key, &*model];
        for (reason, waits) in self.waits {
            // What it still holds would bring the series back.
            waits.clear();
            let _ = metrics.waits.remove_label_values(&[labels[0], labels[1], reason.as_str()]);
        }
        for (reason, _) in self.rejections {
            let _ = metrics.rejections.remove_label_values(&[labels[0], labels[1], reason.as_str()]);
        }
        let _ = metrics.kv_skips.remove_label_values(&labels);
        let _ = metrics.duration.remove_label_values(&labels);
        let _ = metrics.routing.remove_label_values(&labels);
    }
}

// === impl PairSeries ===

impl PairSeries {
    fn new(
        target: Option<Arc<TargetName>>,
        backend: Option<(BackendUid, Arc<str>)>,
        labels: [Arc<str>; 3],
        now: Instant,
    ) -> Self {
        Self {
            target,
            backend,
            labels,
            requests: Vec::new(),
            attempts: Vec::new(),
            retries: Vec::new(),
            selections: Vec::new(),
            used_at: now,
        }
    }

    fn with<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        self.labels.iter().map(|label| &**label).chain(more.iter().copied()).collect()
    }

    fn request(&mut self, metrics: &Metrics, status: u16) -> &IntCounter {
        let position = self.requests.iter().position(|(known, _)| *known == status).unwrap_or_else(|| {
            let counter = metrics.requests.with_label_values(&self.with(&[&status.to_string()]));
            self.requests.push((status, counter));
            self.requests.len() - 1
        });
        &self.requests[position].1
    }

    fn attempt(&mut self, metrics: &Metrics, result: AttemptResult) -> &IntCounter {
        Self::by_result(&mut self.attempts, &metrics.attempts, &self.labels, result)
    }

    fn retry(&mut self, metrics: &Metrics, reason: AttemptResult) -> &IntCounter {
        Self::by_result(&mut self.retries, &metrics.retries, &self.labels, reason)
    }

    fn by_result<'a>(
        known: &'a mut Vec<(AttemptResult, IntCounter)>,
        counters: &IntCounterVec,
        labels: &[Arc<str>; 3],
        result: AttemptResult,
    ) -> &'a IntCounter {
        let position = known.iter().position(|(known, _)| *known == result).unwrap_or_else(|| {
            let labels = labels.iter().map(|label| &**label).chain([result.as_str()]);
            known.push((result, counters.with_label_values(&labels.collect::<Vec<_>>())));
            known.len() - 1
        });
        &known[position].1
    }

    fn selection(&mut self, metrics: &Metrics, algorithm: AlgorithmKind, is_primary: bool) -> &IntCounter {
        let is_known =
            |known: &(AlgorithmKind, bool, IntCounter)| (known.0, known.1) == (algorithm, is_primary);
        let position = self.selections.iter().position(is_known).unwrap_or_else(|| {
            let labels = [algorithm.as_str(), selection_label(is_primary)];
            let counter = metrics.selections.with_label_values(&self.with(&labels));
            self.selections.push((algorithm, is_primary, counter));
            self.selections.len() - 1
        });
        &self.selections[position].2
    }

    fn remove_from(&self, metrics: &Metrics) {
        for (status, _) in &self.requests {
            let _ = metrics.requests.remove_label_values(&self.with(&[&status.to_string()]));
        }
        for (result, _) in &self.attempts {
            let _ = metrics.attempts.remove_label_values(&self.with(&[result.as_str()]));
        }
        for (algorithm, is_primary, _) in &self.selections {
            let labels = [algorithm.as_str(), selection_label(*is_primary)];
            let _ = metrics.selections.remove_label_values(&self.with(&labels));
        }
        for (reason, _) in &self.retries {
            let _ = metrics.retries.remove_label_values(&self.with(&[reason.as_str()]));
        }
    }
}

fn selection_label(is_primary: bool) -> &'static str {
    if is_primary { "primary" } else { "fallback" }
}

/// One line with all that an operator asks for. A fault of the caller is no news; everything else is.
fn log(failure: &Failure) {
    let row = failure.code.map(stargate_dataplane::ErrorCode::row);
    let is_client_fault = failure.status == CLIENT_LEFT
        || row.map_or((400..500).contains(&failure.status), |row| row.fault == Fault::Client);
    let fault = match row.map(|row| row.fault) {
        _ if is_client_fault => "client",
        Some(Fault::Gateway) => "gateway",
        _ => "upstream",
    };
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                request_id = &*failure.request_id,
                request = &*failure.request_line,
                model = &*failure.model,
                status = failure.status,
                code = row.map_or("", |row| row.code),
                fault,
                backend_id = failure.backend_id.as_deref().unwrap_or(""),
                attempts = failure.attempts,
                elapsed_ms = failure.elapsed.as_millis() as u64,
                waited_ms = failure.waited.as_millis() as u64,
                reason = &*failure.message,
                "request failed"
            )
        };
    }
    if is_client_fault {
        line!(info);
    } else {
        line!(warn);
    }
}

#[cfg(test)]
mod tests;
