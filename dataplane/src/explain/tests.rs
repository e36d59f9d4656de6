use std::sync::Arc;

use stargate_routing::{AlgorithmKind, Policy, TargetName, Waiting};

use super::*;
use crate::settings::HeaderPolicy;

fn snapshot() -> Snapshot {
    let waiting = Waiting { slo: Some(Millis(700)), ..Waiting::default() };
    let pulsar = Method { algorithm: AlgorithmKind::Pulsar.with_defaults(), ..Method::default() };
    let target = Target {
        name: Arc::new(TargetName { routing_key: Some("team".into()), model: "m".into() }),
        policy: Arc::new(Policy {
            waiting,
            request_methods: [pulsar].into(),
            affinity_from_leading_messages: 1,
            ..Policy::default()
        }),
        round_robin: Arc::default(),
        clusters: Vec::new(),
        ranking_revision: 0,
        ranking: None,
    };
    Snapshot::new(1, 0, vec![target])
}

fn headers(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn refused(given: &[(&str, &str)]) -> RequestRefusal {
    read_request(&Settings::default(), &snapshot(), &headers(given), b"").unwrap_err()
}

#[test]
fn headers_and_body_are_read_as_those_of_a_request() {
    let snapshot = snapshot();
    let given = headers(&[
        ("X-Routing-Key", "team"),
        ("x-priority", "3"),
        ("x-routing-method", "pulsar;seed=other"),
        ("content-length", "999"),
    ]);
    let body = br#"{"model": "m", "messages": [{"role": "system", "content": "be brief"}]}"#;
    let read = read_request(&Settings::default(), &snapshot, &given, body).unwrap();
    assert_eq!(read.target.name.model, "m".into());
    assert_eq!(read.method.algorithm.kind(), AlgorithmKind::Pulsar);
    assert_eq!((read.model(), read.input_tokens()), ("m", (Tokens(2), false)));
    assert!(read.affinity_key().is_some(), "the first message makes one");
    let request = read.routing_request(Duration::from_millis(5));
    assert_eq!((request.priority, request.slo), (3, Some(Millis(700))));
    assert_eq!(request.elapsed, Duration::from_millis(5));
}

#[test]
fn what_a_request_would_be_refused_for_is_told() {
    let model = ("x-model", "m");
    for (given, code) in [
        (&[][..], ErrorCode::MissingModel),
        (&[model], ErrorCode::NoEligibleCandidates),
        (&[model, ("x-priority", "-1")], ErrorCode::InvalidHeader),
        (&[model, ("x-routing-key", "team"), ("x-routing-method", "best")], ErrorCode::InvalidRoutingMethod),
        (&[model, ("x-a", "b\r\nx-priority: 1")], ErrorCode::InvalidHeader),
        (&[model, ("x a", "b")], ErrorCode::InvalidRequest),
    ] {
        assert_eq!(refused(given).code, code, "{given:?}");
    }
}

#[test]
fn headers_that_are_not_trusted_count_for_nothing() {
    let policy = HeaderPolicy { trusted: false, ..HeaderPolicy::default() };
    let settings = Settings { headers: policy, ..Settings::default() };
    let snapshot = snapshot();
    let given = headers(&[("x-model", "m"), ("x-routing-key", "team")]);
    let refusal = read_request(&settings, &snapshot, &given, b"").unwrap_err();
    assert_eq!(refusal.code, ErrorCode::MissingModel);
}
