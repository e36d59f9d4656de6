//! A decision allocates nothing: a core thread makes one for every request, and an allocator's lock or a
//! slow path in it would be in every request's way.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    collections::VecDeque,
    net::Ipv4Addr,
    sync::Arc,
    time::Duration,
};

use stargate_routing::{
    Accounting, Algorithm, Backend, BackendUid, Cluster, ClusterStats, ClusterUid, Comparator, CoreLoads,
    Decision, DecisionState, Exclusions, Inclusions, Nanos, PowerOfNParameters, PrimaryAdmission,
    PulsarParameters, PulsarWaitAndWidenParameters, RendezvousWeight, RendezvousWeights, ReservationCounts,
    RoutingRequest, Running, SampleCount, Seed, Snapshot, Target, TargetName, Tokens, TokensPerSecond,
    WaitAndWidenParameters, Widening, decide, decide_and_enter,
};

/// Counts what its own thread does, so that other threads of the test process do not show.
struct CountingAllocator;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn count_call() {
    CALLS.set(CALLS.get() + 1);
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract. Counting
// allocates nothing itself: the counter is a constant-initialised thread-local without a destructor.
#[allow(unsafe_code, reason = "a global allocator is the only way to see every allocation")]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_call();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_call();
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_call();
        // SAFETY: the caller keeps the contract of `realloc`, and the pointer came from `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count_call();
        // SAFETY: the caller keeps the contract of `dealloc`, and the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn calls_during<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = CALLS.get();
    let result = work();
    (CALLS.get() - before, result)
}

fn cluster(number: u64) -> Cluster {
    let cluster_id: Arc<str> = format!("cluster-{number:04}").into();
    let backends = (0..2).map(|position| {
        Arc::new(Backend {
            uid: BackendUid(number * 2 + position),
            backend_id: format!("{cluster_id}-{position}").into(),
            cluster_id: cluster_id.clone(),
            address: (Ipv4Addr::LOCALHOST, 9000).into(),
            authority: "127.0.0.1:9000".into(),
            base_path: "".into(),
            publishes_stats: true,
            rtt: Arc::default(),
        })
    });
    let stats = ClusterStats {
        last_mean_input_tps: TokensPerSecond(1_000.0 + number as f64),
        max_input_tps: Some(TokensPerSecond(2_000.0)),
        // Every third is full.
        num_running_queries: number % 3,
        max_engine_concurrency: 2,
        queued_input: Tokens(number),
        queue_time_estimates: [(0, Nanos(1_000)), (3, Nanos(2_000))].into(),
        kv_free: Some(Tokens(number * 100)),
        ..ClusterStats::default()
    };
    Cluster {
        uid: ClusterUid(number),
        id_hash: Cluster::hash_id(&cluster_id),
        rendezvous: RendezvousWeights::reported(&stats),
        stats,
        load: Arc::default(),
        backends: backends.collect(),
        cluster_id,
    }
}

fn algorithms() -> Vec<Algorithm> {
    let comparators = [
        Comparator::Ttft,
        Comparator::TtftBacklog,
        Comparator::QueueTime,
        Comparator::InputWorkSeconds,
        Comparator::Utilization,
        Comparator::NumRequestsQueued,
    ];
    let power_of_n = comparators.iter().flat_map(|comparator| {
        [1, 2, 8, 64].map(|count| {
            Algorithm::PowerOfN(PowerOfNParameters {
                sample_count: SampleCount::new(count).unwrap(),
                comparator: *comparator,
            })
        })
    });
    let pulsar = [false, true].map(|consider_kv_free_tokens| {
        Algorithm::Pulsar(PulsarParameters {
            seed: Seed::new("1"),
            weight: RendezvousWeight::default(),
            consider_kv_free_tokens,
            comparator: Comparator::default(),
        })
    });
    power_of_n.chain([Algorithm::RoundRobin, Algorithm::Random]).chain(pulsar).chain(widening()).collect()
}

/// Groups of several sizes; bands and buckets of which some are open at each of the test's times.
fn widening() -> Vec<Algorithm> {
    let of_group = |affinity_group| {
        let widening = Widening {
            seed: Seed::new("1"),
            affinity_wait: Duration::from_millis(50),
            ttft_bucket_size: Duration::from_millis(1),
            ..Widening::default()
        };
        let wait_and_widen =
            WaitAndWidenParameters { widening: widening.clone(), affinity_group, ..Default::default() };
        let pulsar = |primary_admission| {
            Algorithm::PulsarWaitAndWiden(PulsarWaitAndWidenParameters {
                widening: widening.clone(),
                affinity_group,
                primary_admission,
                consider_kv_free_tokens: affinity_group == 2,
                affinity_wait_spread: if affinity_group == 2 { 0.0 } else { 1.0 },
                ..Default::default()
            })
        };
        [
            pulsar(PrimaryAdmission::Eligible),
            pulsar(PrimaryAdmission::Capacity),
            Algorithm::WaitAndWiden(wait_and_widen),
        ]
    };
    [0, 2, 15].into_iter().flat_map(of_group).collect()
}

fn exclusions(clusters: &[Cluster]) -> [Exclusions; 3] {
    let mut some = Exclusions::default();
    assert!(some.exclude_cluster(clusters[1].uid));
    assert!(some.exclude_backend(clusters[2].backends[0].uid));
    let mut most = Exclusions::default();
    for cluster in &clusters[..Exclusions::CAPACITY / 2] {
        for backend in &cluster.backends {
            assert!(most.exclude_backend(backend.uid));
        }
    }
    for cluster in clusters.iter().rev().take(Exclusions::CAPACITY) {
        assert!(most.exclude_cluster(cluster.uid));
    }
    [Exclusions::default(), some, most]
}

#[test]
fn the_allocator_counts() {
    let (calls, ()) = calls_during(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(calls, 2);
}

/// A target of this many clusters for one algorithm, of whom the first rank of a key may be full.
fn target(cluster_count: u64) -> Target {
    Target {
        name: Arc::new(TargetName { routing_key: Some("tenant".into()), model: "m".into() }),
        policy: Arc::default(),
        round_robin: Arc::default(),
        clusters: (0..cluster_count).map(cluster).collect(),
        // The same clusters under every algorithm.
        ranking_revision: 1 + cluster_count,
        ranking: None,
    }
}

fn requests(long_key: &[u8]) -> Vec<RoutingRequest<'_>> {
    let times = [0, 60, 130, 100_000].map(Duration::from_millis);
    let of_key = |affinity_key| {
        times.map(|elapsed| RoutingRequest {
            input_tokens: Tokens(700),
            affinity_key,
            priority: 2,
            elapsed,
            is_waiting: !elapsed.is_zero(),
            ..RoutingRequest::default()
        })
    };
    [None, Some(&b"session"[..]), Some(long_key)].into_iter().flat_map(of_key).collect()
}

/// Takes over a snapshot of the target, of whose backends some say which attempts their reports include, and sends to
/// each cluster once.
fn follow(target: &Target, handing_over: usize, state: &mut DecisionState) {
    let mut snapshot = Snapshot::default();
    let backends = target.clusters.iter().flat_map(|cluster| cluster.backends.to_vec());
    snapshot.backends = Some(backends.collect());
    let clusters = target.clusters.iter().take(handing_over);
    let included = clusters.flat_map(|cluster| {
        cluster.backends.iter().map(|backend| (cluster.uid, backend.uid, Arc::default()))
    });
    snapshot.inclusions = Inclusions::new(included.collect());
    state.loads().follow(&snapshot);
    let (request, exclusions) = (RoutingRequest::default(), Exclusions::default());
    for _ in 0..target.clusters.len() {
        drop(decide_and_enter(target, &Algorithm::RoundRobin, &request, &exclusions, state, Duration::ZERO));
    }
}

#[test]
fn no_algorithm_allocates_or_frees_with_or_without_exclusions() {
    let long_key = vec![b'k'; 1_000];
    let requests = requests(&long_key);
    let mut state = DecisionState::with_seed(0);
    // With 12 clusters, the largest set of exclusions leaves none.
    for cluster_count in [0, 12, 20, 200] {
        let target = target(cluster_count);
        follow(&target, 0, &mut state);
        for algorithm in algorithms() {
            let all_exclusions = if cluster_count == 0 {
                std::array::from_fn(|_| Exclusions::default())
            } else {
                exclusions(&target.clusters)
            };
            // Rings are built, and rankings and sets that are larger than any before find their room.
            for request in &requests {
                drop(decide(&target, &algorithm, request, &all_exclusions[0], &mut state));
            }
            for (excluded, exclusions) in all_exclusions.iter().enumerate() {
                for request in &requests {
                    let (calls, is_selected) = calls_during(|| {
                        let mut is_selected = false;
                        for _ in 0..20 {
                            let decision = decide(&target, &algorithm, request, exclusions, &mut state);
                            is_selected = matches!(decision, Decision::Selected(_));
                            let now = Duration::ZERO;
                            drop(decide_and_enter(&target, &algorithm, request, exclusions, &mut state, now));
                        }
                        is_selected
                    });
                    assert_eq!(calls, 0, "{algorithm:?}, {cluster_count} clusters, {request:?}");
                    let is_possible = cluster_count > 12 || (cluster_count == 12 && excluded < 2);
                    let may_wait =
                        matches!(algorithm, Algorithm::WaitAndWiden(_) | Algorithm::PulsarWaitAndWiden(_));
                    if may_wait {
                        assert!(is_possible || !is_selected);
                    } else {
                        assert_eq!(is_selected, is_possible, "{algorithm:?}, {cluster_count} clusters");
                    }
                }
            }
        }
    }
}

/// The whole life of an attempt and its reservation, whichever end that comes to, and with others under way.
#[test]
fn a_reservation_allocates_and_frees_nothing_from_first_to_last() {
    let mut target = target(20);
    for cluster in &mut target.clusters {
        cluster.stats.accounting = Accounting::Reservations;
        cluster.stats.max_engine_concurrency = 100;
    }
    let request = RoutingRequest { input_tokens: Tokens(700), priority: 2, ..RoutingRequest::default() };
    let algorithm = Algorithm::PowerOfN(PowerOfNParameters {
        sample_count: SampleCount::new(2).unwrap(),
        comparator: Comparator::NumRequestsQueued,
    });
    // With so many cores, places are scarce.
    for cores in [1, 64] {
        let loads = CoreLoads::new(0, cores, CoreLoads::TTL);
        let mut state = DecisionState::with_seed(0).with_loads(loads);
        follow(&target, 10, &mut state);
        let mut under_way = VecDeque::with_capacity(100);
        let mut now = Duration::ZERO;
        let mut send = |state: &mut DecisionState| {
            for _ in 0..2_000 {
                now += Duration::from_micros(200);
                if under_way.len() == 100 {
                    drop(under_way.pop_front());
                }
                let exclusions = Exclusions::default();
                let entered = decide_and_enter(&target, &algorithm, &request, &exclusions, state, now);
                let mut running: Running = entered.1.expect("a cluster is there");
                running.first_byte();
                under_way.push_back(running);
            }
        };
        // Room for as many as are under way at once.
        send(&mut state);
        let (calls, ()) = calls_during(|| send(&mut state));
        assert_eq!(calls, 0, "{cores} cores");
        let ReservationCounts { expired, released, pending, .. } = state.loads().counts();
        assert!(expired > 1_000 && released > 1_000 && pending > 50, "{:?}", state.loads().counts());
    }
}
