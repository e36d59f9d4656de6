//! Reservations (docs/routing.md) as engines and operators see them: what was just sent counts until the stats
//! must contain it, and every reservation ends exactly once.

use serde_json::{Value, json};
use stargate_tests::{Gateway, GatewayBuilder, RawEngine, Request, Then, eventually};

/// Beyond any test: only what ends a reservation before its time does.
const AGES_MS: u64 = 60_000;

/// An engine that is silent until the gateway goes away: it keeps what it gets.
fn silent() -> RawEngine {
    RawEngine::start(|exchange| {
        exchange.closed_by_gateway();
        Then::Close
    })
}

/// Stats that follow every change, as an engine says, and never change.
fn frozen_stats(slots: u64) -> Value {
    json!({ "num_running_queries": 0, "queue_size": 0, "max_engine_concurrency": slots, "last_mean_input_tps": 1000.0,
            "stats_capabilities": ["change-driven"] })
}

/// A gateway whose reservations live for so long.
fn gateway_with_ttl(ttl_ms: u64) -> GatewayBuilder {
    Gateway::builder().set("reservations.ttl_min_ms", ttl_ms).set("reservations.ttl_max_ms", AGES_MS)
}

fn register(gateway: &Gateway, id: &str, engine: &RawEngine, slots: u64) {
    gateway.register(id, &engine.url());
    assert_eq!(gateway.post_stats(id, &frozen_stats(slots)).status, 204);
    eventually("its clusters are accounted by reservations", || {
        load(gateway).iter().any(|cluster| {
            cluster["backends"][0]["backend_id"] == id && cluster["accounting"] == "reservations"
        })
    });
}

/// The clusters of the one target, with their load.
fn load(gateway: &Gateway) -> Vec<Value> {
    let target = gateway.admin().get("/api/v1/targets/mock").expect_ok().json();
    target["load"].as_array().expect("clusters").clone()
}

fn count(gateway: &Gateway, what: &str) -> u64 {
    metric(gateway, &format!("reservations_{what}"), &[])
}

fn metric(gateway: &Gateway, name: &str, labels: &[(&str, &str)]) -> u64 {
    gateway.metric(&format!("stargate_{name}"), labels) as u64
}

/// Waits until the reservations made are accounted for as so many expired, released and dropped, none pending.
fn expect_ends(gateway: &Gateway, expired: u64, released: u64, dropped: u64) {
    let expected = [expired + released + dropped, expired, released, dropped, 0, 0];
    let kinds =
        ["created_total", "expired_total", "released_total", "dropped_total", "handed_over_total", "pending"];
    let mut found = [0; 6];
    let is_reached = || {
        found = kinds.map(|kind| count(gateway, kind));
        found == expected
    };
    eventually(&format!("{kinds:?} are {expected:?}"), is_reached);
}

#[test]
fn a_burst_is_spread_by_reservations_alone() {
    for (cores, most) in [(1, 8), (2, 10)] {
        let engines: Vec<_> = (0..8).map(|_| silent()).collect();
        let gateway = gateway_with_ttl(AGES_MS)
            .cores(cores)
            .set("routing.default.algorithm", "\"power-of-n\"")
            .set("routing.default.sample_count", 8)
            .set("routing.default.comparator", "\"num-requests-queued\"")
            .start();
        for (number, engine) in engines.iter().enumerate() {
            register(&gateway, &format!("e{number}"), engine, 64);
        }
        let mut clients: Vec<_> = (0..64).map(|_| gateway.client().connect()).collect();
        for client in &mut clients {
            client.send(Request::chat("mock").to_bytes());
        }
        let counts = || engines.iter().map(RawEngine::request_count).collect::<Vec<_>>();
        eventually("all are with an engine", || counts().iter().sum::<usize>() == clients.len());
        assert!(counts().iter().all(|count| *count <= most), "on {cores} cores: {:?}", counts());
        let clusters = load(&gateway);
        assert_eq!(clusters.len(), engines.len());
        for cluster in &clusters {
            // The engines still say that they are idle.
            assert_eq!(cluster["reported"]["num_running_queries"], 0, "{cluster}");
            let reserved = cluster["reserved"]["attempts"].as_u64().expect("a count");
            assert!((1..=most as u64).contains(&reserved), "{cluster}");
            assert_eq!(cluster["effective"]["num_running_queries"], reserved, "{cluster}");
            assert_eq!(cluster["effective"]["queue_size"], reserved, "{cluster}");
        }
        drop(clients);
        expect_ends(&gateway, 0, 64, 0);
        gateway.wait_until_idle();
        assert!(load(&gateway).iter().all(|cluster| cluster["reserved"]["attempts"] == 0));
    }
}

#[test]
fn a_reservation_ends_by_time_though_its_attempt_goes_on() {
    let engine = silent();
    let gateway = gateway_with_ttl(10).start();
    register(&gateway, "e1", &engine, 64);
    let mut client = gateway.client().connect();
    client.send(Request::chat("mock").to_bytes());
    engine.wait_for_requests(1);
    expect_ends(&gateway, 1, 0, 0);
    let cluster = load(&gateway)[0].clone();
    assert_eq!(cluster["in_flight"]["running"], 1, "{cluster}");
    assert_eq!(cluster["effective"]["num_running_queries"], 0, "the report counts alone: {cluster}");
    assert_eq!(metric(&gateway, "reservation_ttl_seconds_count", &[]), 1);
    assert_eq!(metric(&gateway, "reservation_ttl_seconds_bucket", &[("le", "2")]), 1);
    drop(client);
    gateway.wait_until_idle();
    expect_ends(&gateway, 1, 0, 0);
}

#[test]
fn an_attempt_that_no_engine_took_leaves_no_reservation() {
    // Free, and so refused to whoever connects.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", nobody.local_addr().expect("an address"));
    let gateway = gateway_with_ttl(AGES_MS)
        // Its health is not what takes it out.
        .set("health.interval_ms", AGES_MS)
        .set("retry.max_connect_retries", 0)
        .start();
    gateway.register("e1", &url);
    assert_eq!(gateway.post_stats("e1", &frozen_stats(64)).status, 204);
    drop(nobody);
    eventually("its cluster is accounted by reservations", || {
        load(&gateway).iter().any(|cluster| cluster["accounting"] == "reservations")
    });
    gateway.client().send(&Request::chat("mock")).expect_error(502, "upstream_connect_failed");
    expect_ends(&gateway, 0, 1, 0);
}

#[test]
fn an_engine_that_refuses_what_it_was_sent_holds_no_reservation() {
    let refusing = RawEngine::start(|exchange| {
        exchange.respond("429 Too Many Requests", &[("x-stargate-retryable", "true")], "{}");
        Then::KeepOpen
    });
    let gateway = gateway_with_ttl(AGES_MS).start();
    register(&gateway, "e1", &refusing, 64);
    let response = gateway.client().send(&Request::chat("mock"));
    assert!(response.status >= 400, "{response:?}");
    let created = refusing.request_count() as u64;
    expect_ends(&gateway, 0, created, 0);
}

#[test]
fn reservations_end_with_the_registration_that_they_are_for() {
    let (gone, stays) = (silent(), silent());
    let gateway = gateway_with_ttl(AGES_MS).cores(1).start();
    // One cluster, so that it goes on.
    for (id, engine) in [("gone", &gone), ("stays", &stays)] {
        let body =
            json!({ "url": engine.url(), "cluster_id": "c", "lease_ms": 600_000, "models": { "mock": {} } });
        gateway.register_with(id, &body);
        assert_eq!(gateway.post_stats(id, &frozen_stats(64)).status, 204);
    }
    eventually("the cluster is accounted by reservations", || {
        load(&gateway)[0]["accounting"] == "reservations"
    });
    let mut clients: Vec<_> = (0..4).map(|_| gateway.client().connect()).collect();
    for client in &mut clients {
        client.send(Request::chat("mock").to_bytes());
    }
    eventually("both have their half", || [gone.request_count(), stays.request_count()] == [2, 2]);
    assert!((200..300).contains(&gateway.delete_backend("gone").status));
    eventually("those of the backend that left are dropped", || {
        [count(&gateway, "dropped_total"), count(&gateway, "pending")] == [2, 2]
    });
    assert_eq!(load(&gateway)[0]["reserved"]["attempts"], 2);
    drop(clients);
    expect_ends(&gateway, 0, 2, 2);
}

#[test]
fn a_cluster_whose_stats_are_polled_is_charged_for_what_is_in_flight() {
    let engine = silent();
    let gateway = gateway_with_ttl(10).start();
    gateway.register("e1", &engine.url());
    let stats = json!({ "num_running_queries": 1, "queue_size": 5, "max_engine_concurrency": 8 });
    assert_eq!(gateway.post_stats("e1", &stats).status, 204);
    let mut clients: Vec<_> = (0..3).map(|_| gateway.client().connect()).collect();
    for client in &mut clients {
        client.send(Request::chat("mock").to_bytes());
    }
    engine.wait_for_requests(3);
    eventually("the larger of report and in flight counts", || {
        let cluster = load(&gateway)[0].clone();
        assert_eq!(cluster["accounting"], "in_flight", "{cluster}");
        cluster["effective"]["num_running_queries"] == 3 && cluster["effective"]["queue_size"] == 5
    });
    assert_eq!(count(&gateway, "created_total"), 0);
}

#[test]
fn estimates_by_priority_contain_what_was_reserved_ahead_of_them() {
    let engine = silent();
    let gateway = gateway_with_ttl(AGES_MS).start();
    gateway.register("e1", &engine.url());
    let stats = json!({
        "num_running_queries": 8, "queue_size": 1, "max_engine_concurrency": 8, "last_mean_input_tps": 1000.0,
        "queued_input_size": 40, "total_query_input_size": 900,
        "queue_time_estimate_ms_by_priority": { "0": 10.0, "5": 20.0 }, "stats_capabilities": ["change-driven"]
    });
    assert_eq!(gateway.post_stats("e1", &stats).status, 204);
    eventually("the estimates are in force", || load(&gateway)[0]["accounting"] == "reservations");
    let mut client = gateway.client().connect();
    let request = Request::chat("mock").header("x-input-tokens", 500).header("x-priority", 3);
    client.send(request.to_bytes());
    engine.wait_for_requests(1);
    // 500 tokens at 1000 tokens/s.
    let expected = json!({
        "num_running_queries": 9, "queue_size": 2, "queued_input_size": 540, "total_query_input_size": 1400,
        "queue_time_estimate_ms_by_priority": { "0": 10.0, "5": 520.0 }
    });
    eventually("the reservation is in the effective stats", || load(&gateway)[0]["effective"] == expected);
}
