//! What a target's ranking table costs to make and to bring up to date, and what a pulsar decision costs with
//! and without one.
//!
//! `cargo bench -p stargate-bench --bench ranking`. Ids read `what/clusters`. Tables have 65 536 slots; their
//! memory and the deviation of shares are printed ahead.

use std::{
    hint::black_box,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use stargate_routing::{
    Algorithm, Backend, BackendUid, Cluster, ClusterStats, ClusterUid, DecisionState, Exclusions,
    PulsarParameters, RankingTable, RendezvousWeight, RendezvousWeights, RoutingRequest, Seed, Target,
    TargetName, TokensPerSecond, decide,
};

const CLUSTER_COUNTS: [u64; 3] = [20, 200, 1000];
const WEIGHT: RendezvousWeight = RendezvousWeight::MaxInputTps;
const SESSIONS: u64 = 65_536;

fn cluster(number: u64) -> Cluster {
    let cluster_id: Arc<str> = format!("cluster-{number:04}").into();
    let stats = ClusterStats { max_input_tps: Some(TokensPerSecond(10_000.0)), ..ClusterStats::default() };
    let backend = Backend {
        uid: BackendUid(number),
        backend_id: cluster_id.clone(),
        cluster_id: cluster_id.clone(),
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 9000)),
        authority: "127.0.0.1:9000".into(),
        base_path: "".into(),
        publishes_stats: true,
        rtt: Arc::default(),
    };
    Cluster {
        uid: ClusterUid(number),
        id_hash: Cluster::hash_id(&cluster_id),
        backends: [Arc::new(backend)].into(),
        cluster_id,
        rendezvous: RendezvousWeights::reported(&stats),
        stats,
        load: Arc::default(),
    }
}

fn clusters(count: u64) -> Vec<Cluster> {
    (0..count).map(cluster).collect()
}

/// All but the one in the middle, which has another weight, or is missing.
fn changed(count: u64, weight: Option<f64>) -> Vec<Cluster> {
    let mut clusters = clusters(count);
    let position = clusters.len() / 2;
    match weight {
        Some(weight) => clusters[position].rendezvous.max_input_tps = weight,
        None => drop(clusters.remove(position)),
    }
    clusters
}

fn tables(criterion: &mut Criterion) {
    let name = TargetName { routing_key: None, model: "llama-3".into() };
    let build = |clusters: &[Cluster]| RankingTable::build(&name, &Seed::default(), WEIGHT, clusters);
    let mut group = criterion.benchmark_group("table");
    for count in CLUSTER_COUNTS {
        let all = clusters(count);
        let table = build(&all);
        println!(
            "{count} clusters: {} bytes, shares deviate by {:.2} % at most",
            table.memory_bytes(),
            table.share_deviation() * 100.0
        );
        group.bench_function(BenchmarkId::new("build", count), |bencher| {
            bencher.iter(|| build(black_box(&all)));
        });
        let missing = changed(count, None);
        let without = build(&missing);
        for (what, before, after) in [
            ("weight-up", &table, &changed(count, Some(11_500.0))),
            ("weight-down", &table, &changed(count, Some(8_500.0))),
            ("remove", &table, &missing),
            ("add", &without, &all),
        ] {
            group.bench_function(BenchmarkId::new(what, count), |bencher| {
                bencher.iter(|| before.updated(black_box(after)));
            });
        }
    }
    group.finish();
}

fn decisions(criterion: &mut Criterion) {
    let algorithm = Algorithm::Pulsar(PulsarParameters::default());
    let mut group = criterion.benchmark_group("pulsar");
    for count in CLUSTER_COUNTS {
        let name = TargetName { routing_key: Some("tenant".into()), model: "llama-3".into() };
        let clusters = clusters(count);
        let table = Arc::new(RankingTable::build(&name, &Seed::default(), WEIGHT, &clusters));
        let mut target = Target {
            name: Arc::new(name),
            policy: Arc::default(),
            round_robin: Arc::default(),
            clusters,
            ranking_revision: count,
            ranking: None,
        };
        // Remembered: few enough sessions that a core's memory holds them all.
        for (what, ranking, sessions) in
            [("table", Some(table), SESSIONS), ("remembered", None, 64), ("direct", None, SESSIONS)]
        {
            target.ranking = ranking;
            let mut state = DecisionState::with_seed(0);
            let mut session = (0..sessions).cycle();
            group.bench_function(BenchmarkId::new(what, count), |bencher| {
                bencher.iter_batched(
                    || {
                        let mut key = *b"session-00000000-of-a-user";
                        key[8..16].copy_from_slice(&session.next().unwrap_or_default().to_le_bytes());
                        key
                    },
                    |key| {
                        let request =
                            RoutingRequest { affinity_key: Some(&key), ..RoutingRequest::default() };
                        decide(black_box(&target), &algorithm, &request, &Exclusions::default(), &mut state)
                    },
                    BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
}

fn configuration() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .sample_size(10)
        .without_plots()
}

criterion_group! {
    name = benches;
    config = configuration();
    targets = tables, decisions
}
criterion_main!(benches);
