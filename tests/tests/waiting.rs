//! Requests that wait in the gateway until somebody can serve them (FIELD 29, and 9 for those who leave).

use serde_json::{Value, json};
use stargate_tests::{Gateway, RawEngine, Request, eventually};

/// Longer than any test: what is awaited comes first.
const LONG_WAIT_MS: u64 = 50_000;

fn registration(engine: &RawEngine, status: &str) -> Value {
    json!({ "url": engine.url(), "lease_ms": 600_000, "models": { "mock": { "status": status } } })
}

/// A gateway that knows the model, while nobody serves it.
fn gateway_at_zero(engine: &RawEngine) -> Gateway {
    let gateway = Gateway::builder().start();
    assert_eq!(gateway.put_backend("e1", &registration(engine, "inactive")).status, 201);
    let is_known = || gateway.client().send(&Request::chat("mock")).status == 503;
    eventually("the model is known", is_known);
    gateway
}

#[test]
fn a_backend_that_comes_in_time_serves_who_waits() {
    let engine = RawEngine::plain();
    let gateway = gateway_at_zero(&engine);
    let request = Request::chat("mock").header("x-max-wait-ms", LONG_WAIT_MS);
    let mut waiting: Vec<_> = (0..5).map(|_| gateway.client().connect()).collect();
    for connection in &mut waiting {
        connection.send(request.to_bytes());
    }
    // Answered at once only without a budget: those sent above are still waiting when this one is refused.
    gateway.client().send(&Request::chat("mock")).expect_error(503, "no_active_backend");
    assert!(waiting.iter().all(|connection| !connection.has_input()));
    assert_eq!(gateway.put_backend("e1", &registration(&engine, "active")).status, 200);
    for connection in &mut waiting {
        let _ = connection.receive(&request).expect("an answer").expect_ok();
    }
    assert_eq!(engine.request_count(), waiting.len());
    gateway.wait_until_idle();
}

#[test]
fn a_wait_ends_with_its_budget() {
    let engine = RawEngine::plain();
    let gateway = gateway_at_zero(&engine);
    let response = gateway.client().send(&Request::chat("mock").header("x-max-wait-ms", 200));
    assert!([503, 504].contains(&response.status), "{response:?}");
    let code = response.header("x-stargate-error-code").expect("a code").to_owned();
    response.expect_error(response.status, &code);
    assert!(["no_active_backend", "routing_wait_exceeded"].contains(&code.as_str()), "{response:?}");
    assert_eq!(engine.request_count(), 0);
}

#[test]
fn who_leaves_while_waiting_is_forgotten() {
    let engine = RawEngine::plain();
    let gateway = gateway_at_zero(&engine);
    let mut connection = gateway.client().connect();
    connection.send(Request::chat("mock").header("x-max-wait-ms", LONG_WAIT_MS).to_bytes());
    drop(connection);
    eventually("it is counted as gone", || {
        gateway.metric("stargate_requests_total", &[("status", "499")]) as usize == 1
    });
    assert_eq!(gateway.put_backend("e1", &registration(&engine, "active")).status, 200);
    gateway.wait_until_routable("e1");
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    assert_eq!(engine.request_count(), 1, "the one that left was not sent");
}
