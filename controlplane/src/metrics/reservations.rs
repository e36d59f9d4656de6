//! Reservations: one row below is one way for them to begin or end.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus::{
    Gauge, IntCounter, Opts,
    core::{Collector, Desc, Describer},
    proto::{self, Metric, MetricFamily, MetricType},
};
use stargate_dataplane::CoreLevels;
use stargate_routing::ReservationCounts;

use super::families::{Families, follow};

/// How many there are of one kind.
type Of = fn(&ReservationCounts) -> u64;

/// Name, help, and how many.
const TOTALS: [(&str, &str, Of); 5] = [
    ("reservations_created_total", "Reservations made for work just sent to a cluster", |counts| {
        counts.created
    }),
    ("reservations_expired_total", "Reservations that ended after their round trip", |counts| counts.expired),
    ("reservations_released_total", "Reservations that ended with their attempt", |counts| counts.released),
    ("reservations_dropped_total", "Reservations that ended with their backend's registration", |counts| {
        counts.dropped
    }),
    (
        "reservations_handed_over_total",
        "Reservations that ended with a report that says it includes their attempt",
        |counts| counts.handed_over,
    ),
];

/// The families.
pub(super) struct Reservations {
    /// In the order of the rows.
    totals: [IntCounter; TOTALS.len()],
    pending: Gauge,
    ttl: LifeTimes,
}

/// A histogram whose buckets the cores count.
#[derive(Clone)]
struct LifeTimes {
    desc: Desc,
    counts: Arc<Mutex<ReservationCounts>>,
}

// === impl Reservations ===

impl Reservations {
    pub(super) fn register(families: &mut Families) -> Self {
        let ttl = families.opts(
            "reservation_ttl_seconds",
            "For how long reservations were made to live, those that end by time",
        );
        Self {
            totals: TOTALS.map(|(name, help, _)| families.counter(name, help)),
            pending: families.gauge("reservations_pending", "Reservations that have not ended"),
            ttl: families.add(LifeTimes::new(&ttl)),
        }
    }

    pub(super) fn set(&self, cores: &[CoreLevels]) {
        let counts: ReservationCounts = cores.iter().map(|core| &core.reservations).sum();
        for (counter, (_, _, of)) in self.totals.iter().zip(TOTALS) {
            follow(counter, of(&counts));
        }
        self.pending.set(counts.pending as f64);
        self.ttl.set(counts);
    }
}

// === impl LifeTimes ===

impl LifeTimes {
    fn new(opts: &Opts) -> prometheus::Result<Self> {
        Ok(Self { desc: opts.describe()?, counts: Arc::default() })
    }

    fn set(&self, counts: ReservationCounts) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }
}

impl Collector for LifeTimes {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let counts = *self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cumulative = 0;
        let buckets = ReservationCounts::TTL_BOUNDS.iter().zip(counts.ttl).map(|(bound, count)| {
            cumulative += count;
            let mut bucket = proto::Bucket::default();
            bucket.set_upper_bound(bound.as_secs_f64());
            bucket.set_cumulative_count(cumulative);
            bucket
        });
        let mut histogram = proto::Histogram::default();
        histogram.set_bucket(buckets.collect());
        histogram.set_sample_count(counts.ttl.iter().sum());
        histogram.set_sample_sum(counts.ttl_sum.as_secs_f64());
        let mut family = MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(MetricType::HISTOGRAM);
        let mut metric = Metric::default();
        metric.set_histogram(histogram);
        family.set_metric(vec![metric]);
        vec![family]
    }
}
