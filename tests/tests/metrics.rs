//! Metrics count what happened, under names that dashboards already know, and callers cannot make them grow
//! (docs/operating.md).

use std::collections::BTreeSet;

use serde_json::json;
use stargate_tests::{Engine, Gateway, RawEngine, Request, Then, eventually};

/// Model names that nobody has configured.
const RANDOM_MODELS: usize = 10_000;

/// Names and labels of all series, without their values.
fn series(gateway: &Gateway) -> BTreeSet<String> {
    gateway
        .metrics()
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.rsplit_once(' ').expect("a series and its value").0.to_owned())
        .collect()
}

/// Sends requests one after the other, over one connection for as long as the gateway keeps it.
fn send_all(gateway: &Gateway, requests: &[Request], expected_status: u16) {
    let mut connection = gateway.client().connect();
    for request in requests {
        let response = connection.exchange(request);
        assert_eq!(response.status, expected_status, "{response:?}");
        if response.head.headers.has_token("connection", "close") {
            connection = gateway.client().connect();
        }
    }
}

#[test]
fn ten_thousand_random_models_make_one_more_series_at_most() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&engine.url());
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    gateway.client().send(&Request::chat("unknown")).expect_error(404, "no_eligible_candidates");
    let count = |status| gateway.metric("stargate_requests_total", &[("status", status)]) as usize;
    eventually("both are counted", || count("200") == 1 && count("404") == 1);
    let before = series(&gateway);

    let mut random = fastrand::Rng::with_seed(31);
    let requests: Vec<Request> = (0..RANDOM_MODELS)
        .map(|_| {
            let name: String = (0..12).map(|_| random.alphanumeric()).collect();
            let request = Request::chat(&format!("model-{name}"));
            match random.u8(..3) {
                0 => request,
                1 => request.header("x-routing-key", format!("key-{name}")),
                _ => request.header("x-model", format!("other-{name}")),
            }
        })
        .collect();
    send_all(&gateway, &requests, 404);
    eventually("all are counted", || count("404") == 1 + RANDOM_MODELS);
    // A backend's round-trip time has one series, by the source that it is from at the time.
    let is_rtt = |series: &&String| series.starts_with("stargate_backend_rtt_seconds");
    let after = series(&gateway);
    assert_eq!(after.iter().filter(is_rtt).count(), 1);
    let added: Vec<&String> = after.difference(&before).filter(|series| !is_rtt(series)).collect();
    assert!(added.is_empty(), "{added:#?}");
}

#[test]
fn requests_are_counted_by_target_backend_and_status() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().start();
    gateway.register_with(
        "e1",
        &json!({ "url": engine.url(), "routing_key": "team-a", "lease_ms": 600_000, "models": { "mock": {} } }),
    );
    for _ in 0..5 {
        let _ = gateway.client().send(&Request::chat("mock").header("x-routing-key", "team-a")).expect_ok();
    }
    let labels =
        [("routing_key", "team-a"), ("model", "mock"), ("inference_server_id", "e1"), ("status", "200")];
    eventually("5 requests", || gateway.metric("stargate_requests_total", &labels) as usize == 5);
    let attempt = [("model", "mock"), ("inference_server_id", "e1"), ("result", "completed")];
    eventually("5 attempts", || gateway.metric("stargate_proxy_attempts_total", &attempt) as usize == 5);
    let selected = gateway
        .metric("stargate_routing_selections_total", &[("model", "mock"), ("algorithm", "power-of-n")]);
    assert_eq!(selected as usize, 5);
    assert_eq!(gateway.metric("stargate_proxy_duration_seconds_count", &[]) as usize, 5);
    assert_eq!(gateway.metric("stargate_routing_duration_seconds_count", &[]) as usize, 5);
    assert_eq!(gateway.metric("stargate_active_inference_servers", &[]) as usize, 1);
    assert!(gateway.metric("stargate_snapshot_version", &[]) >= 1.0);
    assert_eq!(gateway.metric("stargate_proxy_replay_buffer_bytes", &[]) as usize, 0);
}

#[test]
fn failures_are_counted_by_what_was_sent() {
    let engine = Engine::start("e1");
    let gateway = Gateway::before(&engine.url());
    engine.fault(&json!({ "kind": "status", "status": 418, "count": 2, "body": "{}" }));
    for _ in 0..2 {
        assert_eq!(gateway.client().send(&Request::chat("mock")).status, 418);
    }
    engine.fault(&json!({ "kind": "garbage", "count": 1 }));
    gateway.client().send(&Request::chat("mock")).expect_error(502, "upstream_protocol_error");
    for (status, count) in [("418", 2), ("502", 1)] {
        eventually("they are counted", || {
            let labels = [("status", status), ("inference_server_id", "e1"), ("model", "mock")];
            gateway.metric("stargate_requests_total", &labels) as usize == count
        });
    }
    eventually("its reason is counted", || {
        gateway.metric("stargate_proxy_attempts_total", &[("result", "protocol_error")]) as usize == 1
    });
}

#[test]
fn a_client_that_left_is_counted_as_499() {
    let engine = RawEngine::start(|exchange| {
        exchange.closed_by_gateway();
        Then::Close
    });
    let gateway = Gateway::before(&engine.url());
    let mut connection = gateway.client().connect();
    connection.send(Request::chat("mock").to_bytes());
    engine.wait_for_requests(1);
    drop(connection);
    eventually("499 is counted", || {
        gateway.metric("stargate_requests_total", &[("status", "499")]) as usize == 1
    });
    eventually("its attempt is counted", || {
        gateway.metric("stargate_proxy_attempts_total", &[("result", "cancelled")]) as usize == 1
    });
}

#[test]
fn connections_are_levels_and_return_to_none() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&engine.url());
    let clients = |gateway: &Gateway| gateway.metric("stargate_connections", &[("side", "client")]) as usize;
    eventually("none at first", || clients(&gateway) == 0);
    let open: Vec<_> = (0..7)
        .map(|_| {
            let mut connection = gateway.client().connect();
            let _ = connection.exchange(&Request::chat("mock")).expect_ok();
            connection
        })
        .collect();
    eventually("7 are open", || clients(&gateway) == 7);
    drop(open);
    eventually("none is left", || clients(&gateway) == 0);
}

#[test]
fn the_prefix_is_the_operators_choice() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().set("metrics.prefix", "\"edge_\"").backend("e1", &engine.url()).start();
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    eventually("it is counted", || gateway.metric("edge_requests_total", &[]) as usize == 1);
    assert!(series(&gateway).iter().all(|name| !name.starts_with("stargate_")));
}
