//! Each phase has a timeout of its own, and none limits the whole.

use std::{
    sync::{Mutex, mpsc},
    thread,
    time::Duration,
};

use stargate_tests::{
    Blackhole, Connection, DEADLINE, Exchange, Gateway, RawEngine, ReadError, Request, SseItem, SseReader,
    Then, eventually,
};

/// A timeout that a test waits for.
const SHORT_MS: u64 = 300;

/// A timeout that must not fire: each wait of that test is far below it, the whole above it.
const IDLE_MS: u64 = 1000;
const TICK: Duration = Duration::from_millis(100);
const TICKS: usize = 15;

/// Bytes that may lie between a stalled reader and the engine: the kernel's socket buffers of two connections
/// (each side up to some 6 MiB) and the gateway's own.
const STALLED_BYTES_MAX: usize = 32 << 20;

/// Sends bytes, one each time nothing came for a moment, until the gateway answers or closes.
fn drip(connection: &mut Connection, mut next: impl FnMut() -> u8) {
    connection.set_read_timeout(Duration::from_millis(20));
    for _ in 0..1000 {
        if connection.has_input() || connection.try_send([next()]).is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    connection.set_read_timeout(DEADLINE);
}

#[test]
fn a_head_that_never_ends_is_408() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().set("timeouts.header_ms", SHORT_MS).backend("e1", &engine.url()).start();
    let mut connection = gateway.client().connect();
    connection.send("POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nx-slow: ");
    // A byte now and then must not buy more time.
    drip(&mut connection, || b'a');
    let response = connection.receive(&Request::chat("mock")).expect("an answer");
    response.expect_error(408, "request_timeout");
    assert!(response.head.headers.has_token("connection", "close"), "{response:?}");
    eventually("it is counted", || gateway.metric("stargate_requests_total", &[("status", "408")]) >= 1.0);
    assert_eq!(engine.request_count(), 0);
}

#[test]
fn a_head_in_time_on_a_connection_kept_alive_is_served() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().set("timeouts.header_ms", SHORT_MS).backend("e1", &engine.url()).start();
    let mut connection = gateway.client().connect();
    let _ = connection.exchange(&Request::chat("mock")).expect_ok();
    // Idle for longer than a head may take: the clock starts with a head's first byte.
    connection.set_read_timeout(Duration::from_millis(2 * SHORT_MS));
    assert_eq!(connection.receive_head().expect_err("nothing was asked"), ReadError::TimedOut);
    connection.set_read_timeout(DEADLINE);
    let _ = connection.exchange(&Request::chat("mock")).expect_ok();
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder()
        .set("timeouts.keep_alive_ms", SHORT_MS)
        .set("timeouts.header_ms", SHORT_MS)
        .backend("e1", &engine.url())
        .start();
    let mut unused = gateway.client().connect();
    unused.expect_closed();
    let mut used = gateway.client().connect();
    let _ = used.exchange(&Request::chat("mock")).expect_ok();
    used.expect_closed();
}

#[test]
fn a_body_that_stops_coming_is_408() {
    let engine = RawEngine::plain();
    let gateway =
        Gateway::builder().set("timeouts.body_idle_ms", SHORT_MS).backend("e1", &engine.url()).start();
    for request in [Request::chat("mock"), Request::chat("mock").chunked(10)] {
        let mut connection = gateway.client().connect();
        connection.send(request.head_bytes());
        connection.send(&request.body_bytes()[..12]);
        let response = connection.receive(&request).expect("an answer");
        response.expect_error(408, "request_timeout");
        connection.expect_closed();
    }
    assert_eq!(engine.request_count(), 0);
    gateway.wait_until_idle();
}

#[test]
fn heads_over_the_limits_are_431() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder()
        .set("limits.max_head_bytes", 8192)
        .set("limits.max_headers", 32)
        .backend("e1", &engine.url())
        .start();
    let long = Request::chat("mock").header("x-long", "a".repeat(9000));
    let mut many = Request::chat("mock");
    for number in 0..40 {
        many = many.header("x-many", number);
    }
    for request in [long, many] {
        let mut connection = gateway.client().connect();
        let _ = connection.try_send(request.to_bytes());
        let response = connection.receive(&request).expect("an answer");
        response.expect_error(431, "headers_too_large");
        connection.expect_closed();
    }
    eventually("they are counted", || gateway.metric("stargate_requests_total", &[("status", "431")]) >= 2.0);
    assert_eq!(engine.request_count(), 0);
    let _ = gateway.client().send(&Request::chat("mock").header("x-long", "a".repeat(4000))).expect_ok();
}

#[test]
fn a_head_that_grows_for_ever_is_431() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().set("limits.max_head_bytes", 4096).backend("e1", &engine.url()).start();
    let mut connection = gateway.client().connect();
    connection.send("POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\n");
    for number in 0..10_000 {
        if connection.has_input() || connection.try_send(format!("x-{number}: 1\r\n")).is_err() {
            break;
        }
    }
    connection.receive(&Request::chat("mock")).expect("an answer").expect_error(431, "headers_too_large");
}

#[test]
fn a_connect_that_hangs_fails_and_moves_on() {
    let blackhole = Blackhole::start();
    let engine = RawEngine::plain();
    let gateway = Gateway::builder()
        .set("health.interval_ms", 60_000)
        .set("timeouts.connect_ms", SHORT_MS)
        .set("routing.default.algorithm", "\"round-robin\"")
        .start();
    gateway.register("blackhole", &format!("http://{}", blackhole.address()));
    gateway.client().send(&Request::chat("mock")).expect_error(502, "upstream_connect_failed");
    gateway.register("e1", &engine.url());
    for _ in 0..2 {
        assert_eq!(gateway.client().send(&Request::chat("mock")).expect_ok().served_by(), "e1");
    }
    gateway.wait_until_idle();
}

#[test]
fn an_engine_that_never_answers_is_504() {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let engine = RawEngine::start(move |exchange| {
        let _ = sender.lock().expect("one request").send(exchange.closed_by_gateway());
        Then::Close
    });
    let gateway =
        Gateway::builder().set("timeouts.first_byte_ms", SHORT_MS).backend("e1", &engine.url()).start();
    let mut connection = gateway.client().connect();
    connection.exchange(&Request::chat("mock")).expect_error(504, "upstream_timeout");
    assert_eq!(receiver.recv_timeout(DEADLINE), Ok(true), "the engine is told to stop");
    assert_eq!(engine.request_count(), 1, "a timeout is no proof that it did not start");
    gateway.wait_until_idle();
}

/// An engine that sends `before` and then nothing, and reports whether the gateway closed.
fn stalling_engine(before: fn(&mut Exchange<'_>)) -> (RawEngine, mpsc::Receiver<bool>) {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let engine = RawEngine::start(move |exchange| {
        before(exchange);
        let _ = sender.lock().expect("one request").send(exchange.closed_by_gateway());
        Then::Close
    });
    (engine, receiver)
}

#[test]
fn a_stream_that_stalls_ends_with_an_error() {
    let (engine, closed) = stalling_engine(|exchange| {
        exchange.begin_stream();
        exchange.send_chunk("data: 1\n\n");
        exchange.send_chunk("data: 2\n\n");
    });
    let gateway =
        Gateway::builder().set("timeouts.stream_idle_ms", SHORT_MS).backend("e1", &engine.url()).start();
    let (events, _) = gateway.client().stream(&Request::chat_stream("mock"));
    assert_eq!(events.len(), 3, "{events:?}");
    assert_eq!(events[2].name.as_deref(), Some("error"));
    assert_eq!(events[2].json()["error"]["code"], "upstream_timeout");
    assert_eq!(closed.recv_timeout(DEADLINE), Ok(true));
    gateway.wait_until_idle();
}

#[test]
fn a_plain_answer_that_stalls_is_cut() {
    let (engine, closed) = stalling_engine(|exchange| {
        exchange.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{\"a\"");
    });
    let gateway =
        Gateway::builder().set("timeouts.stream_idle_ms", SHORT_MS).backend("e1", &engine.url()).start();
    let mut connection = gateway.client().connect();
    let response = connection.exchange(&Request::chat("mock")).expect_ok();
    assert!(response.body.is_cut(), "{response:?}");
    assert_eq!(response.body.bytes(), b"{\"a\"");
    connection.expect_closed();
    assert_eq!(closed.recv_timeout(DEADLINE), Ok(true));
    gateway.wait_until_idle();
}

/// A ten-minute stream with a token every 20 s, scaled down: longer than every timeout, never idle for one.
#[test]
fn a_stream_may_last_longer_than_every_timeout() {
    let engine = RawEngine::start(|exchange| {
        exchange.begin_stream();
        for number in 0..TICKS {
            // The engine's pace.
            thread::sleep(TICK);
            exchange.send_chunk(format!("data: {number}\n\n"));
        }
        exchange.end_chunks();
        Then::KeepOpen
    });
    let mut builder = Gateway::builder().backend("e1", &engine.url());
    for key in [
        "header_ms",
        "keep_alive_ms",
        "body_idle_ms",
        "connect_ms",
        "first_byte_ms",
        "stream_idle_ms",
        "write_ms",
    ] {
        builder = builder.set(&format!("timeouts.{key}"), IDLE_MS);
    }
    let gateway = builder.start();
    let (events, end) = gateway.client().stream(&Request::chat_stream("mock"));
    assert_eq!(end, SseItem::End);
    assert_eq!(events.len(), TICKS, "{events:?}");
    assert!(events.iter().all(|event| event.name.is_none()), "{events:?}");
}

/// An upload may take as long as it likes, as long as it goes on.
#[test]
fn an_upload_may_last_longer_than_its_idle_timeout() {
    let engine = RawEngine::plain();
    let gateway =
        Gateway::builder().set("timeouts.body_idle_ms", IDLE_MS).backend("e1", &engine.url()).start();
    let request = Request::chat("mock");
    let body = request.body_bytes();
    let mut connection = gateway.client().connect();
    connection.send(request.head_bytes());
    for piece in body.chunks(body.len().div_ceil(TICKS)) {
        // The client's pace.
        thread::sleep(TICK);
        connection.send(piece);
    }
    let _ = connection.receive(&request).expect("an answer").expect_ok();
    assert_eq!(engine.only_request().body, body);
}

/// Bounded bytes a stream, and a writer stalled for the write timeout is cut.
#[test]
fn a_client_that_reads_nothing_is_cut_and_holds_little() {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let engine = RawEngine::start(move |exchange| {
        exchange.begin_stream();
        let event = format!("data: {}\n\n", "x".repeat(64 * 1024));
        let mut sent = 0;
        while exchange.try_send_chunk(&event) {
            sent += event.len();
        }
        let _ = sender.lock().expect("one request").send(sent);
        Then::Close
    });
    let gateway = Gateway::builder().set("timeouts.write_ms", SHORT_MS).backend("e1", &engine.url()).start();
    let mut connection = gateway.client().connect();
    connection.send(Request::chat_stream("mock").to_bytes());
    let sent = receiver.recv_timeout(DEADLINE).expect("the engine's writes end");
    assert!(sent < STALLED_BYTES_MAX, "{sent} bytes went nowhere");
    gateway.wait_until_idle();
    // What had been written arrives, and is no complete answer.
    let head = connection.receive_head().expect("a head");
    let (_, end) = SseReader::new(connection.body(&head)).rest().unwrap_or((Vec::new(), SseItem::Cut));
    assert_ne!(end, SseItem::End);
}
