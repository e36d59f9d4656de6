//! Fleets, requests and statistics for this crate's tests.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use proptest::{collection::vec, option, prelude::*};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::{
    Accounting, Algorithm, Backend, BackendUid, Cluster, ClusterStats, ClusterUid, Comparator, CoreLoads,
    Counted, Decision, DecisionState, EffectiveStats, Exclusions, Method, Millis, Nanos, Policy,
    PowerOfNParameters, PrimaryAdmission, PulsarParameters, PulsarWaitAndWidenParameters, QueueSlo,
    RendezvousWeight, RendezvousWeights, RoomShare, RoutingRequest, SampleCount, Seed, Selected, Target,
    TargetName, Tokens, TokensPerSecond, UnavailableReason, UnknownConcurrency, VirtualNodes,
    WaitAndWidenParameters, Widening,
    core_loads::attempt::Charge,
    load::{Amount, Change, ChangeSum},
};

pub(crate) const COMPARATORS: [Comparator; 6] = [
    Comparator::Ttft,
    Comparator::TtftBacklog,
    Comparator::QueueTime,
    Comparator::InputWorkSeconds,
    Comparator::Utilization,
    Comparator::NumRequestsQueued,
];

pub(crate) const ACCOUNTINGS: [Accounting; 2] = [Accounting::InFlight, Accounting::Reservations];

/// Backends get uids `number * BACKENDS_MAX + position`.
const BACKENDS_MAX: usize = 4;

/// What a property varies of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) stats: ClusterStats,
    pub(crate) backends: usize,
    /// Input tokens of each attempt in flight, and whether its engine has begun to answer.
    pub(crate) in_flight: Vec<(u64, bool)>,
    /// Priority and input tokens of each reservation pending.
    pub(crate) reserved: Vec<(u32, u64)>,
    /// Priority and input tokens of those who took a place on the deciding core a moment ago, so that no other knows it.
    pub(crate) just_taken: Vec<(u32, u64)>,
    /// Attempts that the report includes and that have ended.
    pub(crate) ended: u64,
}

/// What a property excludes; positions are taken modulo the fleet.
#[derive(Clone, Debug)]
pub(crate) struct ExclusionPlan {
    pub(crate) clusters: Vec<usize>,
    pub(crate) backends: Vec<(usize, usize)>,
}

pub(crate) fn cluster(number: usize, backends: usize, stats: ClusterStats) -> Cluster {
    assert!(backends <= BACKENDS_MAX);
    let cluster_id: Arc<str> = format!("cluster-{number:04}").into();
    let backend = |position: usize| {
        Arc::new(Backend {
            uid: BackendUid((number * BACKENDS_MAX + position) as u64),
            backend_id: format!("{cluster_id}-{position}").into(),
            cluster_id: cluster_id.clone(),
            address: (Ipv4Addr::LOCALHOST, 9000).into(),
            authority: "127.0.0.1:9000".into(),
            base_path: "".into(),
            publishes_stats: false,
            rtt: Arc::default(),
        })
    };
    Cluster {
        uid: ClusterUid(number as u64),
        id_hash: Cluster::hash_id(&cluster_id),
        rendezvous: RendezvousWeights::reported(&stats),
        stats,
        load: Arc::default(),
        backends: (0..backends).map(backend).collect(),
        cluster_id,
    }
}

pub(crate) fn target(algorithm: Algorithm, clusters: Vec<Cluster>) -> Target {
    Target {
        name: Arc::new(TargetName { routing_key: None, model: "llama-3".into() }),
        policy: Arc::new(Policy { method: Method { algorithm, ..Method::default() }, ..Policy::default() }),
        round_robin: Arc::default(),
        clusters,
        ranking_revision: 0,
        ranking: None,
    }
}

/// Clusters of one backend each.
pub(crate) fn clusters(stats: impl IntoIterator<Item = ClusterStats>) -> Vec<Cluster> {
    stats.into_iter().enumerate().map(|(number, stats)| cluster(number, 1, stats)).collect()
}

/// Equal clusters of one backend each.
pub(crate) fn idle(count: usize) -> Vec<Cluster> {
    clusters((0..count).map(|_| throughput(10_000.0)))
}

/// Stats of an idle cluster of this mean and maximal throughput.
pub(crate) fn throughput(tps: f64) -> ClusterStats {
    ClusterStats {
        last_mean_input_tps: TokensPerSecond(tps),
        max_input_tps: Some(TokensPerSecond(tps)),
        ..ClusterStats::default()
    }
}

pub(crate) fn power_of(sample_count: u64, comparator: Comparator) -> Algorithm {
    let sample_count = SampleCount::new(sample_count).unwrap();
    Algorithm::PowerOfN(PowerOfNParameters { sample_count, comparator })
}

pub(crate) fn pulsar(weight: RendezvousWeight, consider_kv_free_tokens: bool) -> Algorithm {
    let comparator = Comparator::NumRequestsQueued;
    Algorithm::Pulsar(PulsarParameters { seed: Seed::default(), weight, consider_kv_free_tokens, comparator })
}

/// Decides by the target's own algorithm.
pub(crate) fn decide(
    target: &Target,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    state: &mut DecisionState,
) -> Decision {
    crate::decide(target, &target.policy.method.algorithm, request, exclusions, state)
}

pub(crate) fn request(input_tokens: u64) -> RoutingRequest<'static> {
    RoutingRequest { input_tokens: Tokens(input_tokens), ..RoutingRequest::default() }
}

/// A nanosecond earlier.
pub(crate) fn just_before(moment: Duration) -> Duration {
    moment.saturating_sub(Duration::from_nanos(1))
}

pub(crate) fn exclude(
    target: &Target,
    clusters: impl IntoIterator<Item = usize>,
    backends: impl IntoIterator<Item = (usize, usize)>,
) -> Exclusions {
    let mut exclusions = Exclusions::default();
    for index in clusters {
        assert!(exclusions.exclude_cluster(target.clusters[index].uid));
    }
    for (index, position) in backends {
        assert!(exclusions.exclude_backend(target.clusters[index].backends[position].uid));
    }
    exclusions
}

/// Positions of the clusters that are eligible, by the letter of the rule.
pub(crate) fn eligible_positions(target: &Target, exclusions: &Exclusions) -> Vec<usize> {
    let is_eligible = |index: &usize| {
        let cluster = &target.clusters[*index];
        let left = cluster.backends.iter().filter(|backend| !exclusions.has_backend(backend.uid)).count();
        left > 0 && !exclusions.has_cluster(cluster.uid)
    };
    (0..target.clusters.len()).filter(is_eligible).collect()
}

pub(crate) fn selected(decision: Decision) -> Selected {
    match decision {
        Decision::Selected(selected) => selected,
        other => panic!("not selected: {other:?}"),
    }
}

pub(crate) fn unavailable(decision: Decision) -> UnavailableReason {
    match decision {
        Decision::Unavailable(reason) => reason,
        other => panic!("available: {other:?}"),
    }
}

/// The positions of the ranked clusters in the order of the ranking, by the letter of the rule.
pub(crate) fn naive_ranking(target: &Target, seed: &str, weight: RendezvousWeight, key: &[u8]) -> Vec<usize> {
    let slot = (xxh3_64(key) >> 48) as u32;
    let mut hash = if seed.is_empty() { 0 } else { xxh3_64(seed.as_bytes()) };
    if let Some(routing_key) = &target.name.routing_key {
        hash = xxh3_64_with_seed(routing_key.as_bytes(), hash);
    }
    hash = xxh3_64_with_seed(target.name.model.as_bytes(), hash);
    hash = xxh3_64_with_seed(&slot.to_le_bytes(), hash);
    let mut scored = Vec::new();
    for (index, cluster) in target.clusters.iter().enumerate() {
        let weight = match weight {
            RendezvousWeight::MaxInputTps => cluster.rendezvous.max_input_tps,
            RendezvousWeight::LastMeanInputTps => cluster.rendezvous.last_mean_input_tps,
        };
        if weight.is_finite() && weight > 0.0 {
            let mut bits = hash ^ xxh3_64(cluster.cluster_id.as_bytes());
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            bits ^= bits >> 31;
            let u = ((bits >> 12) as f64 + 0.5) / 2_f64.powi(52);
            scored.push((weight / -u.ln(), cluster.cluster_id.clone(), index));
        }
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.into_iter().map(|(_, _, index)| index).collect()
}

/// A target of idle clusters of these weights, ranked by the greatest throughput.
pub(crate) fn weighted(weights: &[f64]) -> Target {
    let algorithm = pulsar(RendezvousWeight::MaxInputTps, false);
    target(algorithm, clusters(weights.iter().map(|weight| throughput(*weight))))
}

/// Pearson's statistic of counts against the shares expected of them.
pub(crate) fn chi_squared(observed: &[u32], shares: &[f64]) -> f64 {
    assert_eq!(observed.len(), shares.len());
    let total: f64 = observed.iter().map(|count| f64::from(*count)).sum();
    let whole: f64 = shares.iter().sum();
    observed.iter().zip(shares).fold(0.0, |sum, (count, share)| {
        let expected = total * share / whole;
        sum + (f64::from(*count) - expected).powi(2) / expected
    })
}

pub(crate) fn chi_squared_uniform(observed: &[u32]) -> f64 {
    chi_squared(observed, &vec![1.0; observed.len()])
}

/// Builds the clusters of a plan, and the attempts in flight on them.
pub(crate) fn build(plans: &[Plan]) -> (Vec<Cluster>, Vec<Counted>) {
    let mut all_running = Vec::new();
    let clusters = plans.iter().enumerate().map(|(number, plan)| {
        let cluster = cluster(number, plan.backends, plan.stats.clone());
        for (tokens, is_answered) in &plan.in_flight {
            let mut running = cluster.load.enter(Tokens(*tokens));
            if *is_answered {
                running.first_byte();
            }
            all_running.push(running);
        }
        let mut others = ChangeSum::default();
        for taken in &plan.reserved {
            let place = Charge::new(&plan.stats, &taken_by(*taken));
            others.add(&Change { in_flight: Amount::default(), ..place.change() });
        }
        others.add(&Change { ended: plan.ended, ..Change::default() });
        cluster.load.add(&others);
        cluster
    });
    (clusters.collect(), all_running)
}

/// The core on which what the plans have as just taken was taken.
pub(crate) fn core_of(plans: &[Plan], clusters: &[Cluster]) -> CoreLoads {
    let loads = CoreLoads::default();
    for (plan, cluster) in plans.iter().zip(clusters) {
        for taken in &plan.just_taken {
            let stats = EffectiveStats::new(&cluster.stats, &cluster.load, 0);
            assert!(loads.take_place(cluster, &taken_by(*taken), &stats, None).is_some());
        }
    }
    loads
}

fn taken_by((priority, tokens): (u32, u64)) -> RoutingRequest<'static> {
    RoutingRequest { priority, ..request(tokens) }
}

impl ExclusionPlan {
    pub(crate) fn apply(&self, target: &Target) -> Exclusions {
        let count = target.clusters.len().max(1);
        let backends = self.backends.iter().map(|(index, position)| {
            let index = index % count;
            (index, position % target.clusters.get(index).map_or(1, |cluster| cluster.backends.len()))
        });
        match target.clusters.len() {
            0 => Exclusions::default(),
            _ => exclude(target, self.clusters.iter().map(|index| index % count), backends),
        }
    }
}

fn any_throughput() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 1.0..100_000.0,
        2 => Just(10_000.0),
        1 => prop_oneof![Just(0.0), Just(-1.0), Just(f64::NAN), Just(f64::INFINITY), Just(5e-324), Just(f64::MAX)],
    ]
}

fn any_count() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..6_u64, 3 => 0..100_000_u64, 1 => Just(u64::MAX)]
}

fn any_stats() -> impl Strategy<Value = ClusterStats> {
    let throughputs = (any_throughput(), option::weighted(0.9, any_throughput()));
    let counts = (any_count(), any_count(), any_count(), prop_oneof![Just(0), 1..6_u64]);
    let estimates = proptest::collection::btree_map(0..6_u32, 0..5_000_000_000_u64, 0..4);
    let kv = (option::of(any_count()), option::of(any_count()), option::of(any_count()));
    let rtt = prop_oneof![Just(0), 0..50_000_000_u64];
    let share = prop_oneof![Just(1.0), Just(0.25), 0.001..1.0_f32];
    let room_share = (share, prop_oneof![Just(0.0), 0.0..1.0_f32]);
    let rest = (rtt, proptest::sample::select(&ACCOUNTINGS[..]), room_share);
    (throughputs, counts, estimates, kv, rest).prop_map(|(throughputs, counts, estimates, kv, rest)| {
        ClusterStats {
            last_mean_input_tps: TokensPerSecond(throughputs.0),
            max_input_tps: throughputs.1.map(TokensPerSecond),
            queue_size: counts.0,
            queued_input: Tokens(counts.1),
            num_running_queries: counts.2,
            max_engine_concurrency: counts.3,
            queue_time_estimates: estimates
                .into_iter()
                .map(|(priority, time)| (priority, Nanos(time)))
                .collect(),
            kv_capacity: kv.0.map(Tokens),
            kv_used: kv.1.map(Tokens),
            kv_free: kv.2.map(Tokens),
            rtt: Nanos(rest.0),
            accounting: rest.1,
            room_share: RoomShare { share: rest.2.0, draw: rest.2.1 },
            ..ClusterStats::default()
        }
    })
}

/// Between none and `count_max` clusters of any stats and load.
pub(crate) fn any_plans(count_max: usize) -> impl Strategy<Value = Vec<Plan>> {
    let in_flight = vec((any_count(), any::<bool>()), 0..4);
    let taken = |count| vec((prop_oneof![4 => 0..8_u32, 1 => 14..18_u32], any_count()), 0..count);
    let sent = (in_flight, taken(4), taken(2), prop_oneof![2 => Just(0), 1 => 0..6_u64]);
    let plan = (any_stats(), 1..=BACKENDS_MAX, sent).prop_map(|(stats, backends, sent)| {
        let (in_flight, reserved, just_taken, ended) = sent;
        Plan { stats, backends, in_flight, reserved, just_taken, ended }
    });
    vec(plan, 0..=count_max)
}

pub(crate) fn any_exclusions() -> impl Strategy<Value = ExclusionPlan> {
    let some = prop_oneof![Just(0), 0..=Exclusions::CAPACITY].boxed();
    some.clone().prop_flat_map(move |clusters| {
        let positions = (any::<usize>(), any::<usize>());
        (vec(any::<usize>(), clusters), some.clone().prop_flat_map(move |count| vec(positions, count)))
            .prop_map(|(clusters, backends)| ExclusionPlan { clusters, backends })
    })
}

pub(crate) fn any_request() -> impl Strategy<Value = RoutingRequest<'static>> {
    const KEYS: [&[u8]; 4] = [b"session-1", b"session-2", b"a", b"\xff\x00 key"];
    (any_count(), option::of(proptest::sample::select(&KEYS[..])), 0..8_u32).prop_map(
        |(input_tokens, affinity_key, priority)| RoutingRequest {
            affinity_key,
            priority,
            ..request(input_tokens)
        },
    )
}

/// A request at any time of its life, mostly at a round one, with or without an SLO.
pub(crate) fn any_timed_request() -> impl Strategy<Value = RoutingRequest<'static>> {
    let elapsed = prop_oneof![
        3 => Just(0),
        6 => (0..40_u64).prop_map(|tens| tens * 10_000_000),
        2 => 0..1_000_000_000_u64,
        1 => Just(u64::MAX),
    ];
    let slo = option::of(prop_oneof![Just(0), 1..500_u64]);
    (any_request(), elapsed, slo, any::<bool>()).prop_map(|(request, elapsed, slo, is_waiting)| {
        RoutingRequest { elapsed: Duration::from_nanos(elapsed), slo: slo.map(Millis), is_waiting, ..request }
    })
}

fn any_millis() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0), (0..12_u64).prop_map(|tens| tens * 10), Just(60_000)].prop_map(Duration::from_millis)
}

fn any_seed() -> impl Strategy<Value = Seed> {
    prop_oneof![Just(Seed::default()), Just(Seed::new("7"))]
}

pub(crate) fn any_widening() -> impl Strategy<Value = Widening> {
    let sampling = (1..5_u64, proptest::sample::select(&COMPARATORS[..]));
    let queueing =
        (prop_oneof![Just(0), 1..8_u64, Just(u64::MAX)], option::weighted(0.3, (0..200_u64, 0..200_u64)));
    let buckets = (1..60_u64, prop_oneof![Just(0.0), Just(0.25), Just(1.0), 0.0..3.0, Just(f64::MAX)]);
    let scale = prop_oneof![Just(0.0), Just(1.0), 0.0..1.0];
    (
        any_seed(),
        sampling,
        queueing,
        buckets,
        (any::<bool>(), any::<bool>(), any::<bool>()),
        any_millis(),
        scale,
    )
        .prop_map(|(seed, sampling, queueing, buckets, flags, affinity_wait, scale)| Widening {
            seed,
            sample_count: SampleCount::new(sampling.0).unwrap(),
            comparator: sampling.1,
            max_queued: queueing.0,
            queue_slo: queueing.1.and_then(|(floor, more)| {
                QueueSlo::new(Duration::from_millis(floor), Duration::from_millis(floor + more))
            }),
            ttft_bucket_size: Duration::from_millis(buckets.0),
            next_bucket_unlock_factor: buckets.1,
            ignore_queue_time: flags.0,
            ignore_input_processing_time: flags.1,
            unknown_concurrency: if flags.2 { UnknownConcurrency::Full } else { UnknownConcurrency::Free },
            affinity_wait,
            affinity_input_tokens_scale: scale,
        })
}

fn any_wait_and_widen() -> impl Strategy<Value = Algorithm> {
    (any_widening(), prop_oneof![Just(0), 1..4_u32, 4..30_u32], 1..12_u64).prop_map(
        |(widening, affinity_group, nodes)| {
            let virtual_nodes = VirtualNodes::new(nodes).unwrap();
            Algorithm::WaitAndWiden(WaitAndWidenParameters { widening, affinity_group, virtual_nodes })
        },
    )
}

fn any_pulsar_wait_and_widen() -> impl Strategy<Value = Algorithm> {
    let group = prop_oneof![Just(0), 1..4_u32, 4..30_u32];
    let spread = prop_oneof![Just(0.0), Just(1.0), 0.0..1.0];
    let flags = (any::<bool>(), any::<bool>());
    (any_widening(), group, any_weight(), flags, 0..4_u64, option::of(any_millis()), spread).prop_map(
        |(
            widening,
            affinity_group,
            weight,
            (consider_kv_free_tokens, by_capacity),
            fallback_max_queued,
            interval,
            affinity_wait_spread,
        )| {
            Algorithm::PulsarWaitAndWiden(PulsarWaitAndWidenParameters {
                widening,
                affinity_group,
                weight,
                consider_kv_free_tokens,
                primary_admission: if by_capacity {
                    PrimaryAdmission::Capacity
                } else {
                    PrimaryAdmission::Eligible
                },
                fallback_max_queued,
                band_widen_interval: interval,
                affinity_wait_spread,
            })
        },
    )
}

fn any_weight() -> impl Strategy<Value = RendezvousWeight> {
    prop_oneof![Just(RendezvousWeight::MaxInputTps), Just(RendezvousWeight::LastMeanInputTps)]
}

pub(crate) fn any_algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        2 => any_instant_algorithm(),
        2 => any_wait_and_widen(),
        3 => any_pulsar_wait_and_widen(),
    ]
}

/// Those that never wait.
pub(crate) fn any_instant_algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        (1..=64_u64, proptest::sample::select(&COMPARATORS[..]))
            .prop_map(|(count, comparator)| power_of(count, comparator)),
        Just(Algorithm::RoundRobin),
        Just(Algorithm::Random),
        (any_weight(), any::<bool>()).prop_map(|(weight, consider_kv)| pulsar(weight, consider_kv)),
    ]
}
