//! A gateway of one core: its snapshot, its reservations, its waiters. The decisions are `stargate-routing`'s own.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use stargate_routing::{
    Accounting, Algorithm, Backend, BackendRtt, BackendUid, Cluster, ClusterLoad, ClusterStats, ClusterUid,
    CoreLoads, Decision, DecisionState, Exclusions, Inclusion, Inclusions, Nanos, Policy, RendezvousWeights,
    RoutingRequest, RttSource, Running, Snapshot, Target, TargetName, Tokens, TokensPerSecond,
    decide_and_enter,
};

use super::{
    engine::Report,
    run::{Job, Setup},
};

/// What the gateways of a run do.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) algorithm: Algorithm,
    pub(super) until: Until,
    /// How long a request waits for a place.
    pub(super) patience: Duration,
}

/// Until when a gateway adds what it has sent to what an engine reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Not at all.
    Never,
    /// The engine's next report, whatever that includes.
    NextReport,
    /// One round trip.
    RoundTrip,
    /// The report that includes it, as the engine says.
    Included,
    /// Its end: the larger of the report and what is in flight counts.
    End,
}

/// A request at its gateway.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) arrived: Duration,
    pub(super) key: u64,
    pub(super) tokens: u64,
    pub(super) lasts: Duration,
}

/// What came of those who waited.
#[derive(Default)]
pub(super) struct Served {
    pub(super) sent: Vec<(usize, Job)>,
    pub(super) rejected: u64,
}

pub(super) struct Gateway {
    number: usize,
    terms: Terms,
    state: DecisionState,
    snapshot: Snapshot,
    clusters: Vec<Known>,
    backends: Arc<[Arc<Backend>]>,
    name: Arc<TargetName>,
    policy: Arc<Policy>,
    reports: u64,
    /// Reports have come since the last publication.
    is_stale: bool,
    attempts: u64,
    /// By attempt: the cluster that it is at.
    running: HashMap<u64, (usize, Running)>,
    waiters: VecDeque<Asked>,
}

/// What a gateway knows of a cluster.
struct Known {
    load: Arc<ClusterLoad>,
    cluster_id: Arc<str>,
    id_hash: u64,
    stats: ClusterStats,
    inclusion: Arc<Inclusion>,
    /// Since the last publication.
    has_reported: bool,
}

/// The one core of a gateway.
const CORE: u32 = 0;
/// Longer than a run.
const AGES: Duration = Duration::from_secs(1 << 20);

fn cluster_id(index: usize) -> String {
    format!("cluster-{index:03}")
}

// === impl Gateway ===

impl Gateway {
    /// When waiters look again, nothing happening.
    pub(super) const POLL: Duration = Duration::from_millis(25);
    /// Between two publications, as in the control plane.
    pub(super) const PUBLISH_INTERVAL: Duration = Duration::from_millis(5);

    pub(super) fn new(number: usize, setup: &Setup, terms: &Terms, seed: u64) -> Self {
        let rtt = Arc::new(BackendRtt::default());
        rtt.set(RttSource::Ebpf, Nanos(setup.rtt.as_nanos() as u64));
        let stats = ClusterStats {
            last_mean_input_tps: TokensPerSecond(10_000.0),
            max_input_tps: Some(TokensPerSecond(10_000.0)),
            max_engine_concurrency: setup.slots as u64,
            rtt: Nanos(setup.rtt.as_nanos() as u64),
            accounting: match terms.until {
                Until::End => Accounting::InFlight,
                _ => Accounting::Reservations,
            },
            ..ClusterStats::default()
        };
        let ttl = match terms.until {
            Until::NextReport => AGES..=AGES,
            _ => CoreLoads::TTL,
        };
        let known = |index: usize| Known {
            load: Arc::default(),
            id_hash: Cluster::hash_id(&cluster_id(index)),
            cluster_id: cluster_id(index).into(),
            stats: stats.clone(),
            inclusion: Arc::default(),
            has_reported: false,
        };
        let clusters: Vec<Known> = (0..setup.clusters).map(known).collect();
        let backend = |(index, known): (usize, &Known)| {
            Arc::new(Backend {
                uid: BackendUid(index as u64),
                backend_id: known.cluster_id.clone(),
                cluster_id: known.cluster_id.clone(),
                address: ([127, 0, 0, 1], 9000).into(),
                authority: "127.0.0.1:9000".into(),
                base_path: "".into(),
                publishes_stats: true,
                rtt: rtt.clone(),
            })
        };
        let mut gateway = Self {
            number,
            terms: terms.clone(),
            state: DecisionState::with_seed(seed).with_loads(CoreLoads::new(CORE, 1, ttl)),
            snapshot: Snapshot::default(),
            backends: clusters.iter().enumerate().map(backend).collect(),
            clusters,
            name: Arc::new(TargetName { routing_key: None, model: "sim".into() }),
            policy: Arc::default(),
            reports: 0,
            is_stale: false,
            attempts: 0,
            running: HashMap::new(),
            waiters: VecDeque::new(),
        };
        gateway.publish();
        gateway
    }

    pub(super) fn arrived(&mut self, asked: Asked) {
        self.waiters.push_back(asked);
    }

    pub(super) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// The answer to an attempt has come to its end.
    pub(super) fn answered(&mut self, attempt: u64) {
        self.running.remove(&attempt);
    }

    /// Takes a report, as the control plane does. True when it is the first since the last publication.
    pub(super) fn reported(&mut self, cluster: usize, report: &Report) -> bool {
        self.reports += 1;
        let known = &mut self.clusters[cluster];
        known.stats.num_running_queries = report.running;
        known.stats.queue_size = report.queued;
        known.stats.queued_input = Tokens(report.queued_tokens);
        let cores = report.of_gateway(self.number, CORE).into_iter().collect();
        known.inclusion = Arc::new(Inclusion { report: self.reports, cores });
        known.has_reported = true;
        !std::mem::replace(&mut self.is_stale, true)
    }

    /// Decides those who wait, oldest first: all of them, or up to the first that finds no place, which is likely to
    /// speak for those behind it.
    pub(super) fn serve(&mut self, now: Duration, all: bool) -> Served {
        let mut served = Served::default();
        let (patience, mut waiting) = (self.terms.patience, std::mem::take(&mut self.waiters));
        let mut is_done = false;
        let mut decide = |asked: &Asked| {
            let sent = if is_done { None } else { self.decide(asked, now) };
            is_done = sent.is_none() && !all;
            sent
        };
        waiting.retain(|asked| match decide(asked) {
            Some(sent) => {
                served.sent.push(sent);
                false
            }
            None if now.saturating_sub(asked.arrived) >= patience => {
                served.rejected += 1;
                false
            }
            None => true,
        });
        self.waiters = waiting;
        served
    }

    /// Where a request is sent, if there is a place for it.
    fn decide(&mut self, asked: &Asked, now: Duration) -> Option<(usize, Job)> {
        let target = self.snapshot.targets().first()?;
        let key = asked.key.to_le_bytes();
        let request = RoutingRequest {
            input_tokens: Tokens(asked.tokens),
            affinity_key: Some(&key),
            elapsed: now.saturating_sub(asked.arrived),
            ..RoutingRequest::default()
        };
        let exclusions = Exclusions::default();
        let decided =
            decide_and_enter(target, &self.terms.algorithm, &request, &exclusions, &mut self.state, now);
        let (Decision::Selected(selected), Some(mut running)) = decided else { return None };
        let (cluster, sequence) = (selected.cluster.0, running.sequence());
        self.attempts += 1;
        if self.terms.until != Until::Never {
            // Whether it waits for its prefill there is not told apart here.
            running.first_byte();
            self.running.insert(self.attempts, (cluster, running));
        }
        let &Asked { arrived, tokens, lasts, .. } = asked;
        let job = Job { gateway: self.number, attempt: self.attempts, sequence, tokens, lasts, arrived };
        Some((cluster, job))
    }

    /// Makes a snapshot of what is known, and has the core follow it.
    pub(super) fn publish(&mut self) {
        self.is_stale = false;
        let reported = self.clusters.iter_mut().map(|known| std::mem::take(&mut known.has_reported));
        let reported: Vec<bool> = reported.collect();
        if self.terms.until == Until::NextReport {
            self.running.retain(|_, (at, _)| !reported[*at]);
        }
        let clusters = self.clusters.iter().enumerate().map(|(index, known)| Cluster {
            uid: ClusterUid(index as u64),
            cluster_id: known.cluster_id.clone(),
            id_hash: known.id_hash,
            rendezvous: RendezvousWeights::reported(&known.stats),
            stats: known.stats.clone(),
            load: known.load.clone(),
            backends: [self.backends[index].clone()].into(),
        });
        let target = Target {
            name: self.name.clone(),
            policy: self.policy.clone(),
            round_robin: Arc::default(),
            clusters: clusters.collect(),
            ranking_revision: 1,
            ranking: None,
        };
        let mut snapshot = Snapshot::new(self.snapshot.version + 1, 0, vec![target]);
        snapshot.backends = Some(self.backends.clone());
        if self.terms.until == Until::Included {
            let inclusion = |(index, known): (usize, &Known)| {
                (ClusterUid(index as u64), BackendUid(index as u64), known.inclusion.clone())
            };
            snapshot.inclusions = Inclusions::new(self.clusters.iter().enumerate().map(inclusion).collect());
        }
        self.state.loads().follow(&snapshot);
        self.snapshot = snapshot;
    }
}
