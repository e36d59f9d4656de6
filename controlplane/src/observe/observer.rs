//! Counts what the cores observed, request by request.
//!
//! This runs for every request that the gateway serves, so handles of series are kept by (target, backend)
//! and found with one look-up. Series of what has left are dropped in time.

use std::{collections::HashMap, sync::Arc, time::Duration};

use stargate_dataplane::{Attempt, AttemptResult, Observation, Request};
use stargate_routing::{Backend, BackendUid, TargetName};
use tokio::time::Instant;

use super::failure_log;
use crate::{
    learn::Sample,
    metrics::{self, AttemptSeries, Families, Gauges, Metrics, RequestSeries},
    names::RoutingKey,
    registry::Registry,
};

/// Most (target, backend) pairs with series of their own: some 10 MB of handles.
const PAIRS_MAX: usize = 20_000;
/// Series of a backend or target that has left stay this long, so that scrapers see their last values.
pub(super) const RETENTION: Duration = Duration::from_mins(10);
/// Between two searches for series to drop.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// Samples kept between two hand-overs; more than that in 100 ms adds nothing to an estimate.
const SAMPLES_MAX: usize = 4096;

/// Accounts for observations.
pub(crate) struct Observer {
    metrics: Metrics,
    registry: prometheus::Registry,
    targets: HashMap<TargetKey, OfTarget>,
    pairs: HashMap<(TargetKey, u64), OfPair>,
    samples: Vec<(BackendUid, Arc<TargetName>, Sample)>,
    last_sweep: Option<Instant>,
}

/// Address of a target's name, which is one allocation for as long as the target lives, and which the entries
/// keep alive; 0 for none.
type TargetKey = usize;

/// What is kept of one target.
struct OfTarget {
    target: Option<Arc<TargetName>>,
    series: RequestSeries,
    used_at: Instant,
}

/// What is kept of one target and one registration of a backend.
struct OfPair {
    target: Option<Arc<TargetName>>,
    backend: Option<BackendUid>,
    series: AttemptSeries,
    used_at: Instant,
}

fn key_of(target: Option<&Arc<TargetName>>) -> TargetKey {
    target.map_or(0, |target| Arc::as_ptr(target).addr())
}

// === impl Observer ===

impl Observer {
    pub(crate) fn new(prefix: &str) -> Self {
        let mut families = Families::new(prefix);
        Self {
            metrics: Metrics::register(&mut families),
            registry: families.into_registry(),
            targets: HashMap::new(),
            pairs: HashMap::new(),
            samples: Vec::new(),
            last_sweep: None,
        }
    }

    /// What is counted where it happens, not observed.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn record(&mut self, observation: Observation, now: Instant) {
        match observation {
            Observation::Attempt(attempt) => self.attempt(&attempt, now),
            Observation::Request(request) => self.request(&request, now),
            Observation::Failure(failure) => failure_log::log(&failure),
        }
    }

    /// Samples since the last call.
    pub(crate) fn take_samples(&mut self) -> Vec<(BackendUid, Arc<TargetName>, Sample)> {
        std::mem::take(&mut self.samples)
    }

    /// All metrics, as text.
    pub(crate) fn render(&self, gauges: &Gauges<'_>) -> String {
        self.targets.values().for_each(|of| of.series.flush());
        self.metrics.set(gauges);
        metrics::render(&self.registry)
    }

    fn attempt(&mut self, attempt: &Attempt, now: Instant) {
        if attempt.result == AttemptResult::Completed
            && let Some(first_byte) = attempt.first_byte
            && self.samples.len() < SAMPLES_MAX
        {
            let sample = Sample { input: attempt.input_tokens, first_byte };
            self.samples.push((attempt.backend.uid, attempt.target.clone(), sample));
        }
        let (metrics, series) = self.of_pair(Some(&attempt.target), Some(&attempt.backend), now);
        series.record_attempt(&metrics.attempts, attempt);
    }

    fn request(&mut self, request: &Request, now: Instant) {
        let (metrics, series) = self.of_pair(request.target.as_ref(), request.backend.as_ref(), now);
        series.record_request(&metrics.attempts, request);
        let (metrics, series) = self.of_target(request.target.as_ref(), now);
        series.record(&metrics.requests, request);
    }

    fn of_target(
        &mut self,
        target: Option<&Arc<TargetName>>,
        now: Instant,
    ) -> (&Metrics, &mut RequestSeries) {
        let of = self.targets.entry(key_of(target)).or_insert_with(|| OfTarget {
            target: target.cloned(),
            series: RequestSeries::new(&self.metrics.requests, target.map(Arc::as_ref)),
            used_at: now,
        });
        of.used_at = now;
        (&self.metrics, &mut of.series)
    }

    fn of_pair(
        &mut self,
        target: Option<&Arc<TargetName>>,
        backend: Option<&Arc<Backend>>,
        now: Instant,
    ) -> (&Metrics, &mut AttemptSeries) {
        let mut key = (key_of(target), backend.map_or(0, |backend| backend.uid.0));
        let is_full = self.pairs.len() >= PAIRS_MAX && !self.pairs.contains_key(&key);
        if is_full {
            self.metrics.losses.count_overflow();
            key = (usize::MAX, u64::MAX);
        }
        let of = self.pairs.entry(key).or_insert_with(|| {
            if is_full {
                return OfPair {
                    target: None,
                    backend: None,
                    series: AttemptSeries::of_others(),
                    used_at: now,
                };
            }
            OfPair {
                target: target.cloned(),
                backend: backend.map(|backend| backend.uid),
                series: AttemptSeries::new(target.map(Arc::as_ref), backend.map(Arc::as_ref)),
                used_at: now,
            }
        });
        of.used_at = now;
        (&self.metrics, &mut of.series)
    }

    /// Drops the series of what has left long ago.
    pub(crate) fn sweep(&mut self, now: Instant, registry: &Registry) {
        if self.last_sweep.is_some_and(|last| now - last < SWEEP_INTERVAL) {
            return;
        }
        self.last_sweep = Some(now);
        let is_target_live = |target: &TargetName| {
            registry.backends().any(|registration| {
                registration.identity.routing_key.as_ref().map(RoutingKey::as_str)
                    == target.routing_key.as_deref()
                    && registration.models.contains_key(&*target.model)
            })
        };
        let is_over = |used_at: Instant| now - used_at >= RETENTION;
        let gone: Vec<_> = self
            .pairs
            .iter()
            .filter(|(_, of)| {
                is_over(of.used_at)
                    && (of.backend.is_some_and(|uid| registry.by_uid(uid).is_none())
                        || of.target.as_deref().is_some_and(|target| !is_target_live(target)))
            })
            .map(|(key, _)| *key)
            .collect();
        for key in gone {
            let Some(OfPair { series, .. }) = self.pairs.remove(&key) else { continue };
            // Another registration of the same backend goes on with the same series.
            if !self.pairs.values().any(|other| other.series.is_same(&series)) {
                series.remove_from(&self.metrics.attempts);
            }
        }
        let gone: Vec<TargetKey> = self
            .targets
            .iter()
            .filter(|(_, of)| {
                is_over(of.used_at) && of.target.as_deref().is_some_and(|target| !is_target_live(target))
            })
            .map(|(key, _)| *key)
            .collect();
        for key in gone {
            let Some(OfTarget { series, .. }) = self.targets.remove(&key) else { continue };
            if !self.targets.values().any(|other| other.series.is_same(&series)) {
                series.remove_from(&self.metrics.requests);
            }
        }
    }
}
