//! Responses that an engine got wrong: 502 and the connection dropped, or cut; and nothing ever shifts a pooled
//! connection by a response.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
    mpsc,
};

use stargate_tests::{DEADLINE, Gateway, Headers, RawEngine, Request, Then, eventually};

/// An engine that answers its first request with `bytes`, reports whether the gateway then drops the
/// connection, and answers all later requests well.
fn engine_with_one_bad_answer(bytes: &str) -> (RawEngine, mpsc::Receiver<bool>) {
    let bytes = bytes.to_owned();
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let answered = AtomicUsize::new(0);
    let engine = RawEngine::start(move |exchange| {
        if answered.fetch_add(1, Ordering::SeqCst) > 0 {
            exchange.respond_ok();
            return Then::KeepOpen;
        }
        exchange.send(&bytes);
        let _ = sender.lock().expect("one request at a time").send(exchange.closed_by_gateway());
        Then::Close
    });
    (engine, receiver)
}

/// Asserts 502 for an engine's answer, that its connection is dropped and that the client's goes on.
#[track_caller]
fn expect_bad_gateway(cases: &[(&str, &str)]) {
    for (name, bytes) in cases {
        let (engine, dropped) = engine_with_one_bad_answer(bytes);
        let gateway = Gateway::builder().cores(1).backend("e1", &engine.url()).start();
        let mut connection = gateway.client().connect();
        let response = connection.exchange(&Request::chat("mock"));
        assert_eq!(response.status, 502, "{name}: {response:?}");
        response.expect_error(502, "upstream_protocol_error");
        assert_eq!(dropped.recv_timeout(DEADLINE), Ok(true), "{name}: the connection was kept");
        let again = if response.head.headers.has_token("connection", "close") {
            gateway.client().send(&Request::chat("mock"))
        } else {
            connection.exchange(&Request::chat("mock"))
        };
        assert_eq!(again.status, 200, "{name}: {again:?}");
        let requests = engine.requests();
        assert_eq!(requests.len(), 2, "{name}: sent again");
        assert_ne!(requests[0].connection, requests[1].connection, "{name}");
        gateway.wait_until_idle();
    }
}

#[test]
fn ambiguous_lengths_are_bad_gateways() {
    expect_bad_gateway(&[
        (
            "content-length and transfer-encoding",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        ("two content-lengths", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{} "),
        ("a signed content-length", "HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\n{}"),
        ("a content-length that is no number", "HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\n{}"),
        ("transfer-encoding gzip", "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n{}"),
    ]);
}

#[test]
fn malformed_heads_are_bad_gateways() {
    expect_bad_gateway(&[
        ("a bare LF", "HTTP/1.1 200 OK\r\nx-a: 1\ncontent-length: 2\r\n\r\n{}"),
        ("a space before the colon", "HTTP/1.1 200 OK\r\ncontent-length : 2\r\n\r\n{}"),
        ("a folded value", "HTTP/1.1 200 OK\r\nx-a: 1\r\n 2\r\ncontent-length: 2\r\n\r\n{}"),
        ("a NUL in a value", "HTTP/1.1 200 OK\r\nx-a: 1\x002\r\ncontent-length: 2\r\n\r\n{}"),
        ("a bare CR in a value", "HTTP/1.1 200 OK\r\nx-a: 1\r2\r\ncontent-length: 2\r\n\r\n{}"),
        ("no colon", "HTTP/1.1 200 OK\r\nx-a 1\r\ncontent-length: 2\r\n\r\n{}"),
    ]);
}

#[test]
fn malformed_status_lines_are_bad_gateways() {
    expect_bad_gateway(&[
        ("not HTTP", "220 mail.test ESMTP\r\n\r\n"),
        ("another version", "HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\n{}"),
        ("a status of two digits", "HTTP/1.1 20 OK\r\ncontent-length: 2\r\n\r\n{}"),
        ("a status that is no number", "HTTP/1.1 abc OK\r\ncontent-length: 2\r\n\r\n{}"),
        ("a status below 100", "HTTP/1.1 099 OK\r\ncontent-length: 2\r\n\r\n{}"),
        ("a switch that nobody asked for", "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n"),
    ]);
}

#[test]
fn heads_over_the_limits_are_bad_gateways() {
    let long = format!("HTTP/1.1 200 OK\r\nx-long: {}\r\ncontent-length: 2\r\n\r\n{{}}", "a".repeat(70_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}content-length: 2\r\n\r\n{{}}", "x-a: 1\r\n".repeat(150));
    expect_bad_gateway(&[("a long head", &long), ("many headers", &many)]);
}

/// The head has been passed on by then, or not: the fault shows either way.
#[test]
fn a_malformed_chunk_is_a_bad_gateway_or_a_cut() {
    const HEAD: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    for chunk in
        ["xyz\r\n{}\r\n0\r\n\r\n", "+2\r\n{}\r\n0\r\n\r\n", "2\r\n{}0\r\n\r\n", "2\n{}\r\n0\r\n\r\n", "\r\n"]
    {
        let (engine, dropped) = engine_with_one_bad_answer(&format!("{HEAD}{chunk}"));
        let gateway = Gateway::before(&engine.url());
        let mut connection = gateway.client().connect();
        let response = connection.exchange(&Request::chat("mock"));
        if response.status == 200 {
            assert!(response.body.is_cut(), "{chunk:?} passed off as complete: {response:?}");
            connection.expect_closed();
        } else {
            response.expect_error(502, "upstream_protocol_error");
        }
        assert_eq!(dropped.recv_timeout(DEADLINE), Ok(true), "{chunk:?}: the connection was kept");
        assert_eq!(engine.request_count(), 1, "{chunk:?}: sent again");
        gateway.wait_until_idle();
    }
}

#[test]
fn a_malformed_trailer_is_not_passed_on() {
    for trailer in ["x-a : 1\r\n", "x-a 1\r\n", "x-a: 1\n\r\n", "x-a: 1\r\n folded\r\n", "x-\x00a: 1\r\n"] {
        let (engine, _dropped) = engine_with_one_bad_answer(&format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n{trailer}\r\n"
        ));
        let gateway = Gateway::before(&engine.url());
        // The client of this harness is strict: it fails on a malformed trailer.
        let response = gateway.client().send(&Request::chat("mock"));
        match response.status {
            200 => assert!(response.body.is_cut() || response.trailers == Headers::default(), "{response:?}"),
            _ => response.expect_error(502, "upstream_protocol_error"),
        }
    }
}

/// Answers with what the request's body names, so that a shifted connection shows.
fn echoing(exchange: &mut stargate_tests::Exchange<'_>, extra: &str) {
    let id = exchange.request.header("x-request-id").unwrap_or_default().to_owned();
    exchange.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{id}{extra}", id.len()));
}

#[track_caller]
fn expect_echo(gateway: &Gateway, id: &str) {
    let response = gateway.client().send(&Request::chat("mock").header("x-request-id", id)).expect_ok();
    assert_eq!(response.text(), id);
}

#[test]
fn bytes_left_over_after_a_response_discard_its_connection() {
    for extra in ["x", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad"] {
        let engine = RawEngine::start(move |exchange| {
            echoing(exchange, extra);
            Then::KeepOpen
        });
        let gateway = Gateway::builder().cores(1).backend("e1", &engine.url()).start();
        for id in ["one", "two", "three"] {
            expect_echo(&gateway, id);
        }
        let mut connections: Vec<usize> =
            engine.requests().iter().map(|request| request.connection).collect();
        connections.dedup();
        assert_eq!(connections.len(), 3, "a connection with {extra:?} on it was used again");
    }
}

#[test]
fn bytes_that_come_while_a_connection_is_idle_discard_it() {
    let engine = RawEngine::start(|exchange| {
        echoing(exchange, "");
        Then::KeepOpen
    });
    let gateway = Gateway::builder().cores(1).backend("e1", &engine.url()).start();
    for id in ["one", "two", "three"] {
        expect_echo(&gateway, id);
        eventually("the connection is idle", || engine.idle_connections() >= 1);
        engine.send_on_idle(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad");
    }
    assert_eq!(engine.request_count(), 3);
}

/// Without those bytes the connection is used again: the tests above see an exception, not the rule.
#[test]
fn a_connection_in_order_is_used_again() {
    let engine = RawEngine::start(|exchange| {
        echoing(exchange, "");
        Then::KeepOpen
    });
    let gateway = Gateway::builder().cores(1).backend("e1", &engine.url()).start();
    let mut connections = Vec::new();
    for id in ["one", "two", "three"] {
        expect_echo(&gateway, id);
        eventually("the connection is idle", || engine.idle_connections() == 1);
        connections.push(engine.requests().last().expect("a request").connection);
    }
    connections.dedup();
    assert_eq!(connections.len(), 1);
}

#[test]
fn bodies_that_a_status_forbids_do_not_shift_the_connection() {
    let statuses = ["204 No Content", "304 Not Modified"];
    let answered = AtomicUsize::new(0);
    let engine = RawEngine::start(move |exchange| {
        let number = answered.fetch_add(1, Ordering::SeqCst);
        match statuses.get(number) {
            // RFC 9110, 8.6: a 304 may carry the length that a 200 would have had.
            Some(status) if number == 1 => {
                exchange.send(format!("HTTP/1.1 {status}\r\ncontent-length: 9\r\n\r\n"));
            }
            Some(status) => exchange.send(format!("HTTP/1.1 {status}\r\n\r\n")),
            None => echoing(exchange, ""),
        }
        Then::KeepOpen
    });
    let gateway = Gateway::builder().cores(1).backend("e1", &engine.url()).start();
    let mut connection = gateway.client().connect();
    for expected in [204, 304] {
        let response = connection.exchange(&Request::chat("mock"));
        assert_eq!((response.status, response.body.complete()), (expected, &b""[..]));
    }
    let response = connection.exchange(&Request::chat("mock").header("x-request-id", "after")).expect_ok();
    assert_eq!(response.text(), "after");
    gateway.wait_until_idle();
}
