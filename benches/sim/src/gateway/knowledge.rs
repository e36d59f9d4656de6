//! What a gateway knows of the clusters: their reports as they arrive, and what it has sent since.

use std::{ops::RangeInclusive, rc::Rc, sync::Arc, time::Duration};

use stargate_routing::{
    Accounting, Algorithm, Backend, BackendRtt, BackendUid, Cluster, ClusterIndex, ClusterLoad, ClusterStats,
    ClusterUid, CoreInclusion, CoreLoads, DecisionState, EffectiveStats, Exclusions, Inclusion, Inclusions,
    Nanos, RendezvousWeights, RoutingRequest, RttSource, Running, Snapshot, Target, TargetName, Tokens,
    TokensPerSecond, decide_and_enter,
};

use crate::{
    baselines::ClusterView,
    engine::Engine,
    model::EngineState,
    pylon::Pylon,
    scenario::{Accounted, Policy},
};

/// What is known of a cluster before it reports anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Number of the gateway that knows it.
    pub(crate) gateway: usize,
    pub(crate) slots: u64,
    pub(crate) input_tps: f64,
    pub(crate) rtt: Duration,
    pub(crate) is_routable: bool,
}

/// What there is to be seen.
pub(crate) struct Seen<'a> {
    pub(crate) pylons: &'a [Pylon],
    pub(crate) engines: &'a [Engine],
}

pub(super) struct Knowledge {
    gateway: usize,
    accounted: Accounted,
    shares_room: bool,
    clusters: Vec<Remembered>,
    /// The routable ones.
    target: Target,
    /// By position in `target`.
    members: Vec<usize>,
    /// By cluster: a target of it alone, by which a baseline's choice is entered.
    alone: Vec<Target>,
    views: Vec<ClusterView>,
    looked_at: Duration,
    rng: fastrand::Rng,
    revisions: u64,
    snapshots: u64,
}

struct Remembered {
    is_routable: bool,
    /// Position in the target's clusters.
    position: usize,
    /// Number of the last report.
    seen: u64,
    one_way: Duration,
    stats: ClusterStats,
    load: Arc<ClusterLoad>,
    backend: Arc<Backend>,
    inclusion: Arc<Inclusion>,
    in_flight: u64,
    /// When its share of the room was drawn last.
    drawn_at: Duration,
}

/// The one core of a gateway.
const CORE: u32 = 0;
/// Longer than a run.
const AGES: Duration = Duration::from_secs(1 << 20);
/// Between two publications of a control plane; a report is seen with the next one.
const PUBLISH_NANOS: u64 = 5_000_000;

/// What a gateway counts by that counts so.
pub(super) fn loads(accounted: Accounted) -> CoreLoads {
    let ttl: RangeInclusive<Duration> =
        if accounted == Accounted::NextReport { AGES..=AGES } else { CoreLoads::TTL };
    CoreLoads::new(CORE, 1, ttl)
}

// === impl Knowledge ===

impl Knowledge {
    pub(super) fn new(known: &[Known], policy: &Policy, seed: u64) -> Self {
        let Policy { accounted, shares_room, .. } = *policy;
        let gateway = known.first().map_or(0, |known| known.gateway);
        let clusters: Vec<Remembered> =
            known.iter().enumerate().map(|(index, known)| Remembered::new(index, known, accounted)).collect();
        let alone =
            clusters.iter().enumerate().map(|(index, cluster)| target(0, vec![cluster.cluster(index)]));
        let views = known.iter().map(|known| ClusterView {
            is_routable: known.is_routable,
            running: 0,
            queued: 0,
            queued_tokens: 0,
            slots: known.slots,
            input_tps: known.input_tps,
            rtt: known.rtt,
            in_flight: 0,
        });
        let mut knowledge = Self {
            gateway,
            accounted,
            shares_room,
            alone: alone.collect(),
            views: views.collect(),
            clusters,
            target: target(0, Vec::new()),
            members: Vec::new(),
            looked_at: Duration::ZERO,
            rng: fastrand::Rng::with_seed(seed),
            revisions: 0,
            snapshots: 0,
        };
        knowledge.rebuild();
        knowledge
    }

    pub(super) fn count(&self) -> usize {
        self.clusters.len()
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// The number of a cluster of the target.
    pub(super) fn cluster(&self, index: ClusterIndex) -> usize {
        self.members[index.0]
    }

    pub(super) fn set_routable(&mut self, cluster: usize, is_routable: bool) {
        self.clusters[cluster].is_routable = is_routable;
        self.views[cluster].is_routable = is_routable;
        self.rebuild();
    }

    pub(super) fn sent(&mut self, cluster: usize) {
        self.clusters[cluster].in_flight += 1;
    }

    pub(super) fn ended(&mut self, cluster: usize) {
        self.clusters[cluster].in_flight -= 1;
    }

    /// Takes in the reports that have become visible by `now`, and tells `reported` whose they are. Whether there are
    /// any.
    pub(super) fn look(
        &mut self,
        now: Duration,
        world: &Seen<'_>,
        loads: &Rc<CoreLoads>,
        mut reported: impl FnMut(usize),
    ) -> bool {
        let published = Duration::from_nanos(now.as_nanos() as u64 / PUBLISH_NANOS * PUBLISH_NANOS);
        if published <= self.looked_at {
            return false;
        }
        self.looked_at = published;
        let mut is_new = false;
        for (index, (cluster, pylon)) in self.clusters.iter_mut().zip(world.pylons).enumerate() {
            let one_way = cluster.one_way;
            let Some((number, report)) = pylon.latest_after(cluster.seen, |at| at + one_way <= published)
            else {
                continue;
            };
            is_new = true;
            cluster.seen = number;
            cluster.stats.take(&report.state);
            // Keys are placed by the greatest throughput there was, which a slow spell does not change.
            cluster.stats.last_mean_input_tps = TokensPerSecond(report.input_tps);
            // What was sent after the last draw has had the time to be in this report.
            if report.at >= cluster.drawn_at + one_way {
                cluster.drawn_at = now;
                cluster.stats.room_share.draw = self.rng.f32();
            }
            if cluster.is_routable {
                self.target.clusters[cluster.position].stats = cluster.stats.clone();
            }
            if self.accounted == Accounted::Exact {
                cluster.inclusion = Arc::new(inclusion(number, report.through.get(self.gateway)));
            }
            reported(index);
        }
        if is_new && self.shares_room {
            self.share_room();
        }
        if is_new && self.accounted == Accounted::Exact {
            self.snapshots += 1;
            let mut snapshot = Snapshot::new(self.snapshots, 0, Vec::new());
            let entry = |(index, cluster): (usize, &Remembered)| {
                (ClusterUid(index as u64), BackendUid(index as u64), cluster.inclusion.clone())
            };
            snapshot.inclusions = Inclusions::new(self.clusters.iter().enumerate().map(entry).collect());
            loads.follow(&snapshot);
        }
        is_new
    }

    /// Sets what of all room is this gateway's: its part of what the clusters run, as in the control plane.
    fn share_room(&mut self) {
        let all: u64 = self.clusters.iter().map(|cluster| cluster.stats.num_running_queries).sum();
        let ours: u64 = self.clusters.iter().map(|cluster| cluster.in_flight).sum();
        let share = if all == 0 { 1.0 } else { (ours.max(1) as f32 / all as f32).min(1.0) };
        for cluster in &mut self.target.clusters {
            cluster.stats.room_share.share = share;
        }
    }

    /// When the first report becomes visible that has not been seen.
    pub(super) fn next_report(&self, world: &Seen<'_>) -> Option<Duration> {
        let reports = self.clusters.iter().zip(world.pylons);
        let visible =
            reports.filter_map(|(cluster, pylon)| Some(pylon.first_after(cluster.seen)? + cluster.one_way));
        // One that came at the moment of a publication, but after it, is in the next one.
        let next = self.looked_at + Duration::from_nanos(PUBLISH_NANOS);
        visible.min().map(visible_from).map(|at| if at <= self.looked_at { next } else { at })
    }

    /// What a baseline sees.
    pub(super) fn views(&mut self, state: &DecisionState, now: Duration) -> &[ClusterView] {
        state.loads().advance(now);
        state.loads().flush();
        for (view, cluster) in self.views.iter_mut().zip(&self.clusters) {
            let stats = EffectiveStats::new(&cluster.stats, &cluster.load, 0);
            view.running = stats.num_running_queries;
            view.queued = stats.queue_size;
            view.queued_tokens = stats.queued_input.0;
            view.input_tps = cluster.stats.last_mean_input_tps.0;
            view.in_flight = cluster.in_flight;
        }
        &self.views
    }

    /// Counts a request as sent to this cluster.
    pub(super) fn enter(
        &mut self,
        cluster: usize,
        request: &RoutingRequest<'_>,
        state: &mut DecisionState,
        now: Duration,
    ) -> Option<Running> {
        let alone = &self.alone[cluster];
        decide_and_enter(alone, &Algorithm::Random, request, &Exclusions::default(), state, now).1
    }

    fn rebuild(&mut self) {
        self.revisions += 1;
        let routable = self.clusters.iter().enumerate().filter(|(_, cluster)| cluster.is_routable);
        self.members = routable.clone().map(|(index, _)| index).collect();
        let clusters = routable.map(|(index, cluster)| cluster.cluster(index)).collect();
        self.target = target(self.revisions, clusters);
        for (position, index) in self.members.iter().enumerate() {
            self.clusters[*index].position = position;
        }
    }
}

// === impl Remembered ===

impl Remembered {
    fn new(index: usize, known: &Known, accounted: Accounted) -> Self {
        let rtt = Nanos(known.rtt.as_nanos() as u64);
        let backend_rtt = Arc::new(BackendRtt::default());
        backend_rtt.set(RttSource::Ebpf, rtt);
        let stats = ClusterStats {
            last_mean_input_tps: TokensPerSecond(known.input_tps),
            max_input_tps: Some(TokensPerSecond(known.input_tps)),
            max_engine_concurrency: known.slots,
            rtt,
            accounting: match accounted {
                Accounted::InFlight => Accounting::InFlight,
                _ => Accounting::Reservations,
            },
            ..ClusterStats::default()
        };
        let id: Arc<str> = cluster_id(index).into();
        let backend = Backend {
            uid: BackendUid(index as u64),
            backend_id: id.clone(),
            cluster_id: id,
            address: ([127, 0, 0, 1], 9000).into(),
            authority: "127.0.0.1:9000".into(),
            base_path: "".into(),
            publishes_stats: true,
            rtt: backend_rtt,
        };
        Self {
            is_routable: known.is_routable,
            position: 0,
            seen: 0,
            one_way: known.rtt / 2,
            stats,
            load: Arc::default(),
            backend: Arc::new(backend),
            inclusion: Arc::default(),
            in_flight: 0,
            drawn_at: Duration::ZERO,
        }
    }

    fn cluster(&self, index: usize) -> Cluster {
        Cluster {
            uid: ClusterUid(index as u64),
            cluster_id: self.backend.cluster_id.clone(),
            id_hash: Cluster::hash_id(&self.backend.cluster_id),
            rendezvous: RendezvousWeights::reported(&self.stats),
            stats: self.stats.clone(),
            load: self.load.clone(),
            backends: [self.backend.clone()].into(),
        }
    }
}

/// Takes in what an engine said.
trait Take {
    fn take(&mut self, state: &EngineState);
}

impl Take for ClusterStats {
    fn take(&mut self, state: &EngineState) {
        // Capacity counts what an engine has, in slots or queued.
        self.num_running_queries = state.running + state.queued;
        self.queue_size = state.queued;
        self.queued_input = Tokens(state.queued_tokens);
        self.input_processing_queries = state.in_prefill;
        self.output_generation_queries = state.in_decode;
        self.total_query_input = Tokens(state.total_tokens);
        // Nothing is said of a cache without a bound.
        if state.kv_capacity_tokens > 0 {
            self.kv_capacity = Some(Tokens(state.kv_capacity_tokens));
            self.kv_used = Some(Tokens(state.kv_used_tokens));
        }
    }
}

/// When a report is seen that arrives at this time.
pub(crate) fn visible_from(arrives: Duration) -> Duration {
    Duration::from_nanos((arrives.as_nanos() as u64).next_multiple_of(PUBLISH_NANOS))
}

fn inclusion(report: u64, through: Option<&u64>) -> Inclusion {
    let included = through.filter(|through| **through > 0);
    let core = |through: &u64| CoreInclusion { core: CORE, through: *through, except: Box::default() };
    Inclusion { report, cores: included.map(core).into_iter().collect() }
}

fn target(ranking_revision: u64, clusters: Vec<Cluster>) -> Target {
    Target {
        name: Arc::new(TargetName { routing_key: None, model: "simulated".into() }),
        policy: Arc::default(),
        round_robin: Arc::default(),
        clusters,
        ranking_revision,
        ranking: None,
    }
}

fn cluster_id(index: usize) -> String {
    format!("cluster-{index:04}")
}
