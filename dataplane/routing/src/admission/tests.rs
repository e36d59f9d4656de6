use super::*;
use crate::{
    AlgorithmKind, ClusterStats, Nanos, PulsarWaitAndWidenParameters, RendezvousWeights,
    testing::fleet::{self, clusters, exclude, request},
};

fn method(kind: AlgorithmKind, admission: Admission) -> Method {
    Method { algorithm: kind.with_defaults(), admission }
}

fn limited(seconds: f64) -> Admission {
    Admission { max_input_work_seconds: Some(seconds), ..Admission::default() }
}

fn queued(tps: f64, tokens: u64) -> ClusterStats {
    ClusterStats {
        last_mean_input_tps: TokensPerSecond(tps),
        max_input_tps: Some(TokensPerSecond(tps)),
        queued_input: Tokens(tokens),
        ..ClusterStats::default()
    }
}

fn target(stats: impl IntoIterator<Item = ClusterStats>) -> Target {
    fleet::target(Algorithm::Random, clusters(stats))
}

fn admit_by(target: &Target, method: &Method, request: &RoutingRequest<'_>) -> Result<(), AdmissionRefusal> {
    admit(target, method, request, &Exclusions::default(), &CoreLoads::default())
}

#[test]
fn nothing_is_required_by_default() {
    for kind in AlgorithmKind::ALL {
        let admitted = admit_by(&target([]), &method(kind, Admission::default()), &request(1));
        assert_eq!(admitted, Ok(()));
    }
}

#[test]
fn a_required_affinity_key_must_be_there() {
    let required = Admission { require_cache_affinity_key: true, ..Admission::default() };
    let method = method(AlgorithmKind::Pulsar, required);
    let keyed = RoutingRequest { affinity_key: Some(b"k"), ..request(1) };
    let target = target([queued(1.0, 0)]);
    assert_eq!(admit_by(&target, &method, &request(1)), Err(AdmissionRefusal::AffinityKeyRequired));
    assert_eq!(admit_by(&target, &method, &keyed), Ok(()));
}

#[test]
fn required_input_tokens_must_be_given_and_not_estimated() {
    let required = Admission { require_input_tokens: true, ..Admission::default() };
    let method = method(AlgorithmKind::PowerOfN, required);
    let given = RoutingRequest { input_tokens_given: true, ..request(0) };
    let target = target([queued(1.0, 0)]);
    assert_eq!(admit_by(&target, &method, &request(9)), Err(AdmissionRefusal::InputTokensRequired));
    assert_eq!(admit_by(&target, &method, &given), Ok(()));
}

#[test]
fn work_is_that_of_the_request_and_all_queues_over_all_capacities() {
    // (100 + 300 + 600) / (400 + 600) is one second.
    let target = target([queued(400.0, 300), queued(600.0, 600)]);
    for (limit, tokens, expected) in [
        (1.0, 100, Ok(())),
        (1.0, 101, Err(AdmissionRefusal::InputWorkLimitExceeded)),
        (0.999, 100, Err(AdmissionRefusal::InputWorkLimitExceeded)),
        (1e300, u64::MAX, Ok(())),
    ] {
        let admitted = admit_by(&target, &method(AlgorithmKind::Random, limited(limit)), &request(tokens));
        assert_eq!(admitted, expected, "{tokens} tokens within {limit} s");
    }
}

#[test]
fn what_this_gateway_has_in_flight_is_work_ahead() {
    let target = target([queued(100.0, 0)]);
    let _running = target.clusters[0].load.enter(Tokens(100));
    let admitted = admit_by(&target, &method(AlgorithmKind::Random, limited(1.0)), &request(1));
    assert_eq!(admitted, Err(AdmissionRefusal::InputWorkLimitExceeded));
}

#[test]
fn capacities_that_are_not_valid_add_nothing() {
    let invalid = [0.0, -1.0, f64::NAN, f64::INFINITY];
    let method = method(AlgorithmKind::Random, limited(1.0));
    let none = target(invalid.map(|tps| queued(tps, 0)));
    assert_eq!(admit_by(&none, &method, &request(0)), Err(AdmissionRefusal::InputWorkCapacityUnavailable));
    assert_eq!(
        admit_by(&target([]), &method, &request(0)),
        Err(AdmissionRefusal::InputWorkCapacityUnavailable)
    );
    let one = target(invalid.into_iter().chain([10.0]).map(|tps| queued(tps, 2)));
    assert_eq!(admit_by(&one, &method, &request(0)), Ok(()));
    assert_eq!(admit_by(&one, &method, &request(1)), Err(AdmissionRefusal::InputWorkLimitExceeded));
}

#[test]
fn only_clusters_that_the_algorithm_can_select_count() {
    let unweighted = ClusterStats { max_input_tps: None, ..queued(1_000.0, 0) };
    let short_of_kv = ClusterStats { kv_free: Some(Tokens(1)), ..queued(1_000.0, 0) };
    let able = ClusterStats { kv_free: Some(Tokens(1_000)), ..queued(10.0, 0) };
    let target = target([unweighted, short_of_kv, able]);
    let kv = Algorithm::PulsarWaitAndWiden(PulsarWaitAndWidenParameters {
        consider_kv_free_tokens: true,
        ..PulsarWaitAndWidenParameters::default()
    });
    let keyed = RoutingRequest { affinity_key: Some(b"k"), ..request(100) };
    let work = |algorithm: &Algorithm, request: &RoutingRequest<'_>| {
        input_work(&target, algorithm, request, &Exclusions::default(), &CoreLoads::default()).unwrap().0
    };
    assert_eq!(work(&kv, &keyed).to_bits(), 10.0_f64.to_bits());
    assert_eq!(
        work(&AlgorithmKind::Pulsar.with_defaults(), &keyed).to_bits(),
        (100.0 / 1_010.0_f64).to_bits()
    );
    let all = (100.0 / 2_010.0_f64).to_bits();
    assert_eq!(work(&kv, &request(100)).to_bits(), all, "without a key nothing is ranked");
    assert_eq!(work(&AlgorithmKind::WaitAndWiden.with_defaults(), &keyed).to_bits(), all);
    let excluded = exclude(&target, [0], []);
    let left = input_work(&target, &Algorithm::Random, &keyed, &excluded, &CoreLoads::default()).unwrap().0;
    assert_eq!(left.to_bits(), (100.0 / 1_010.0_f64).to_bits());
}

#[test]
fn what_is_missing_is_told_before_what_is_too_much() {
    let all = Admission {
        require_cache_affinity_key: true,
        require_input_tokens: true,
        max_input_work_seconds: Some(1e-9),
    };
    let (target, method) = (target([queued(1.0, 5)]), method(AlgorithmKind::Random, all));
    let mut asked = request(1);
    assert_eq!(admit_by(&target, &method, &asked), Err(AdmissionRefusal::AffinityKeyRequired));
    asked.affinity_key = Some(b"k");
    assert_eq!(admit_by(&target, &method, &asked), Err(AdmissionRefusal::InputTokensRequired));
    asked.input_tokens_given = true;
    assert_eq!(admit_by(&target, &method, &asked), Err(AdmissionRefusal::InputWorkLimitExceeded));
}

#[test]
fn labels_are_the_error_codes() {
    let labels = AdmissionRefusal::ALL.map(AdmissionRefusal::as_str);
    assert_eq!(
        labels,
        [
            "affinity_key_required",
            "input_tokens_required",
            "input_work_limit_exceeded",
            "input_work_capacity_unavailable"
        ]
    );
}

#[test]
fn the_best_ttft_is_the_least_of_any_cluster_that_is_left() {
    let away = |ms: u64, tps| ClusterStats { rtt: Nanos(ms * 1_000_000), ..queued(tps, 0) };
    let mut target = target([away(1, 0.0), away(2, 1_000.0), away(3, 1_000.0)]);
    let best = |target: &Target, algorithm: &Algorithm, excluded: &[usize]| {
        let keyed = RoutingRequest { affinity_key: Some(b"k"), ..request(100) };
        best_ttft(
            target,
            algorithm,
            &keyed,
            &exclude(target, excluded.iter().copied(), []),
            &CoreLoads::default(),
        )
        .and_then(Seconds::to_duration)
    };
    let ms = std::time::Duration::from_millis;
    for kind in AlgorithmKind::ALL {
        let algorithm = kind.with_defaults();
        assert_eq!(best(&target, &algorithm, &[]), Some(ms(102)), "{kind:?}");
        assert_eq!(best(&target, &algorithm, &[1]), Some(ms(103)));
        assert_eq!(best(&target, &algorithm, &[1, 2]), None, "what is unmeasured tells nothing");
        assert_eq!(best(&target, &algorithm, &[0, 1, 2]), None);
    }
    target.clusters[1].rendezvous = RendezvousWeights::default();
    let ranking = AlgorithmKind::PulsarWaitAndWiden.with_defaults();
    assert_eq!(best(&target, &ranking, &[]), Some(ms(103)), "what has no rank is never selected");
    assert_eq!(best(&target, &Algorithm::Random, &[]), Some(ms(102)));
}
