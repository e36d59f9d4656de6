//! Idle connections that an engine closes: dropped before they are used, never a client's error.

use std::thread;

use serde_json::json;
use stargate_tests::{Engine, Gateway, RawEngine, Request, Then, eventually};

/// Rounds of close and request.
const ROUNDS: usize = 100;

#[test]
fn a_connection_closed_while_idle_is_not_used() {
    let engine = RawEngine::start(|exchange| {
        exchange.respond_ok();
        Then::KeepOpen
    });
    let gateway = Gateway::builder().cores(1).backend("e1", &engine.url()).start();
    let mut connection = gateway.client().connect();
    for round in 0..ROUNDS {
        let response = connection.exchange(&Request::chat("mock"));
        assert_eq!(response.status, 200, "round {round}: {response:?}");
        eventually("the connection is idle", || engine.idle_connections() == 1);
        // On loopback the FIN is with the gateway's kernel when this returns.
        assert_eq!(engine.close_idle(), 1);
    }
    assert_eq!(engine.request_count(), ROUNDS, "nothing was sent twice");
    assert_eq!(gateway.metric("stargate_proxy_retries_total", &[]) as usize, 0, "dropped, not tried");
}

#[test]
fn a_whole_pool_closed_while_idle_is_not_used() {
    let engine = Engine::builder("e1").flag("keep-alive-ms", 150).start();
    let gateway = Gateway::before(&engine.url());
    for _ in 0..3 {
        let clients: Vec<_> = (0..16)
            .map(|_| {
                let client = gateway.client();
                thread::spawn(move || client.send(&Request::chat("mock")).status)
            })
            .collect();
        let statuses: Vec<u16> = clients.into_iter().map(|client| client.join().expect("a client")).collect();
        assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
        // One of the open connections is the one that asks.
        eventually("the engine has closed them", || engine.counter("connections_open") <= 2);
    }
}

/// The pool's own limit comes first, so that the engine's close is met seldom.
#[test]
fn the_pool_closes_idle_connections_before_the_engine_does() {
    let engine = RawEngine::start(|exchange| {
        exchange.respond_ok();
        Then::KeepOpen
    });
    let gateway =
        Gateway::builder().cores(1).set("pool.idle_timeout_ms", 200).backend("e1", &engine.url()).start();
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    eventually("the connection is idle", || engine.idle_connections() == 1);
    eventually("the pool closes it", || engine.idle_connections() == 0);
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
}

#[test]
fn an_engine_that_closes_after_every_response_unannounced_costs_no_error() {
    let engine = Engine::start("e1");
    let gateway = Gateway::before(&engine.url());
    engine.fault(&json!({ "kind": "close_after_response" }));
    let mut connection = gateway.client().connect();
    for round in 0..ROUNDS {
        let response = connection.exchange(&Request::chat("mock"));
        assert_eq!(response.status, 200, "round {round}: {response:?}");
        let before = round as u64 + 1;
        engine.wait_for_counter("requests_completed", before);
    }
}

#[test]
fn a_pool_keeps_no_more_than_its_limit() {
    let engine = RawEngine::start(|exchange| {
        exchange.respond_ok();
        Then::KeepOpen
    });
    let gateway =
        Gateway::builder().cores(1).set("pool.max_idle_per_backend", 2).backend("e1", &engine.url()).start();
    let mut connections: Vec<_> = (0..8).map(|_| gateway.client().connect()).collect();
    for connection in &mut connections {
        connection.send(Request::chat("mock").to_bytes());
    }
    for connection in &mut connections {
        let _ = connection.receive(&Request::chat("mock")).expect("an answer").expect_ok();
    }
    eventually("the rest is closed", || engine.idle_connections() <= 2);
}
