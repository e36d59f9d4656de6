//! Requests that wait in the gateway until somebody can serve them: for whom, in which order, how long, and what
//! they are told in the end (docs/routing.md).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use stargate_tests::{
    Connection, Gate, Gateway, GatewayBuilder, RawEngine, Request, Response, Signal, Then, eventually,
    eventually_some,
};

/// Longer than any test: what is awaited comes first.
const LONG_WAIT_MS: u64 = 50_000;
/// Requests of a crowd.
const CROWD: usize = 1000;

fn registration(engine: &RawEngine, status: &str) -> Value {
    json!({ "url": engine.url(), "lease_ms": 600_000, "models": { "mock": { "status": status } } })
}

/// A backend with one slot, and these stats besides.
fn one_slot(url: &str, mut stats: Value) -> Value {
    stats["max_engine_concurrency"] = json!(1);
    json!({ "url": url, "lease_ms": 600_000, "models": { "mock": { "stats": stats } } })
}

/// A gateway that knows the model, while nobody serves it.
fn gateway_at_zero(engine: &RawEngine) -> Gateway {
    let gateway = Gateway::builder().start();
    assert_eq!(gateway.put_backend("e1", &registration(engine, "inactive")).status, 201);
    let is_known = || gateway.client().send(&Request::chat("mock")).status == 503;
    eventually("the model is known", is_known);
    gateway
}

/// A gateway of one core, where nothing is taken that is full; `fields` are added to the model's method.
fn widening(fields: &str) -> GatewayBuilder {
    Gateway::builder()
        .cores(1)
        .toml(&format!("[routing.models.\"mock\"]\nalgorithm = \"wait-and-widen\"\n{fields}"))
}

/// A gateway of one core, where a key's cluster is waited for longer than any test.
fn holding() -> GatewayBuilder {
    widening("cache_affinity_backend_selection_count = 1\ncache_affinity_wait_ms = 50000")
}

/// An engine that holds its first request at the gate and answers the others at once.
fn engine_held_once() -> (RawEngine, Gate) {
    let gate = Gate::default();
    let (waiting, served) = (gate.clone(), AtomicUsize::new(0));
    let engine = RawEngine::start(move |exchange| {
        if served.fetch_add(1, SeqCst) == 0 {
            waiting.wait();
        }
        exchange.respond_ok();
        Then::KeepOpen
    });
    (engine, gate)
}

fn patient() -> Request {
    Request::chat("mock").header("x-max-wait-ms", LONG_WAIT_MS)
}

/// Sends a request over a connection of its own.
fn send(gateway: &Gateway, request: &Request) -> Connection {
    let mut connection = gateway.client().connect();
    connection.send(request.to_bytes());
    connection
}

fn receive(connection: &mut Connection) -> Response {
    connection.receive(&Request::chat("mock")).expect("an answer")
}

fn waiters(gateway: &Gateway) -> usize {
    gateway.metric("stargate_routing_waiters", &[]) as usize
}

#[track_caller]
fn wait_for_waiters(gateway: &Gateway, count: usize) {
    eventually(&format!("{count} requests wait"), || waiters(gateway) == count);
}

/// Has the gateway's only engine hold a request, so that all others wait. Returns its connection.
fn take_the_slot(gateway: &Gateway, engine: &RawEngine) -> Connection {
    let first = send(gateway, &patient());
    engine.wait_for_requests(1);
    first
}

fn rejections(gateway: &Gateway, reason: &str) -> usize {
    gateway.metric("stargate_admission_rejections_total", &[("model", "mock"), ("reason", reason)]) as usize
}

#[test]
fn a_backend_that_comes_in_time_serves_who_waits() {
    let engine = RawEngine::plain();
    let gateway = gateway_at_zero(&engine);
    let mut waiting: Vec<_> = (0..5).map(|_| send(&gateway, &patient())).collect();
    wait_for_waiters(&gateway, waiting.len());
    // Answered at once only without a budget.
    let response = gateway.client().send(&Request::chat("mock"));
    response.expect_error(503, "no_active_backend");
    assert!(response.header("retry-after").is_some(), "{response:?}");
    assert!(waiting.iter().all(|connection| !connection.has_input()));
    assert_eq!(gateway.put_backend("e1", &registration(&engine, "active")).status, 200);
    for connection in &mut waiting {
        let _ = receive(connection).expect_ok();
    }
    assert_eq!(engine.request_count(), waiting.len());
    wait_for_waiters(&gateway, 0);
    let waited = [("model", "mock"), ("reason", "no_active_backend")];
    eventually("the waits are counted", || {
        gateway.metric("stargate_routing_wait_seconds_count", &waited) as usize == waiting.len()
    });
    gateway.wait_until_idle();
}

#[test]
fn a_wait_ends_with_its_budget() {
    let engine = RawEngine::plain();
    let gateway = gateway_at_zero(&engine);
    let response = gateway.client().send(&Request::chat("mock").header("x-max-wait-ms", 200));
    response.expect_error(503, "no_active_backend");
    assert_eq!(response.header("retry-after"), Some("1"));
    assert!(response.text().contains("x-max-wait-ms"), "{response:?}");
    assert_eq!(engine.request_count(), 0);
    eventually("it is counted", || rejections(&gateway, "wait_expired") == 1);
    let line = eventually_some("it is logged", || {
        let log = gateway.process().log();
        log.lines().find(|line| line.contains("within 200ms")).map(str::to_owned)
    });
    for field in ["waited_ms=2", "model=\"mock\"", "code=\"no_active_backend\""] {
        assert!(line.contains(field), "{field} in {line}");
    }
}

#[test]
fn who_leaves_while_waiting_is_forgotten() {
    let engine = RawEngine::plain();
    let gateway = gateway_at_zero(&engine);
    let connection = send(&gateway, &patient());
    wait_for_waiters(&gateway, 1);
    drop(connection);
    eventually("it is counted as gone", || {
        gateway.metric("stargate_requests_total", &[("status", "499")]) as usize == 1
    });
    assert_eq!(waiters(&gateway), 0);
    assert_eq!(gateway.put_backend("e1", &registration(&engine, "active")).status, 200);
    gateway.wait_until_routable("e1");
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    assert_eq!(engine.request_count(), 1, "the one that left was not sent");
}

#[test]
fn a_thousand_that_leave_leave_nothing() {
    let (engine, gate) = engine_held_once();
    let gateway = widening("").cores(2).start();
    gateway.register_with("e1", &one_slot(&engine.url(), json!({})));
    let mut first = take_the_slot(&gateway, &engine);
    let crowd: Vec<_> = (0..CROWD).map(|_| send(&gateway, &patient())).collect();
    wait_for_waiters(&gateway, CROWD);
    for (number, connection) in crowd.into_iter().enumerate() {
        if number % 2 == 0 { drop(connection) } else { connection.reset() }
    }
    wait_for_waiters(&gateway, 0);
    gate.open();
    let _ = receive(&mut first).expect_ok();
    gateway.wait_until_idle();
    assert_eq!(engine.request_count(), 1);
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
}

#[test]
fn a_key_that_is_held_for_its_cluster_goes_there_when_a_slot_is_free() {
    let ((one, gate), (other, other_gate)) = (engine_held_once(), engine_held_once());
    let gateway = holding().start();
    gateway.register_with("e1", &one_slot(&one.url(), json!({})));
    gateway.register_with("e2", &one_slot(&other.url(), json!({})));
    let request = Request::chat("mock").header("x-cache-affinity-key", "k");
    let mut first = send(&gateway, &request);
    eventually("the first reaches its engine", || one.request_count() + other.request_count() == 1);
    let mut second = send(&gateway, &request);
    wait_for_waiters(&gateway, 1);
    assert_eq!(one.request_count() + other.request_count(), 1, "the other cluster was free all the time");
    gate.open();
    other_gate.open();
    let served_by = receive(&mut first).expect_ok().served_by().to_owned();
    assert_eq!(receive(&mut second).expect_ok().served_by(), served_by);
    let selected = |selection| {
        let labels = [("algorithm", "wait-and-widen"), ("selection", selection)];
        gateway.metric("stargate_routing_selections_total", &labels) as usize
    };
    eventually("both are counted", || selected("primary") == 2);
    assert_eq!(selected("fallback"), 0);
    let waited = gateway.metric("stargate_routing_wait_seconds_count", &[("reason", "affinity")]);
    assert_eq!(waited as usize, 1);
}

#[test]
fn a_key_that_has_its_cluster_free_is_not_held_up_by_those_who_wait_for_another() {
    let ((one, gate), (other, other_gate)) = (engine_held_once(), engine_held_once());
    let gateway = holding().start();
    gateway.register_with("e1", &one_slot(&one.url(), json!({})));
    gateway.register_with("e2", &one_slot(&other.url(), json!({})));
    let keyed = |key: &str| Request::chat("mock").header("x-cache-affinity-key", key);
    let _first = send(&gateway, &keyed("k"));
    eventually("the first reaches its engine", || one.request_count() + other.request_count() == 1);
    let _held: Vec<_> = (0..3).map(|_| send(&gateway, &keyed("k"))).collect();
    wait_for_waiters(&gateway, 3);
    let mut others: Vec<_> = (0..20).map(|number| send(&gateway, &keyed(&format!("k{number}")))).collect();
    eventually("one of them is sent to the other engine", || {
        one.request_count().min(other.request_count()) == 1
    });
    gate.open();
    other_gate.open();
    for other in &mut others {
        let _ = receive(other).expect_ok();
    }
}

#[test]
fn an_explicit_budget_ends_a_wait_for_the_group() {
    let (engine, gate) = engine_held_once();
    let gateway = holding().start();
    gateway.register_with("e1", &one_slot(&engine.url(), json!({})));
    let request = Request::chat("mock").header("x-cache-affinity-key", "k");
    let mut first = send(&gateway, &request);
    engine.wait_for_requests(1);
    let response = gateway.client().send(&request.clone().header("x-max-wait-ms", 50));
    response.expect_error(503, "no_capacity");
    let retry_after: u64 = response.header("retry-after").expect("it is known").parse().expect("seconds");
    assert!((40..=50).contains(&retry_after), "the wait for the group ends then: {retry_after}");
    gate.open();
    let _ = receive(&mut first).expect_ok();
    assert_eq!(engine.request_count(), 1);
}

#[test]
fn reported_stats_that_free_a_slot_wake_who_waits() {
    for driver in ["io-uring", "epoll"] {
        let engine = RawEngine::plain();
        let gateway = widening("").argument("--driver").argument(driver).start();
        gateway.register_with("e1", &one_slot(&engine.url(), json!({ "num_running_queries": 1 })));
        let mut waiting = send(&gateway, &patient());
        wait_for_waiters(&gateway, 1);
        let free = json!({ "max_engine_concurrency": 1, "num_running_queries": 0 });
        assert_eq!(gateway.post_stats("e1", &free).status, 204);
        let _ = receive(&mut waiting).expect_ok();
        eventually("the core has looked at the current snapshot", || {
            let version = |name| gateway.metric(name, &[]) as u64;
            version("stargate_core_snapshot_version") == version("stargate_snapshot_version")
        });
    }
}

#[test]
fn a_backend_that_registers_serves_who_waits_for_a_place() {
    let ((engine, gate), newcomer) = (engine_held_once(), RawEngine::plain());
    let gateway = widening("").start();
    gateway.register_with("e1", &one_slot(&engine.url(), json!({})));
    let mut first = take_the_slot(&gateway, &engine);
    let mut waiting = send(&gateway, &patient());
    wait_for_waiters(&gateway, 1);
    gateway.register_with("e2", &one_slot(&newcomer.url(), json!({})));
    assert_eq!(receive(&mut waiting).expect_ok().served_by(), "e2");
    gate.open();
    let _ = receive(&mut first).expect_ok();
}

/// The ids of the requests that an engine got after its first, in the order in which it got them.
fn order_of(engine: &RawEngine) -> Vec<String> {
    let requests = engine.requests();
    requests[1..].iter().map(|request| request.header("x-request-id").expect("an id").to_owned()).collect()
}

#[test]
fn the_most_urgent_are_served_first_and_then_the_oldest() {
    let (engine, gate) = engine_held_once();
    let gateway = widening("").start();
    gateway.register_with("e1", &one_slot(&engine.url(), json!({})));
    let mut first = take_the_slot(&gateway, &engine);
    let mut waiting = Vec::new();
    for (id, priority) in [("a", 5), ("b", 0), ("c", 5), ("d", 3), ("e", 0)] {
        waiting.push(send(&gateway, &patient().header("x-request-id", id).header("x-priority", priority)));
        wait_for_waiters(&gateway, waiting.len());
    }
    gate.open();
    let _ = receive(&mut first).expect_ok();
    for waiting in &mut waiting {
        let _ = receive(waiting).expect_ok();
    }
    assert_eq!(order_of(&engine), ["b", "e", "d", "a", "c"]);
}

#[test]
fn in_overload_the_newest_are_served_first() {
    for (order, expected) in [("adaptive", ["c", "b", "a"]), ("oldest-first", ["a", "b", "c"])] {
        let (engine, gate) = engine_held_once();
        let gateway = widening(&format!("shed_unreachable = false\nwait_order = \"{order}\"")).start();
        gateway.register_with("e1", &one_slot(&engine.url(), json!({})));
        let mut first = take_the_slot(&gateway, &engine);
        // Half of it is over when the oldest is late.
        let (start, slo) = (Instant::now(), Duration::from_millis(100));
        let mut waiting = Vec::new();
        for id in ["a", "b", "c"] {
            let request = patient().header("x-request-id", id).header("x-request-slo-ms", slo.as_millis());
            waiting.push(send(&gateway, &request));
            wait_for_waiters(&gateway, waiting.len());
        }
        eventually("the oldest is late", || start.elapsed() > slo);
        gate.open();
        let _ = receive(&mut first).expect_ok();
        for waiting in &mut waiting {
            let _ = receive(waiting).expect_ok();
        }
        assert_eq!(order_of(&engine), expected, "{order}");
    }
}

#[test]
fn who_cannot_be_in_time_is_told_so_at_once() {
    let engine = RawEngine::plain();
    let gateway = widening("slo_ms = 60000").start();
    // Full, with 100 s of work ahead.
    let stats = json!({ "num_running_queries": 1, "last_mean_input_tps": 10.0, "queued_input_size": 1000 });
    gateway.register_with("e1", &one_slot(&engine.url(), stats));
    let request = patient().header("x-input-tokens", 10);
    let response = gateway.client().send(&request);
    response.expect_error(503, "slo_unreachable");
    // 101 s at best, and the round trip; 60 s of that it had.
    let retry_after = |response: &Response| response.header("retry-after").map(str::to_owned);
    assert!([Some("41"), Some("42")].contains(&retry_after(&response).as_deref()), "{response:?}");
    let response = gateway.client().send(&request.header("x-request-slo-ms", 500));
    response.expect_error(503, "slo_unreachable");
    assert_eq!(retry_after(&response).as_deref(), Some("101"), "{response:?}");
    eventually("they are counted", || rejections(&gateway, "slo_unreachable") == 2);
    assert_eq!(engine.request_count(), 0);
}

#[test]
fn so_many_wait_and_no_more() {
    let (engine, gate) = engine_held_once();
    let gateway = widening("max_waiters = 2").start();
    gateway.register_with("e1", &one_slot(&engine.url(), json!({})));
    let mut first = take_the_slot(&gateway, &engine);
    let mut waiting: Vec<_> = (0..2).map(|_| send(&gateway, &patient())).collect();
    wait_for_waiters(&gateway, 2);
    let response = gateway.client().send(&patient());
    response.expect_error(503, "no_capacity");
    assert_eq!(response.header("retry-after"), Some("1"));
    assert!(response.text().contains("max_waiters"), "{response:?}");
    eventually("it is counted", || rejections(&gateway, "too_many_waiters") == 1);
    gate.open();
    let _ = receive(&mut first).expect_ok();
    for waiting in &mut waiting {
        let _ = receive(waiting).expect_ok();
    }
}

#[test]
fn a_configuration_that_changes_meanwhile_does_not_change_who_waits() {
    let ((one, gate), (other, other_gate)) = (engine_held_once(), engine_held_once());
    let gateway = holding().start();
    gateway.register_with("e1", &one_slot(&one.url(), json!({})));
    gateway.register_with("e2", &one_slot(&other.url(), json!({})));
    let request = Request::chat("mock").header("x-cache-affinity-key", "k");
    let mut first = send(&gateway, &request);
    eventually("the first reaches its engine", || one.request_count() + other.request_count() == 1);
    let mut held = send(&gateway, &request);
    wait_for_waiters(&gateway, 1);
    let change = Request::new("PUT", "/api/v1/config/routing")
        .header("content-type", "application/json")
        .body(json!({ "default": "round-robin" }).to_string());
    assert_eq!(gateway.admin().send(&change).status, 200);
    // Under the new configuration a key means nothing, and everybody goes anywhere, full or not.
    let mut others: Vec<_> = (0..2).map(|_| send(&gateway, &request)).collect();
    eventually("both are sent on", || one.request_count() + other.request_count() == 3);
    assert!(one.request_count() > 0 && other.request_count() > 0);
    assert_eq!(waiters(&gateway), 1, "under the old one it still waits");
    gate.open();
    other_gate.open();
    for other in &mut others {
        let _ = receive(other).expect_ok();
    }
    let served_by = receive(&mut first).expect_ok().served_by().to_owned();
    assert_eq!(receive(&mut held).expect_ok().served_by(), served_by);
}

#[test]
fn a_request_whose_backend_failed_waits_for_another() {
    let ((engine, gate), dead) = (engine_held_once(), RawEngine::plain());
    let dead_url = dead.url();
    drop(dead);
    let gateway = widening("").set("health.interval_ms", 60_000).start();
    gateway.register_with("e1", &one_slot(&engine.url(), json!({})));
    let mut first = take_the_slot(&gateway, &engine);
    gateway.register_with("e2", &one_slot(&dead_url, json!({})));
    let mut waiting = send(&gateway, &patient());
    wait_for_waiters(&gateway, 1);
    let failed = [("inference_server_id", "e2"), ("result", "connect_failed")];
    eventually("its first attempt has failed", || {
        gateway.metric("stargate_proxy_attempts_total", &failed) as usize == 1
    });
    gate.open();
    let _ = receive(&mut first).expect_ok();
    assert_eq!(receive(&mut waiting).expect_ok().served_by(), "e1");
}

/// Two cores, one slot: each request finds it in turn, and it is never taken twice.
#[test]
fn a_slot_that_cores_share_serves_all_and_one_at_a_time() {
    let running = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let engine = RawEngine::start({
        let running = running.clone();
        move |exchange| {
            let (now, most) = &*running;
            most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            now.fetch_sub(1, SeqCst);
            exchange.respond_ok();
            Then::KeepOpen
        }
    });
    let gateway = widening("").cores(2).start();
    gateway.register_with("e1", &one_slot(&engine.url(), json!({})));
    let mut crowd: Vec<_> = (0..200).map(|_| send(&gateway, &patient())).collect();
    for connection in &mut crowd {
        let _ = receive(connection).expect_ok();
    }
    assert_eq!(running.1.load(SeqCst), 1);
    wait_for_waiters(&gateway, 0);
    gateway.wait_until_idle();
}

#[test]
fn a_gateway_that_stops_serves_who_gets_a_place_in_time() {
    let (engine, gate) = engine_held_once();
    let mut gateway = widening("").set("timeouts.shutdown_grace_ms", 60_000).start();
    gateway.register_with("e1", &one_slot(&engine.url(), json!({})));
    let mut first = take_the_slot(&gateway, &engine);
    let mut waiting: Vec<_> = (0..5).map(|_| send(&gateway, &patient())).collect();
    wait_for_waiters(&gateway, waiting.len());
    gateway.signal(Signal::Term);
    gate.open();
    let _ = receive(&mut first).expect_ok();
    for waiting in &mut waiting {
        let _ = receive(waiting).expect_ok();
    }
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn a_gateway_that_stops_tells_who_gets_none() {
    let (engine, gate) = engine_held_once();
    let mut gateway = widening("").set("timeouts.shutdown_grace_ms", 4000).start();
    gateway.register_with("e1", &one_slot(&engine.url(), json!({})));
    let mut first = take_the_slot(&gateway, &engine);
    let mut waiting: Vec<_> = (0..5).map(|_| send(&gateway, &patient())).collect();
    wait_for_waiters(&gateway, waiting.len());
    gateway.signal(Signal::Term);
    for waiting in &mut waiting {
        let response = receive(waiting);
        response.expect_error(503, "shutting_down");
        assert!(response.header("retry-after").is_some(), "{response:?}");
    }
    gate.open();
    let _ = receive(&mut first).expect_ok();
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn what_a_model_requires_is_asked_for_on_arrival() {
    let engine = RawEngine::plain();
    let gateway = widening(
        "require_cache_affinity_key = true\nrequire_input_tokens = true\nmax_input_work_seconds = 5",
    )
    .start();
    gateway.register_with("e1", &one_slot(&engine.url(), json!({ "last_mean_input_tps": 10.0 })));
    let send = |request: &Request| gateway.client().send(request);
    let keyed = Request::chat("mock").header("x-cache-affinity-key", "k");
    send(&Request::chat("mock").header("x-input-tokens", 1)).expect_error(400, "affinity_key_required");
    // The gateway's own estimate does not count.
    send(&keyed).expect_error(400, "input_tokens_required");
    let response = send(&keyed.clone().header("x-input-tokens", 51));
    response.expect_error(503, "input_work_limit_exceeded");
    assert!(response.header("retry-after").is_some(), "{response:?}");
    assert!(response.text().contains("max_input_work_seconds"), "{response:?}");
    let _ = send(&keyed.header("x-input-tokens", 50)).expect_ok();
    for reason in ["affinity_key_required", "input_tokens_required", "input_work_limit_exceeded"] {
        eventually("it is counted", || rejections(&gateway, reason) == 1);
    }
    assert_eq!(engine.request_count(), 1);
}
