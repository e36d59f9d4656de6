//! What is sent again, and what never is: only with proof that no engine has started it.

use std::{
    collections::HashMap,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::{Value, json};
use stargate_tests::{Engine, Gateway, GatewayBuilder, RawEngine, Request, Then, eventually};

/// An address that refuses connections: it was free a moment ago.
fn refusing_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

/// A gateway whose health checks take nobody out of rotation while a test runs: what a retry must do is seen
/// only as long as a dead backend is still chosen.
fn gateway_without_health_checks() -> GatewayBuilder {
    Gateway::builder().set("health.interval_ms", 60_000)
}

#[test]
fn a_silent_engine_executes_once_and_the_client_gets_504() {
    let engines: Vec<_> = (0..2)
        .map(|_| {
            RawEngine::start(|exchange| {
                exchange.closed_by_gateway();
                Then::Close
            })
        })
        .collect();
    let gateway = Gateway::builder()
        .set("timeouts.first_byte_ms", 300)
        .backend("e1", &engines[0].url())
        .backend("e2", &engines[1].url())
        .start();
    gateway.client().send(&Request::chat("mock")).expect_error(504, "upstream_timeout");
    assert_eq!(engines.iter().map(RawEngine::request_count).sum::<usize>(), 1, "a timeout is no proof");
    gateway.wait_until_idle();
}

#[test]
fn a_refused_connection_moves_the_request_to_another_backend() {
    let engine = RawEngine::start(|exchange| {
        exchange.respond_ok();
        Then::KeepOpen
    });
    let gateway = gateway_without_health_checks().set("routing.default.algorithm", "\"round-robin\"").start();
    gateway.register("dead", &refusing_url());
    gateway.register("alive", &engine.url());
    for _ in 0..6 {
        let response = gateway.client().send(&Request::chat("mock")).expect_ok();
        assert_eq!(response.served_by(), "alive");
    }
    assert_eq!(engine.request_count(), 6);
    assert!(
        gateway.metric("stargate_proxy_retries_total", &[("reason", "connect_failed")]) >= 1.0,
        "round robin met the dead one"
    );
    assert!(gateway.metric("stargate_proxy_attempts_total", &[("result", "connect_failed")]) >= 1.0);
    gateway.wait_until_idle();
}

#[test]
fn connect_failures_are_retried_as_often_as_configured_and_no_more() {
    for retries in [0, 2] {
        let gateway = gateway_without_health_checks().set("retry.max_connect_retries", retries).start();
        for id in ["d1", "d2", "d3", "d4", "d5"] {
            gateway.register(id, &refusing_url());
        }
        gateway.client().send(&Request::chat("mock")).expect_error(502, "upstream_connect_failed");
        eventually("the attempts are counted", || {
            gateway.metric("stargate_proxy_attempts_total", &[("result", "connect_failed")])
                >= f64::from(retries + 1)
        });
        assert_eq!(gateway.metric("stargate_proxy_attempts_total", &[]) as i32, retries + 1);
        gateway.wait_until_idle();
    }
}

#[test]
fn without_a_budget_nothing_is_retried() {
    let engine = Engine::start("alive");
    let gateway = gateway_without_health_checks()
        .set("routing.default.algorithm", "\"round-robin\"")
        .set("retry.budget_percent", 0)
        .set("retry.budget_min_per_second", 0)
        .start();
    gateway.register("dead", &refusing_url());
    gateway.register("alive", &engine.url());
    let statuses: Vec<u16> = (0..8).map(|_| gateway.client().send(&Request::chat("mock")).status).collect();
    assert!(statuses.contains(&502) && statuses.contains(&200), "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 502].contains(status)), "{statuses:?}");
}

#[test]
fn a_request_that_was_read_and_dropped_is_not_sent_again() {
    for then in [Then::Close, Then::Reset] {
        let engines: Vec<_> = (0..2).map(|_| RawEngine::start(move |_| then)).collect();
        let gateway =
            Gateway::builder().backend("e1", &engines[0].url()).backend("e2", &engines[1].url()).start();
        gateway.client().send(&Request::chat("mock")).expect_error(502, "upstream_reset");
        assert_eq!(engines.iter().map(RawEngine::request_count).sum::<usize>(), 1);
        gateway.wait_until_idle();
    }
}

/// Answers the first request of every connection and drops the second, read whole.
fn engine_with_stale_connections() -> RawEngine {
    let seen: std::sync::Mutex<HashMap<usize, usize>> = std::sync::Mutex::default();
    RawEngine::start(move |exchange| {
        let mut seen = seen.lock().expect("no script panics");
        let count = seen.entry(exchange.request.connection).or_default();
        *count += 1;
        if *count > 1 {
            return Then::Close;
        }
        exchange.respond_ok();
        Then::KeepOpen
    })
}

#[test]
fn a_body_written_to_a_stale_connection_is_not_sent_again() {
    let engine = engine_with_stale_connections();
    let gateway = Gateway::builder().cores(1).backend("e1", &engine.url()).start();
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    eventually("the connection is idle", || engine.idle_connections() == 1);
    gateway.client().send(&Request::chat("mock")).expect_error(502, "upstream_reset");
    assert_eq!(engine.request_count(), 2, "each request reached the engine once");
}

#[test]
fn a_body_written_to_a_stale_connection_is_sent_again_where_that_is_configured() {
    let engine = engine_with_stale_connections();
    let gateway = Gateway::builder()
        .cores(1)
        .set("retry.retry_on_stale_connection", true)
        .backend("e1", &engine.url())
        .start();
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    eventually("the connection is idle", || engine.idle_connections() == 1);
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    let connections: Vec<usize> = engine.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections.len(), 3, "{connections:?}");
    assert_eq!(connections[0], connections[1]);
    assert_ne!(connections[1], connections[2]);
}

/// An engine that rejects everything with these headers.
fn rejecting_engine(
    status_line: &'static str,
    headers: &'static [(&'static str, &'static str)],
) -> RawEngine {
    RawEngine::start(move |exchange| {
        exchange.respond(status_line, headers, r#"{"error":{"message":"full"}}"#);
        Then::KeepOpen
    })
}

#[test]
fn a_rejection_that_says_so_moves_the_request_to_another_backend() {
    for status_line in ["503 Service Unavailable", "429 Too Many Requests"] {
        let full = rejecting_engine(status_line, &[("x-stargate-retryable", "true")]);
        let free = RawEngine::start(|exchange| {
            exchange.respond_ok();
            Then::KeepOpen
        });
        let gateway = Gateway::builder()
            .set("routing.default.algorithm", "\"round-robin\"")
            .backend("full", &full.url())
            .backend("free", &free.url())
            .start();
        for _ in 0..4 {
            assert_eq!(gateway.client().send(&Request::chat("mock")).expect_ok().served_by(), "free");
        }
        assert!(full.request_count() >= 1, "round robin met the full one");
        assert_eq!(free.request_count(), 4);
        gateway.wait_until_idle();
    }
}

#[test]
fn a_rejection_without_that_word_is_the_answer() {
    let engines: Vec<_> = (0..2)
        .map(|_| rejecting_engine("503 Service Unavailable", &[("retry-after", "7"), ("x-own", "kept")]))
        .collect();
    let gateway =
        Gateway::builder().backend("e1", &engines[0].url()).backend("e2", &engines[1].url()).start();
    let response = gateway.client().send(&Request::chat("mock"));
    assert_eq!(response.status, 503);
    assert_eq!(response.body.complete(), br#"{"error":{"message":"full"}}"#);
    assert_eq!((response.header("retry-after"), response.header("x-own")), (Some("7"), Some("kept")));
    assert_eq!(response.header("x-stargate-error-code"), None, "the engine's own answer");
    assert_eq!(engines.iter().map(RawEngine::request_count).sum::<usize>(), 1);
}

#[test]
fn the_last_rejection_is_passed_on_without_the_words_between_engine_and_gateway() {
    let headers = &[
        ("x-stargate-retryable", "true"),
        ("x-stargate-retry-reason", "queue_full"),
        ("x-stargate-retry-after-ms", "50"),
        ("retry-after", "1"),
    ];
    let engines: Vec<_> = (0..4).map(|_| rejecting_engine("503 Service Unavailable", headers)).collect();
    let mut builder = Gateway::builder().set("retry.max_rejection_retries", 2);
    for (number, engine) in engines.iter().enumerate() {
        builder = builder.backend(&format!("e{number}"), &engine.url());
    }
    let gateway = builder.start();
    let response = gateway.client().send(&Request::chat("mock"));
    assert_eq!(response.status, 503, "{response:?}");
    assert_eq!(engines.iter().map(RawEngine::request_count).sum::<usize>(), 3, "one try and two more");
    assert!(engines.iter().all(|engine| engine.request_count() <= 1), "each backend once");
    for (name, _) in &headers[..3] {
        assert!(!response.head.headers.has(name), "{name} is not for clients");
    }
    assert!(response.head.headers.has("retry-after"));
    gateway.wait_until_idle();
}

/// What became of one request of the load below.
#[derive(Debug)]
struct Outcome {
    id: String,
    status: u16,
    code: Option<String>,
    served_by: Option<String>,
}

/// Clients that send one request after the other until they are told to stop.
fn load(gateway: &Gateway, clients: usize, stop: &Arc<AtomicBool>) -> Vec<thread::JoinHandle<Vec<Outcome>>> {
    let sent = Arc::new(AtomicUsize::new(0));
    (0..clients)
        .map(|_| {
            let (client, stop, sent) = (gateway.client(), stop.clone(), sent.clone());
            thread::spawn(move || {
                let mut connection = client.connect();
                let mut outcomes = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    let id = format!("load-{}", sent.fetch_add(1, Ordering::SeqCst));
                    let response = connection.exchange(&Request::chat("mock").header("x-request-id", &id));
                    if response.head.headers.has_token("connection", "close") {
                        connection = client.connect();
                    }
                    outcomes.push(Outcome {
                        id,
                        status: response.status,
                        code: response.header("x-stargate-error-code").map(str::to_owned),
                        served_by: response.header("x-inference-server-id").map(str::to_owned),
                    });
                }
                outcomes
            })
        })
        .collect()
}

/// How often each request was started, by the engines that can still be asked.
fn starts(engines: &[Engine]) -> HashMap<String, u64> {
    let mut starts = HashMap::new();
    for engine in engines {
        let state: Value = engine.state();
        for (id, count) in state["by_request_id"].as_object().expect("starts by request id") {
            *starts.entry(id.clone()).or_default() += count.as_u64().expect("a count");
        }
    }
    starts
}

#[test]
fn killing_a_backend_under_load_costs_only_what_it_was_executing() {
    const CLIENTS: usize = 6;
    let gateway = Gateway::builder().set("routing.default.algorithm", "\"round-robin\"").start();
    let start = |id| Engine::builder(id).flag("decode-tps", 2000).start();
    let survivors = [start("e1"), start("e2")];
    let mut victim = start("victim");
    gateway.register("e1", &survivors[0].url());
    gateway.register("e2", &survivors[1].url());
    gateway.register("victim", &victim.url());

    let stop = Arc::new(AtomicBool::new(false));
    let clients = load(&gateway, CLIENTS, &stop);
    eventually("the victim has served some", || victim.counter("requests_completed") >= 20);
    victim.kill();
    gateway.wait_until_not_routable("victim");
    let served_at_kill = survivors[0].counter("requests_completed");
    eventually("the survivors go on", || survivors[0].counter("requests_completed") >= served_at_kill + 20);
    stop.store(true, Ordering::SeqCst);
    let outcomes: Vec<Outcome> =
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect();

    let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.status != 200).collect();
    assert!(failed.len() <= CLIENTS, "at most what the victim was executing: {failed:#?}");
    let starts = starts(&survivors);
    for outcome in &failed {
        assert_eq!(outcome.code.as_deref(), Some("upstream_reset"), "{outcome:?}");
        assert_eq!(starts.get(&outcome.id), None, "sent again: {outcome:?}");
    }
    for outcome in outcomes.iter().filter(|outcome| outcome.status == 200) {
        let by_victim = outcome.served_by.as_deref() == Some("victim");
        let expected = if by_victim { None } else { Some(&1) };
        assert_eq!(starts.get(&outcome.id), expected, "{outcome:?}");
    }
    assert!(outcomes.iter().any(|outcome| outcome.served_by.as_deref() == Some("victim")));
    gateway.wait_until_idle();
}

#[test]
fn an_engine_that_refuses_for_a_while_is_passed_over_and_comes_back() {
    let e1 = Engine::builder("e1").flag("keep-alive-ms", 0).start();
    let e2 = Engine::start("e2");
    let gateway = Gateway::builder()
        .set("routing.default.algorithm", "\"round-robin\"")
        .backend("e1", &e1.url())
        .backend("e2", &e2.url())
        .start();
    // The engine's listener is about to close; what is connected stays.
    let mut control = e1.client().connect();
    let fault = control.exchange(&Request::post("/mock/fault", &json!({ "kind": "refuse" })));
    assert!((200..300).contains(&fault.status), "{fault:?}");
    gateway.wait_until_not_routable("e1");
    for _ in 0..4 {
        assert_eq!(gateway.client().send(&Request::chat("mock")).expect_ok().served_by(), "e2");
    }
    let cleared = control.exchange(&Request::new("DELETE", "/mock/fault"));
    assert!((200..300).contains(&cleared.status), "{cleared:?}");
    gateway.wait_until_routable("e1");
    eventually("e1 serves again", || {
        gateway.client().send(&Request::chat("mock")).expect_ok().served_by() == "e1"
    });
}
