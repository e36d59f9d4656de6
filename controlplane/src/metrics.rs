//! The metric families, by the names that the field knows (WIRE.md section 5), and the gauges among them,
//! which are read off the current state at each scrape.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, TextEncoder,
    core::{AtomicU64, Collector, Desc, Describer, GenericGauge, GenericGaugeVec},
    proto::{self, Metric, MetricFamily, MetricType},
};
use stargate_dataplane::{
    CoreLevels,
    rtt::{KernelFault, RttStatus},
};
use stargate_routing::{ReservationCounts, Snapshot};

use crate::{health::Condition, registry::Registry};

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

/// Time to build a ranking table, in seconds: from an update to a first build with 1000 clusters.
const BUILD_BUCKETS: [f64; 9] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5];
/// Time that a request waited, in seconds: from the first free place to the longest wait.
const WAIT_BUCKETS: [f64; 13] =
    [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

/// A level that is never negative.
type Level = GenericGauge<AtomicU64>;
type LevelVec = GenericGaugeVec<AtomicU64>;

/// All families.
pub(crate) struct Metrics {
    registry: prometheus::Registry,
    pub(crate) requests: IntCounterVec,
    pub(crate) attempts: IntCounterVec,
    pub(crate) retries: IntCounterVec,
    pub(crate) selections: IntCounterVec,
    pub(crate) duration: HistogramVec,
    pub(crate) routing: HistogramVec,
    pub(crate) waits: HistogramVec,
    pub(crate) rejections: IntCounterVec,
    pub(crate) kv_skips: IntCounterVec,
    pub(crate) expired: IntCounter,
    pub(crate) routing_changes: IntCounterVec,
    routing_version: Level,
    pub(crate) ranking_build: Histogram,
    series_overflow: IntCounter,
    active_servers: LevelVec,
    backends: LevelVec,
    rtt: GaugeVec,
    rtt_endpoints: Level,
    rtt_faults: [Total; KernelFault::ALL.len()],
    ranking_share_deviation: GaugeVec,
    ranking_table_bytes: Level,
    snapshot_version: Level,
    snapshot_age: Gauge,
    core_snapshot_version: LevelVec,
    waiters: LevelVec,
    busy: GaugeVec,
    connections: LevelVec,
    replay_bytes: Level,
    observations_dropped: Total,
    accept_paused: Total,
    panics: Total,
    expressions: [Total; 3],
    log_lines_dropped: Total,
    reservations: [Total; 5],
    reservations_pending: Level,
    reservation_ttl: CountedHistogram,
}

/// What gauges are read off.
pub(crate) struct Gauges<'a> {
    /// Registrations.
    pub(crate) registry: &'a Registry,
    /// The current snapshot.
    pub(crate) snapshot: &'a Snapshot,
    /// Levels of every core; empty while there is no data plane.
    pub(crate) levels: &'a [CoreLevels],
    /// How round-trip times are measured.
    pub(crate) rtt: Option<RttStatus>,
    /// Version of the routing configuration.
    pub(crate) routing_version: u64,
    /// Lines that the log has dropped.
    pub(crate) log_lines_dropped: u64,
}

/// A histogram whose buckets somebody else counts.
#[derive(Clone)]
struct CountedHistogram {
    desc: Desc,
    counts: Arc<Mutex<ReservationCounts>>,
}

/// A counter that somebody else counts: it follows their total.
struct Total {
    counter: IntCounter,
    seen: u64,
}

// === impl Metrics ===

impl Metrics {
    #[expect(clippy::too_many_lines, reason = "a table, one entry a family")]
    pub(crate) fn new(prefix: &str) -> Self {
        let registry = prometheus::Registry::new();
        let opts = |name: &str, help: &str| Opts::new(format!("{prefix}{name}"), help);
        let counters = |name: &str, help: &str, labels: &[&str]| {
            register(&registry, IntCounterVec::new(opts(name, help), labels))
        };
        let counter = |name: &str, help: &str| register(&registry, IntCounter::with_opts(opts(name, help)));
        let int_gauges = |name: &str, help: &str, labels: &[&str]| {
            register(&registry, LevelVec::new(opts(name, help), labels))
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            register(&registry, GaugeVec::new(opts(name, help), labels))
        };
        let histograms = |name: &str, help: &str, buckets: &[f64], labels: &[&str]| {
            let opts = HistogramOpts::from(opts(name, help)).buckets(buckets.to_vec());
            register(&registry, HistogramVec::new(opts, labels))
        };
        let total = |name: &str, help: &str| Total { counter: counter(name, help), seen: 0 };
        let expressions = counters(
            "routing_expressions_total",
            "Values of x-routing-method; cached: kept from before, read: read anew, refused: answered with 400",
            &["result"],
        );
        let rtt_faults = counters(
            "rtt_faults_total",
            "Faults of the kernel program that measures round-trip times; other sources count for what it misses",
            &["fault"],
        );
        Self {
            requests: counters(
                "requests_total",
                "Requests that ended, by the status sent; 499: the client left before one was",
                &["routing_key", "model", "inference_server_id", "status"],
            ),
            attempts: counters(
                "proxy_attempts_total",
                "Attempts at a backend, by how they ended",
                &["routing_key", "model", "inference_server_id", "result"],
            ),
            retries: counters(
                "proxy_retries_total",
                "Attempts that followed a failed one, by the backend tried and how the one before ended",
                &["routing_key", "model", "inference_server_id", "reason"],
            ),
            selections: counters(
                "routing_selections_total",
                "Requests for which a backend was chosen; primary: the first of its key's ranking",
                &["routing_key", "model", "inference_server_id", "algorithm", "selection"],
            ),
            duration: histograms(
                "proxy_duration_seconds",
                "From a request's arrival to the first byte of its response sent",
                &DURATION_BUCKETS,
                &["routing_key", "model"],
            ),
            routing: histograms(
                "routing_duration_seconds",
                "Time of a request spent in decisions and in waiting for one",
                &ROUTING_BUCKETS,
                &["routing_key", "model"],
            ),
            waits: histograms(
                "routing_wait_seconds",
                "Time that requests waited for a place, those that did, by what they waited for at the end",
                &WAIT_BUCKETS,
                &["routing_key", "model", "reason"],
            ),
            rejections: counters(
                "admission_rejections_total",
                "Requests that were not let in, or not waited for any longer",
                &["routing_key", "model", "reason"],
            ),
            kv_skips: counters(
                "routing_kv_free_token_fallback_selections_total",
                "Requests for which a better-ranked cluster was passed over for lack of free KV tokens",
                &["routing_key", "model"],
            ),
            expired: counter("registrations_expired_total", "Registrations whose lease ran out"),
            routing_changes: counters(
                "routing_config_changes_total",
                "Attempts to change the routing configuration, by how they ended",
                &["result"],
            ),
            routing_version: register(
                &registry,
                Level::with_opts(opts("routing_config_version", "Version of the routing configuration")),
            ),
            ranking_build: register(
                &registry,
                Histogram::with_opts(
                    HistogramOpts::from(opts(
                        "ranking_build_seconds",
                        "Time to build a ranking table or bring it up to date, off the publishing path",
                    ))
                    .buckets(BUILD_BUCKETS.to_vec()),
                ),
            ),
            ranking_share_deviation: gauges(
                "ranking_share_deviation_ratio",
                "Largest deviation of a cluster's ranking slots from its fair share, relative to that share",
                &["routing_key", "model"],
            ),
            ranking_table_bytes: register(
                &registry,
                Level::with_opts(opts(
                    "ranking_table_bytes",
                    "Memory of the current snapshot's ranking tables",
                )),
            ),
            series_overflow: counter(
                "metric_series_overflow_total",
                "Observations counted under the label value `other` because there are too many series",
            ),
            active_servers: int_gauges(
                "active_inference_servers",
                "Backends that take requests of a target",
                &["routing_key", "model"],
            ),
            backends: int_gauges("backends", "Registered backends, by health", &["health"]),
            rtt: gauges(
                "backend_rtt_seconds",
                "Round-trip time to a backend, by the source that counts; probe: TCP connect time of health checks",
                &["inference_server_id", "source"],
            ),
            rtt_endpoints: register(
                &registry,
                Level::with_opts(opts(
                    "rtt_endpoints",
                    "Addresses that the kernel program measures; 0 where it is not attached",
                )),
            ),
            rtt_faults: KernelFault::ALL
                .map(|fault| Total { counter: rtt_faults.with_label_values(&[fault.as_str()]), seen: 0 }),
            snapshot_version: register(
                &registry,
                Level::with_opts(opts("snapshot_version", "Version of the current snapshot")),
            ),
            snapshot_age: register(
                &registry,
                Gauge::with_opts(opts(
                    "snapshot_age_seconds",
                    "Time since the current snapshot was published",
                )),
            ),
            core_snapshot_version: int_gauges(
                "core_snapshot_version",
                "Version of the snapshot that a core last looked at",
                &["core"],
            ),
            waiters: int_gauges("routing_waiters", "Requests that wait for a place", &["core"]),
            busy: gauges(
                "core_busy_ratio",
                "Share of time that a core thread worked, over the last second",
                &["core"],
            ),
            connections: int_gauges(
                "connections",
                "Open connections to clients and to backends, with a request on them or idle",
                &["side", "state"],
            ),
            replay_bytes: register(
                &registry,
                Level::with_opts(opts(
                    "proxy_replay_buffer_bytes",
                    "Bytes of request bodies held for replay",
                )),
            ),
            observations_dropped: total(
                "observations_dropped_total",
                "Observations that a core dropped because its queue was full",
            ),
            accept_paused: total("accept_paused_total", "Times that accepting paused at a limit"),
            log_lines_dropped: total("log_lines_dropped_total", "Log lines dropped because stderr was slow"),
            panics: total("request_panics_total", "Requests that met a panic"),
            expressions: ["cached", "read", "refused"]
                .map(|result| Total { counter: expressions.with_label_values(&[result]), seen: 0 }),
            reservations: [
                total("reservations_created_total", "Reservations made for work just sent to a cluster"),
                total("reservations_expired_total", "Reservations that ended after their round trip"),
                total("reservations_released_total", "Reservations that ended with their attempt"),
                total(
                    "reservations_dropped_total",
                    "Reservations that ended with their backend's registration",
                ),
                total(
                    "reservations_handed_over_total",
                    "Reservations that ended with a report that says it includes their attempt",
                ),
            ],
            reservations_pending: register(
                &registry,
                Level::with_opts(opts("reservations_pending", "Reservations that have not ended")),
            ),
            reservation_ttl: register(
                &registry,
                CountedHistogram::new(&opts(
                    "reservation_ttl_seconds",
                    "For how long reservations were made to live, those that end by time",
                )),
            ),
            registry,
        }
    }

    pub(crate) fn count_overflow(&self) {
        self.series_overflow.inc();
    }

    /// All metrics, as text.
    pub(crate) fn render(&mut self, gauges: &Gauges<'_>) -> String {
        self.set_registry(gauges.registry);
        self.set_snapshot(gauges.snapshot);
        self.set_levels(gauges.levels);
        self.set_rtt(gauges.rtt.as_ref());
        self.routing_version.set(gauges.routing_version);
        self.log_lines_dropped.follow(gauges.log_lines_dropped);
        let mut text = String::new();
        match TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text) {
            Ok(()) => text,
            Err(error) => {
                tracing::error!(%error, "metrics cannot be written");
                text
            }
        }
    }

    fn set_registry(&self, registry: &Registry) {
        self.rtt.reset();
        let mut by_condition = BTreeMap::from([("unknown", 0), ("healthy", 0), ("unhealthy", 0)]);
        for registration in registry.backends() {
            let condition = match registration.health.condition() {
                Condition::Unknown => "unknown",
                Condition::Healthy => "healthy",
                Condition::Unhealthy => "unhealthy",
            };
            *by_condition.entry(condition).or_default() += 1;
            if let Some((rtt, source)) = registration.rtt() {
                self.rtt
                    .with_label_values(&[registration.id.as_str(), source.as_str()])
                    .set(rtt.as_secs_f64());
            }
        }
        for (condition, count) in by_condition {
            self.backends.with_label_values(&[condition]).set(count);
        }
    }

    fn set_rtt(&mut self, status: Option<&RttStatus>) {
        let Some(kernel) = status.and_then(|status| status.kernel.as_ref()) else { return };
        self.rtt_endpoints.set(kernel.entries as u64);
        for (total, (_, count)) in self.rtt_faults.iter_mut().zip(kernel.faults) {
            total.follow(count);
        }
    }

    fn set_snapshot(&self, snapshot: &Snapshot) {
        self.active_servers.reset();
        self.ranking_share_deviation.reset();
        let mut table_bytes = 0;
        for target in snapshot.targets() {
            let active: usize = target.clusters.iter().map(|cluster| cluster.backends.len()).sum();
            let labels = [target.name.routing_key.as_deref().unwrap_or(""), &*target.name.model];
            self.active_servers.with_label_values(&labels).set(active as u64);
            if let Some(table) = &target.ranking {
                self.ranking_share_deviation.with_label_values(&labels).set(table.share_deviation());
                table_bytes += table.memory_bytes() as u64;
            }
        }
        self.ranking_table_bytes.set(table_bytes);
        self.snapshot_version.set(snapshot.version);
        if snapshot.version > 0 {
            let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
            self.snapshot_age.set(now_ms.saturating_sub(snapshot.published_at_unix_ms) as f64 / 1e3);
        }
    }

    fn set_levels(&mut self, levels: &[CoreLevels]) {
        if levels.is_empty() {
            return;
        }
        let sum = |of: fn(&CoreLevels) -> u64| levels.iter().map(of).sum::<u64>();
        for level in levels {
            let core = [level.cpu.to_string()];
            self.busy.with_label_values(&core).set(level.busy_ratio);
            self.waiters.with_label_values(&core).set(level.waiters);
            self.core_snapshot_version.with_label_values(&core).set(level.snapshot_version);
        }
        for (side, state, count) in [
            ("client", "active", sum(|level| level.client_active)),
            ("client", "idle", sum(|level| level.client_idle)),
            ("upstream", "active", sum(|level| level.upstream_active)),
            ("upstream", "idle", sum(|level| level.upstream_idle)),
        ] {
            self.connections.with_label_values(&[side, state]).set(count);
        }
        self.replay_bytes.set(sum(|level| level.replay_bytes));
        self.observations_dropped.follow(sum(|level| level.observations_dropped));
        self.accept_paused.follow(sum(|level| level.accept_paused));
        self.panics.follow(sum(|level| level.panics));
        let [cached, read, refused] = &mut self.expressions;
        cached.follow(sum(|level| level.expressions_found));
        read.follow(sum(|level| level.expressions_read));
        refused.follow(sum(|level| level.expressions_refused));
        let counts = levels.iter().map(|level| &level.reservations).sum::<ReservationCounts>();
        let ended = [counts.created, counts.expired, counts.released, counts.dropped, counts.handed_over];
        for (total, count) in self.reservations.iter_mut().zip(ended) {
            total.follow(count);
        }
        self.reservations_pending.set(counts.pending);
        self.reservation_ttl.set(counts);
    }
}

/// Names and labels are constants of this file and the prefix is checked when it is read.
fn register<C: Collector + Clone + 'static>(
    registry: &prometheus::Registry,
    collector: prometheus::Result<C>,
) -> C {
    let collector = collector.expect("a valid metric");
    registry.register(Box::new(collector.clone())).expect("a metric of its own name");
    collector
}

// === impl CountedHistogram ===

impl CountedHistogram {
    fn new(opts: &Opts) -> prometheus::Result<Self> {
        Ok(Self { desc: opts.describe()?, counts: Arc::default() })
    }

    fn set(&self, counts: ReservationCounts) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }
}

impl Collector for CountedHistogram {
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

// === impl Total ===

impl Total {
    fn follow(&mut self, total: u64) {
        self.counter.inc_by(total.saturating_sub(self.seen));
        self.seen = self.seen.max(total);
    }
}
