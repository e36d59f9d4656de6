//! Backends that come and go through the control plane's REST API (docs/api.md).

use serde_json::{Value, json};
use stargate_tests::{Engine, Gateway, RawEngine, Request, SseItem, SseReader, eventually};

/// Lease of a backend that stays.
const LONG_LEASE_MS: u64 = 600_000;

/// Lease of a backend that a test waits to see go.
const SHORT_LEASE_MS: u64 = 400;

fn registration(url: &str) -> Value {
    json!({ "url": url, "lease_ms": LONG_LEASE_MS, "models": { "mock": {} } })
}

#[test]
fn a_registered_backend_serves_at_once_and_a_removed_one_no_more() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().start();
    gateway.client().send(&Request::chat("mock")).expect_error(404, "no_eligible_candidates");

    let created = gateway.put_backend("e1", &registration(&engine.url()));
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(created.json()["id"], "e1");
    gateway.wait_until_routable("e1");
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();

    let renewed = gateway.put_backend("e1", &registration(&engine.url()));
    assert_eq!(renewed.status, 200, "{renewed:?}");
    let list = gateway.admin().get("/api/v1/backends").expect_ok().json();
    assert!(list.to_string().contains("\"e1\""), "{list}");
    assert_eq!(gateway.admin().get("/api/v1/backends/e1").expect_ok().json()["id"], "e1");
    let clusters = gateway.admin().get("/api/v1/clusters").expect_ok().json();
    assert!(clusters.to_string().contains("\"e1\""), "{clusters}");

    let deleted = gateway.delete_backend("e1");
    assert!((200..300).contains(&deleted.status), "{deleted:?}");
    gateway.wait_until_not_routable("e1");
    gateway.client().send(&Request::chat("mock")).expect_error(404, "no_eligible_candidates");
    assert_eq!(gateway.admin().get("/api/v1/backends/e1").status, 404);
    assert_eq!(gateway.delete_backend("e1").status, 404);
}

#[test]
fn a_request_in_flight_outlives_its_backends_registration() {
    let (engine, removed) = RawEngine::gated();
    let gateway = Gateway::builder().start();
    gateway.register("e1", &engine.url());
    let mut client = gateway.client().connect();
    let head = client.begin(&Request::chat_stream("mock"));
    let mut stream = SseReader::new(client.body(&head));
    assert_eq!(stream.next_event().data, "1");
    assert!((200..300).contains(&gateway.delete_backend("e1").status));
    gateway.wait_until_not_routable("e1");
    removed.open();
    let (events, end) = stream.rest().expect("the rest");
    assert_eq!((events.len(), events[0].data.as_str(), end), (1, "2", SseItem::End));
    // Its counters went with it; a new registration starts from none.
    gateway.register("e1", &engine.url());
    assert_eq!(gateway.in_flight(), 0);
}

#[test]
fn a_lease_that_is_not_renewed_ends() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().start();
    let short = json!({ "url": engine.url(), "lease_ms": SHORT_LEASE_MS, "models": { "mock": {} } });
    gateway.register_with("e1", &short);
    gateway.wait_until_not_routable("e1");
    eventually("its registration is gone", || gateway.admin().get("/api/v1/backends/e1").status == 404);
    gateway.client().send(&Request::chat("mock")).expect_error(404, "no_eligible_candidates");
    // It may come back.
    gateway.register_with("e1", &registration(&engine.url()));
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
}

/// The mock engine renews by its stats alone: for several leases it stays, and after its death it goes.
#[test]
fn stats_renew_the_lease() {
    let gateway = Gateway::builder().set("health.unhealthy_after", 1000).start();
    let mut engine = Engine::builder("e1")
        .flag("lease-ms", 1000)
        .flag("stats-interval-ms", 50)
        .register_with(&gateway)
        .start();
    gateway.wait_until_routable("e1");
    let version = || gateway.snapshot()["version"].as_u64().expect("a version");
    let start = std::time::Instant::now();
    let first = version();
    eventually("three leases pass", || {
        assert!(gateway.is_routable("e1"), "it left although it renews");
        start.elapsed().as_millis() > 3000
    });
    assert!(version() >= first);
    engine.kill();
    gateway.wait_until_not_routable("e1");
}

#[test]
fn an_inactive_model_is_known_but_serves_nothing() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().start();
    gateway.register("e1", &engine.url());
    let inactive = json!({ "url": engine.url(), "lease_ms": LONG_LEASE_MS, "models": { "mock": { "status": "inactive" } } });
    assert_eq!(gateway.put_backend("e1", &inactive).status, 200);
    gateway.wait_until_not_routable("e1");
    let response = gateway.client().send(&Request::chat("mock"));
    response.expect_error(503, "no_active_backend");
    assert!(response.header("retry-after").is_some_and(|value| value.parse::<u32>().is_ok()), "{response:?}");
    assert_eq!(gateway.put_backend("e1", &registration(&engine.url())).status, 200);
    gateway.wait_until_routable("e1");
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
}

#[test]
fn an_identity_does_not_change_within_a_registration() {
    let (one, other) = (RawEngine::plain(), RawEngine::plain());
    let gateway = Gateway::builder().start();
    gateway.register("e1", &one.url());
    for change in [
        registration(&other.url()),
        json!({ "url": one.url(), "cluster_id": "elsewhere", "models": { "mock": {} } }),
        json!({ "url": one.url(), "routing_key": "team-a", "models": { "mock": {} } }),
    ] {
        let response = gateway.put_backend("e1", &change);
        assert_eq!(response.status, 409, "{change}: {response:?}");
        assert!(response.json()["error"]["message"].is_string());
    }
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    assert_eq!((one.request_count(), other.request_count()), (1, 0));
    assert!((200..300).contains(&gateway.delete_backend("e1").status));
    gateway.register("e1", &other.url());
}

#[test]
fn faulty_stats_are_refused_with_their_path_and_change_nothing() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().start();
    gateway.register("e1", &engine.url());
    assert_eq!(
        gateway.post_stats("e1", &json!({ "last_mean_input_tps": 4321.0, "queue_size": 7 })).status,
        204
    );
    let stats = || gateway.admin().get("/api/v1/backends/e1").expect_ok().json().to_string();
    eventually("they are in force", || stats().contains("4321"));
    for (fault, path) in [
        (json!({ "queue_size": -1 }), "queue_size"),
        (json!({ "last_mean_input_tps": -5.0 }), "last_mean_input_tps"),
        (json!({ "last_mean_input_tps": 1e300 }), "last_mean_input_tps"),
        (json!({ "queue_size": "many" }), "queue_size"),
        (json!({ "que_size": 1 }), "que_size"),
        (
            json!({ "queue_time_estimate_ms_by_priority": { "urgent": 1.0 } }),
            "queue_time_estimate_ms_by_priority",
        ),
    ] {
        let response = gateway.post_stats("e1", &fault);
        assert_eq!(response.status, 422, "{fault}: {response:?}");
        let error = response.json()["error"].clone();
        let param = error["param"].as_str().unwrap_or_default();
        assert!(param.contains(path), "{fault}: {error}");
        assert!(stats().contains("4321"), "{fault} changed what was in force");
    }
    // NaN and infinity have no JSON; what is no JSON at all is the caller's fault too.
    let no_json = Request::new("POST", "/api/v1/backends/e1/stats")
        .header("content-type", "application/json")
        .body(r#"{"models":{"mock":{"queue_size":NaN}}}"#);
    let response = gateway.admin().send(&no_json);
    assert!([400, 422].contains(&response.status), "{response:?}");
    assert_eq!(gateway.admin().post("/api/v1/backends/nobody/stats", &json!({ "models": {} })).status, 404);
}

#[test]
fn faulty_registrations_are_refused() {
    let gateway = Gateway::builder().start();
    for fault in [
        json!({ "models": { "mock": {} } }),
        json!({ "url": "http://127.0.0.1:1" }),
        json!({ "url": "not a url", "models": { "mock": {} } }),
        json!({ "url": "ftp://127.0.0.1", "models": { "mock": {} } }),
        json!({ "url": "http://127.0.0.1:1", "models": { "mock": {} }, "unknown": 1 }),
        json!({ "url": "http://127.0.0.1:1", "models": { "mock": { "status": "sleepy" } } }),
        json!({ "url": "http://127.0.0.1:1", "models": { "mock": {} }, "lease_ms": 0 }),
        json!({ "url": "http://127.0.0.1:1", "models": { "mock": {} }, "engine": "abacus" }),
    ] {
        let response = gateway.put_backend("e1", &fault);
        assert!([400, 422].contains(&response.status), "{fault}: {response:?}");
        let error = response.json()["error"].clone();
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{fault}: {error}");
    }
    assert_eq!(gateway.admin().get("/api/v1/backends/e1").status, 404);
}

#[test]
fn a_registration_larger_than_allowed_is_refused() {
    let gateway = Gateway::builder().set("registration.max_body_bytes", 2048).start();
    let large = json!({ "url": "http://127.0.0.1:1", "models": { "m".repeat(4000): {} } });
    let response = gateway.put_backend("e1", &large);
    assert!([413, 422].contains(&response.status), "{response:?}");
}

#[test]
fn no_more_backends_are_registered_than_allowed() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().set("registration.max_backends", 2).start();
    gateway.register("e1", &engine.url());
    gateway.register("e2", &engine.url());
    let response = gateway.put_backend("e3", &registration(&engine.url()));
    assert!((400..600).contains(&response.status), "{response:?}");
    assert_eq!(gateway.put_backend("e2", &registration(&engine.url())).status, 200, "renewing goes on");
}
