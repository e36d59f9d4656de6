//! What one routing decision costs, by algorithm and number of clusters.
//!
//! `cargo bench -p stargate-bench --bench decide`. Ids read `algorithm[/comparator]/clusters`. The fleet is
//! half busy, every decision has another request, and dropping what was selected is part of the time.

use std::{
    hint::black_box,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use stargate_routing::{
    Algorithm, Backend, BackendUid, Cluster, ClusterStats, ClusterUid, Comparator, Decision, DecisionState,
    Exclusions, Nanos, PowerOfNParameters, PulsarParameters, RendezvousWeight, RendezvousWeights,
    RoutingRequest, Running, SampleCount, Seed, Target, TargetName, Tokens, TokensPerSecond, decide,
};

const CLUSTER_COUNTS: [usize; 4] = [4, 20, 200, 1000];
const KEYS: usize = 1024;
const SEED: u64 = 7;

/// What a benchmark varies.
struct Case {
    id: &'static str,
    algorithm: Algorithm,
    affinity: bool,
    /// The first attempt failed, and the cluster that it had chosen is excluded. Noting that is part of the
    /// time.
    excluded: bool,
}

/// A target, and the load on it while a benchmark runs.
struct Fleet {
    target: Target,
    _running: Vec<Running>,
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

fn cases() -> Vec<Case> {
    let case = |id, algorithm| Case { id, algorithm, affinity: false, excluded: false };
    let keyed = |id, algorithm| Case { affinity: true, ..case(id, algorithm) };
    let ttft = power_of_n(2, Comparator::Ttft);
    vec![
        case("power-of-n/ttft", ttft.clone()),
        Case { excluded: true, ..case("power-of-n-excluded/ttft", ttft) },
        case("power-of-n/num-requests-queued", power_of_n(2, Comparator::NumRequestsQueued)),
        case("power-of-8/ttft-backlog", power_of_n(8, Comparator::TtftBacklog)),
        case("power-of-64/ttft-backlog", power_of_n(64, Comparator::TtftBacklog)),
        case("round-robin", Algorithm::RoundRobin),
        Case { excluded: true, ..case("round-robin-excluded", Algorithm::RoundRobin) },
        case("random", Algorithm::Random),
        keyed("pulsar", pulsar(false)),
        Case { excluded: true, ..keyed("pulsar-excluded", pulsar(false)) },
        keyed("pulsar-kv", pulsar(true)),
    ]
}

fn cluster(index: usize, rng: &mut fastrand::Rng) -> Cluster {
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
        })
    });
    let kv_free = rng.u64(0..200_000);
    let stats = ClusterStats {
        last_mean_input_tps: TokensPerSecond(f64::from(rng.u32(5_000..20_000))),
        max_input_tps: Some(TokensPerSecond(f64::from(rng.u32(20_000..40_000)))),
        queue_size: rng.u64(0..8),
        queued_input: Tokens(rng.u64(0..8_000)),
        num_running_queries: rng.u64(0..64),
        max_engine_concurrency: 32,
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

fn fleet(count: usize) -> Fleet {
    let mut rng = fastrand::Rng::with_seed(SEED);
    let clusters: Vec<_> = (0..count).map(|index| cluster(index, &mut rng)).collect();
    let running = clusters.iter().flat_map(|cluster| {
        (0..rng.usize(0..4)).map(|_| cluster.load.enter(Tokens(1_000))).collect::<Vec<_>>()
    });
    let running = running.collect();
    let target = Target {
        name: Arc::new(TargetName { routing_key: Some("tenant".into()), model: "llama-3".into() }),
        policy: Arc::default(),
        round_robin: Arc::default(),
        clusters,
        ranking_revision: 1 + count as u64,
        ranking: None,
    };
    Fleet { target, _running: running }
}

fn request<'a>(case: &Case, keys: &'a [String], turn: usize) -> RoutingRequest<'a> {
    RoutingRequest {
        input_tokens: Tokens(500 + turn as u64),
        affinity_key: case.affinity.then(|| keys[turn].as_bytes()),
        ..RoutingRequest::default()
    }
}

fn first_choice(
    target: &Target,
    algorithm: &Algorithm,
    request: &RoutingRequest<'_>,
    state: &mut DecisionState,
) -> ClusterUid {
    match decide(target, algorithm, request, &Exclusions::default(), state) {
        Decision::Selected(selected) => target.clusters[selected.cluster.0].uid,
        other => panic!("{other:?}"),
    }
}

fn decisions(criterion: &mut Criterion) {
    let keys: Vec<String> = (0..KEYS).map(|key| format!("session-{key:08x}-of-a-user")).collect();
    for case in cases() {
        let mut group = criterion.benchmark_group(case.id);
        for count in CLUSTER_COUNTS {
            let Fleet { target, _running } = fleet(count);
            let mut state = DecisionState::with_seed(SEED);
            let mut next_turn = (0..KEYS).cycle();
            let mut next_request = || {
                let turn = next_turn.next().unwrap_or_default();
                (turn, request(&case, &keys, turn))
            };
            let id = BenchmarkId::from_parameter(count);
            if case.excluded {
                let failed: Vec<_> = (0..KEYS)
                    .map(|turn| {
                        first_choice(&target, &case.algorithm, &request(&case, &keys, turn), &mut state)
                    })
                    .collect();
                group.bench_function(id, |bencher| {
                    bencher.iter(|| {
                        let (turn, request) = next_request();
                        let mut exclusions = Exclusions::default();
                        let is_noted = exclusions.exclude_cluster(failed[turn]);
                        (
                            is_noted,
                            decide(black_box(&target), &case.algorithm, &request, &exclusions, &mut state),
                        )
                    });
                });
            } else {
                let exclusions = Exclusions::default();
                group.bench_function(id, |bencher| {
                    bencher.iter(|| {
                        let (_, request) = next_request();
                        decide(
                            black_box(&target),
                            &case.algorithm,
                            &request,
                            black_box(&exclusions),
                            &mut state,
                        )
                    });
                });
            }
        }
        group.finish();
    }
}

fn configuration() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(50)
        .without_plots()
}

criterion_group! {
    name = benches;
    config = configuration();
    targets = decisions
}
criterion_main!(benches);
