//! What one routing decision costs, by algorithm, number of clusters and load.
//!
//! `cargo bench -p stargate-bench --bench decide [-- [--quick] [<part of a name>] [<clusters>]]`. One table: median and
//! 99th percentile of the time per decision in nanoseconds, over batches of 64 decisions, and the calls of the
//! allocator in all of them together. Batches, because reading the clock costs as much as a decision. Every
//! decision has another key, dropping what was selected is part of the time, and all seeds are fixed.
//!
//! Where a reservation is made, the time is that of its whole life, and of its attempt's: with every decision one
//! reservation expires, one attempt gets its first byte, and one ends. Their batches alternate with batches of decisions
//! alone, so that what the machine does meanwhile happens to both; the line below tells what is left without these.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    collections::VecDeque,
    env,
    hint::black_box,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use stargate_routing::{
    Accounting, Algorithm, Backend, BackendUid, Cluster, ClusterStats, ClusterUid, Comparator, CoreLoads,
    Counted, Decision, DecisionState, Exclusions, Nanos, PowerOfNParameters, PrimaryAdmission,
    PulsarParameters, PulsarWaitAndWidenParameters, RankingTable, RendezvousWeight, RendezvousWeights,
    RoutingRequest, Running, SampleCount, Seed, Target, TargetName, Tokens, TokensPerSecond,
    WaitAndWidenParameters, Widening, decide, decide_and_enter,
};

const CLUSTER_COUNTS: [usize; 4] = [4, 20, 200, 1000];
const KEYS: usize = 1024;
const SEED: u64 = 7;
const BATCH: usize = 64;
const BATCHES: usize = 4_000;
const QUICK_BATCHES: usize = 200;
/// Between two requests of a core, where time matters.
const PACE: Duration = Duration::from_micros(10);
/// Attempts without a first byte, and as many with it: 30 ms of them, in which their reservations expire.
const QUEUED: usize = 3_000;
/// A case that is slow stops here with the batches that it has.
const CASE_MAX: Duration = Duration::from_millis(400);

/// What a measurement varies.
#[derive(Clone)]
struct Case {
    id: &'static str,
    algorithm: Algorithm,
    has_key: bool,
    /// Since the request arrived.
    elapsed: Duration,
    /// Whether the target has the table of its ranking.
    has_table: bool,
    /// Whether all engines are full, so that nothing is selected.
    is_full: bool,
    /// Whether the first attempt failed, and the cluster that it had chosen is excluded.
    is_retry: bool,
    then: Then,
}

/// What is done with a decision.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Nothing.
    Dropped,
    /// It is entered as load, and leaves again at once.
    Entered,
    /// It is entered and reserved, and told to the other cores with many others.
    Batched,
    /// It is entered and reserved, and places are so scarce that the other cores are told at once.
    WrittenThrough,
}

/// Attempts of one core under way, and its time.
#[derive(Default)]
struct Flow {
    now: Duration,
    /// Waiting for their first byte, the oldest first.
    queued: VecDeque<Running>,
    answering: VecDeque<Running>,
}

/// A target, and the load on it while it is measured.
struct Fleet {
    target: Target,
    _running: Vec<Counted>,
}

/// Counts the calls of its own thread.
struct CountingAllocator;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract. Counting
// allocates nothing itself: the counter is a constant-initialised thread-local without a destructor.
#[allow(unsafe_code, reason = "a global allocator is the only way to see every allocation")]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller keeps the contract of `dealloc`, and the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn power_of_n(sample_count: u64, comparator: Comparator) -> Algorithm {
    let sample_count = SampleCount::new(sample_count).expect("within bounds");
    Algorithm::PowerOfN(PowerOfNParameters { sample_count, comparator })
}

fn pulsar(consider_kv_free_tokens: bool) -> Algorithm {
    Algorithm::Pulsar(PulsarParameters {
        seed: Seed::new("bench"),
        weight: RendezvousWeight::default(),
        consider_kv_free_tokens,
        comparator: Comparator::default(),
    })
}

fn widening() -> Widening {
    Widening { seed: Seed::new("bench"), max_queued: 4, affinity_wait: ms(50), ..Widening::default() }
}

fn wait_and_widen() -> Algorithm {
    let parameters = WaitAndWidenParameters { widening: widening(), affinity_group: 2, ..Default::default() };
    Algorithm::WaitAndWiden(parameters)
}

fn pulsar_wait_and_widen(primary_admission: PrimaryAdmission) -> Algorithm {
    Algorithm::PulsarWaitAndWiden(PulsarWaitAndWidenParameters {
        widening: widening(),
        primary_admission,
        ..Default::default()
    })
}

/// As recommended: what a key would wait at its primary counts as waited.
fn spread(algorithm: &Algorithm) -> Algorithm {
    let mut algorithm = algorithm.clone();
    if let Algorithm::PulsarWaitAndWiden(parameters) = &mut algorithm {
        parameters.affinity_wait_spread = 1.0;
    }
    algorithm
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn cases() -> Vec<Case> {
    let case = |id, algorithm| Case {
        id,
        algorithm,
        has_key: false,
        elapsed: Duration::ZERO,
        has_table: true,
        is_full: false,
        is_retry: false,
        then: Then::Dropped,
    };
    let keyed = |id, algorithm| Case { has_key: true, ..case(id, algorithm) };
    let ttft = power_of_n(2, Comparator::Ttft);
    let by_capacity = pulsar_wait_and_widen(PrimaryAdmission::Capacity);
    vec![
        case("power-of-n ttft", ttft.clone()),
        Case { then: Then::Entered, ..case("power-of-n ttft, entering", ttft.clone()) },
        Case { then: Then::Batched, ..case("power-of-n ttft, reserving", ttft.clone()) },
        Case { then: Then::WrittenThrough, ..case("power-of-n ttft, scarce places", ttft.clone()) },
        Case { is_retry: true, ..case("power-of-n ttft, a retry", ttft) },
        case("power-of-n num-requests-queued", power_of_n(2, Comparator::NumRequestsQueued)),
        case("power-of-8 ttft-backlog", power_of_n(8, Comparator::TtftBacklog)),
        case("round-robin", Algorithm::RoundRobin),
        case("random", Algorithm::Random),
        Case { then: Then::Batched, ..case("random, reserving", Algorithm::Random) },
        keyed("pulsar", pulsar(false)),
        Case { is_retry: true, ..keyed("pulsar, a retry", pulsar(false)) },
        keyed("pulsar by free KV tokens", pulsar(true)),
        Case { has_table: false, ..keyed("pulsar without a table", pulsar(false)) },
        case("wait-and-widen, no key", wait_and_widen()),
        keyed("wait-and-widen, a group of 2", wait_and_widen()),
        Case { elapsed: ms(60), ..keyed("wait-and-widen, widened", wait_and_widen()) },
        Case { is_full: true, elapsed: ms(60), ..keyed("wait-and-widen, all full", wait_and_widen()) },
        case("pulsar-w-a-w, no key", by_capacity.clone()),
        keyed("pulsar-w-a-w, eligible", pulsar_wait_and_widen(PrimaryAdmission::Eligible)),
        keyed("pulsar-w-a-w, capacity", by_capacity.clone()),
        keyed("pulsar-w-a-w, waits spread", spread(&by_capacity)),
        Case { then: Then::Entered, ..keyed("pulsar-w-a-w, entering", by_capacity.clone()) },
        Case { elapsed: ms(60), ..keyed("pulsar-w-a-w, first band", by_capacity.clone()) },
        Case { elapsed: ms(5_000), ..keyed("pulsar-w-a-w, all bands", by_capacity.clone()) },
        Case { is_full: true, elapsed: ms(60), ..keyed("pulsar-w-a-w, band full", by_capacity.clone()) },
        Case { is_full: true, elapsed: ms(5_000), ..keyed("pulsar-w-a-w, all full", by_capacity) },
    ]
}

fn cluster(index: usize, case: &Case, rng: &mut fastrand::Rng) -> Cluster {
    let cluster_id: Arc<str> = format!("cluster-{index:04}").into();
    let backends = (0..2_usize).map(|position| {
        Arc::new(Backend {
            uid: BackendUid((2 * index + position) as u64),
            backend_id: format!("{cluster_id}-{position}").into(),
            cluster_id: cluster_id.clone(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 9000)),
            authority: "127.0.0.1:9000".into(),
            base_path: "".into(),
            publishes_stats: true,
            rtt: Arc::default(),
        })
    });
    let kv_free = rng.u64(0..200_000);
    let stats = ClusterStats {
        last_mean_input_tps: TokensPerSecond(f64::from(rng.u32(5_000..20_000))),
        max_input_tps: Some(TokensPerSecond(f64::from(rng.u32(20_000..40_000)))),
        queue_size: rng.u64(0..8),
        queued_input: Tokens(rng.u64(0..8_000)),
        num_running_queries: if case.is_full { 64 } else { rng.u64(0..64) },
        max_engine_concurrency: if case.then == Then::Batched { 1_000_000 } else { 32 },
        accounting: if case.then.reserves() { Accounting::Reservations } else { Accounting::InFlight },
        kv_free: Some(Tokens(kv_free)),
        rtt: Nanos(rng.u64(100_000..5_000_000)),
        ..ClusterStats::default()
    };
    Cluster {
        uid: ClusterUid(index as u64),
        id_hash: Cluster::hash_id(&cluster_id),
        backends: backends.collect(),
        cluster_id,
        rendezvous: RendezvousWeights::reported(&stats),
        stats,
        load: Arc::default(),
    }
}

fn fleet(case: &Case, count: usize, is_loaded: bool) -> Fleet {
    let mut rng = fastrand::Rng::with_seed(SEED);
    let clusters: Vec<_> = (0..count).map(|index| cluster(index, case, &mut rng)).collect();
    let in_flight = clusters.iter().filter(|_| is_loaded).flat_map(|cluster| {
        (0..rng.usize(0..40)).map(|_| cluster.load.enter(Tokens(1_000))).collect::<Vec<_>>()
    });
    let running = in_flight.collect();
    let name = TargetName { routing_key: Some("tenant".into()), model: "llama-3".into() };
    let seed = Seed::new("bench");
    let ranks = case.algorithm.ranked_by().is_some();
    let table = (ranks && case.has_key && case.has_table)
        .then(|| Arc::new(RankingTable::build(&name, &seed, RendezvousWeight::default(), &clusters)));
    let target = Target {
        name: Arc::new(name),
        policy: Arc::default(),
        round_robin: Arc::default(),
        clusters,
        ranking_revision: 1 + count as u64,
        ranking: table,
    };
    Fleet { target, _running: running }
}

fn request<'a>(case: &Case, keys: &'a [String], turn: usize) -> RoutingRequest<'a> {
    RoutingRequest {
        input_tokens: Tokens(500 + turn as u64),
        affinity_key: case.has_key.then(|| keys[turn].as_bytes()),
        elapsed: case.elapsed,
        ..RoutingRequest::default()
    }
}

/// What each request has tried already.
fn exclusions(case: &Case, target: &Target, keys: &[String], state: &mut DecisionState) -> Vec<Exclusions> {
    let tried = |turn| {
        let mut exclusions = Exclusions::default();
        let request = request(case, keys, turn);
        if case.is_retry
            && let Decision::Selected(selected) =
                decide(target, &case.algorithm, &request, &Exclusions::default(), state)
        {
            assert!(exclusions.exclude_cluster(target.clusters[selected.cluster.0].uid));
        }
        exclusions
    };
    (0..KEYS).map(tried).collect()
}

impl Then {
    fn reserves(self) -> bool {
        matches!(self, Self::Batched | Self::WrittenThrough)
    }

    /// How many cores there are to be told.
    fn cores(self) -> usize {
        match self {
            Self::Dropped | Self::Entered => 1,
            Self::Batched | Self::WrittenThrough => 64,
        }
    }
}

impl Flow {
    /// Takes an attempt over that was just made, and lets the others go on.
    fn go_on(&mut self, made: Option<Running>) {
        self.queued.extend(made);
        while self.queued.len() > QUEUED {
            let mut answered = self.queued.pop_front().expect("more than one");
            answered.first_byte();
            self.answering.push_back(answered);
        }
        while self.answering.len() > QUEUED {
            self.answering.pop_front();
        }
        self.now += PACE;
    }
}

/// Nanoseconds per decision in every batch, ordered.
#[derive(Default)]
struct Times {
    all: Vec<f64>,
    /// Of decisions alone, in between.
    alone: Vec<f64>,
    allocator_calls: u64,
}

impl Times {
    /// Median and 99th percentile.
    fn quantiles(times: &[f64]) -> [f64; 2] {
        [0.5, 0.99].map(|share| times[((times.len() - 1) as f64 * share) as usize])
    }
}

fn measure(case: &Case, target: &Target, keys: &[String], batches: usize) -> Times {
    let loads = CoreLoads::new(0, case.then.cores(), CoreLoads::TTL);
    let mut state = DecisionState::with_seed(SEED).with_loads(loads);
    let exclusions = exclusions(case, target, keys, &mut state);
    let mut turns = (0..KEYS).cycle();
    let mut flow = Flow::default();
    flow.queued.reserve(QUEUED + 1);
    flow.answering.reserve(QUEUED + 1);
    let mut run = |then: Then| {
        let start = Instant::now();
        for turn in turns.by_ref().take(BATCH) {
            let request = request(case, keys, turn);
            let (target, exclusions) = (black_box(target), black_box(&exclusions[turn]));
            if then == Then::Dropped {
                drop(black_box(decide(target, &case.algorithm, &request, exclusions, &mut state)));
                continue;
            }
            let now = flow.now;
            let (decision, running) =
                black_box(decide_and_enter(target, &case.algorithm, &request, exclusions, &mut state, now));
            drop(decision);
            if then.reserves() {
                flow.go_on(running);
            }
        }
        start.elapsed().as_secs_f64() * 1e9 / BATCH as f64
    };
    let warm_up = if case.then.reserves() { 3 * QUEUED } else { KEYS };
    for _ in 0..warm_up.div_ceil(BATCH) {
        run(case.then);
    }
    let mut times =
        Times { all: Vec::with_capacity(batches), alone: Vec::with_capacity(batches), allocator_calls: 0 };
    let calls_before = CALLS.get();
    let began = Instant::now();
    while times.all.len() < batches && began.elapsed() < CASE_MAX {
        times.all.push(run(case.then));
        if case.then.reserves() {
            times.alone.push(run(Then::Dropped));
        }
    }
    times.allocator_calls = CALLS.get() - calls_before;
    times.all.sort_unstable_by(f64::total_cmp);
    times.alone.sort_unstable_by(f64::total_cmp);
    times
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let batches =
        if arguments.iter().any(|argument| argument == "--quick") { QUICK_BATCHES } else { BATCHES };
    let counts: Vec<usize> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let counts = if counts.is_empty() { CLUSTER_COUNTS.to_vec() } else { counts };
    let filter =
        arguments.iter().find(|argument| !argument.starts_with('-') && argument.parse::<usize>().is_err());
    let keys: Vec<String> = (0..KEYS).map(|key| format!("session-{key:08x}-of-a-user")).collect();
    println!("ns per decision, median / 99th percentile; idle: nothing in flight, loaded: 0..40 each");
    print!("{:32}", "");
    for count in &counts {
        print!(" | {:>13} {:>13}", format!("{count} idle"), format!("{count} loaded"));
    }
    println!(" | allocator calls");
    for case in cases() {
        if filter.is_some_and(|filter| !case.id.contains(filter.as_str())) {
            continue;
        }
        print!("{:32}", case.id);
        let (mut all_calls, mut lives) = (0, Vec::new());
        for count in counts.iter().copied() {
            print!(" |");
            for is_loaded in [false, true] {
                let fleet = fleet(&case, count, is_loaded);
                let times = measure(&case, &fleet.target, &keys, batches);
                let [median, tail] = Times::quantiles(&times.all);
                print!(" {median:>6.0}/{tail:<6.0}");
                all_calls += times.allocator_calls;
                if case.then.reserves() {
                    lives.push(median - Times::quantiles(&times.alone)[0]);
                }
            }
        }
        println!(" | {all_calls}");
        for (position, life) in lives.iter().enumerate() {
            match position {
                0 => print!("{:32} |", "  of that, the reservation"),
                _ if position % 2 == 0 => print!(" |"),
                _ => {}
            }
            print!(" {life:>13.0}");
        }
        if !lives.is_empty() {
            println!(" |");
        }
    }
}
