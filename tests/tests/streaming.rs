//! Streams: forwarded byte by byte as they come, and never passed off as complete when they were cut.

use std::{
    fmt::Write as _,
    sync::{Mutex, mpsc},
};

use serde_json::json;
use stargate_tests::{Engine, Gateway, RawEngine, Request, SseItem, SseReader, Then};

/// Events with all that splits badly: multi-byte characters, CRLF, `data:` itself.
const EVENTS: &str = "data: {\"text\":\"Grüße, 世界 🚀\"}\r\n\r\ndata: {\"n\":1}\n\ndata: [DONE]\n\n";

/// How a scripted engine frames its body.
#[derive(Clone, Copy)]
enum Framing {
    Chunked,
    Length,
    Close,
}

/// An engine that writes the next byte of [`EVENTS`] only when it is told that the last one has arrived.
fn lockstep_engine(framing: Framing) -> (RawEngine, mpsc::Sender<()>) {
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    let engine = RawEngine::start(move |exchange| {
        let framing_header = match framing {
            Framing::Chunked => "transfer-encoding: chunked\r\n".to_owned(),
            Framing::Length => format!("content-length: {}\r\n", EVENTS.len()),
            Framing::Close => String::new(),
        };
        exchange.send(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{framing_header}\r\n"));
        for byte in EVENTS.bytes() {
            if receiver.lock().expect("one request at a time").recv().is_err() {
                return Then::Close;
            }
            match framing {
                Framing::Chunked => exchange.send_chunk([byte]),
                Framing::Length | Framing::Close => exchange.send([byte]),
            }
        }
        match framing {
            Framing::Chunked => exchange.end_chunks(),
            Framing::Length => {}
            Framing::Close => return Then::Close,
        }
        Then::KeepOpen
    });
    (engine, sender)
}

fn every_byte_is_forwarded_before_the_next_is_written(framing: Framing) {
    let (engine, arrived) = lockstep_engine(framing);
    let gateway = Gateway::before(&engine.url());
    let mut connection = gateway.client().connect();
    // The head arrives while the engine has written nothing else.
    let head = connection.begin(&Request::chat_stream("mock"));
    let mut body = connection.body(&head);
    for (index, byte) in EVENTS.bytes().enumerate() {
        arrived.send(()).expect("the engine waits");
        assert_eq!(body.next_data(), [byte], "byte {index}");
    }
    let (rest, _) = body.rest().expect("an end");
    assert_eq!(rest.complete(), b"");
    gateway.wait_until_idle();
}

#[test]
fn every_byte_of_a_chunked_stream_is_forwarded_before_the_next_is_written() {
    every_byte_is_forwarded_before_the_next_is_written(Framing::Chunked);
}

#[test]
fn every_byte_of_a_stream_of_known_length_is_forwarded_before_the_next_is_written() {
    every_byte_is_forwarded_before_the_next_is_written(Framing::Length);
}

#[test]
fn every_byte_of_a_stream_that_ends_with_its_connection_is_forwarded_before_the_next_is_written() {
    every_byte_is_forwarded_before_the_next_is_written(Framing::Close);
}

/// Splits the head and the chunk framing too, which the lockstep above leaves whole.
#[test]
fn a_response_that_trickles_in_byte_by_byte_arrives_whole() {
    let engine = RawEngine::start(|exchange| {
        let mut response =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_owned();
        for chunk in EVENTS.split_inclusive('\n') {
            let _ = write!(response, "{:X};ext=1\r\n{chunk}\r\n", chunk.len());
        }
        response.push_str("0\r\nx-trailer: end\r\n\r\n");
        for byte in response.bytes() {
            exchange.send([byte]);
        }
        Then::KeepOpen
    });
    let gateway = Gateway::before(&engine.url());
    let mut connection = gateway.client().connect();
    for _ in 0..2 {
        let response = connection.exchange(&Request::chat_stream("mock")).expect_ok();
        assert_eq!(response.text(), EVENTS);
    }
    assert_eq!(engine.requests()[0].connection, engine.requests()[1].connection, "still in sync");
}

#[test]
fn a_stream_arrives_chunk_by_chunk_with_its_end() {
    let engine = Engine::builder("e1").flag("output-tokens", 12).start();
    let gateway = Gateway::before(&engine.url());
    let direct = engine.client().stream(&Request::chat_stream("mock").header("x-request-id", "direct"));
    let (events, end) =
        gateway.client().stream(&Request::chat_stream("mock").header("x-request-id", "through"));
    assert_eq!(end, SseItem::End);
    assert_eq!(events.len(), direct.0.len());
    assert!(events.last().expect("events").is_done());
    assert!(events.iter().all(|event| event.name.is_none()));
    assert_eq!(engine.counter("requests_completed"), 2);
}

/// Asserts 3 chunks, then an error event, and nothing that looks like an orderly end.
fn expect_three_chunks_and_an_error(gateway: &Gateway) {
    let (events, _) = gateway.client().stream(&Request::chat_stream("mock"));
    assert_eq!(events.len(), 4, "3 chunks and an error: {events:#?}");
    let (error, chunks) = events.split_last().expect("4 events");
    assert!(chunks.iter().all(|event| event.name.is_none() && !event.is_done()), "{chunks:#?}");
    assert_eq!(error.name.as_deref(), Some("error"), "{error:?}");
    let json = error.json();
    assert_eq!(json["error"]["code"], "upstream_reset", "{json}");
    assert_eq!(json["error"]["type"], "server_error", "{json}");
    assert!(json["error"]["message"].is_string() && json["error"]["param"].is_null(), "{json}");
}

#[test]
fn an_engine_that_dies_after_three_chunks_leaves_three_chunks_and_an_error() {
    let engine = Engine::builder("e1").flag("output-tokens", 50).start();
    let gateway = Gateway::before(&engine.url());
    for how in ["fin", "rst"] {
        engine.fault(&json!({ "kind": "die_mid_stream", "after_chunks": 3, "how": how }));
        let before = engine.counter("requests_started");
        expect_three_chunks_and_an_error(&gateway);
        assert_eq!(engine.counter("requests_started"), before + 1, "{how}: never sent again");
    }
    gateway.wait_until_idle();
}

#[test]
fn an_end_without_the_last_chunk_is_no_end() {
    let engine = RawEngine::start(|exchange| {
        exchange.begin_stream();
        for number in 0..3 {
            exchange.send_chunk(format!("data: {{\"n\":{number}}}\n\n"));
        }
        Then::Close
    });
    let gateway = Gateway::before(&engine.url());
    expect_three_chunks_and_an_error(&gateway);
    engine.only_request();
}

/// An error glued to half an event would be unreadable.
#[test]
fn an_error_after_half_an_event_is_an_event_of_its_own() {
    let engine = RawEngine::start(|exchange| {
        exchange.begin_stream();
        exchange.send_chunk("data: {\"n\":0}\n\ndata: {\"n\"");
        Then::Close
    });
    let gateway = Gateway::before(&engine.url());
    let (events, _) = gateway.client().stream(&Request::chat_stream("mock"));
    let error = events.last().expect("events");
    assert_eq!(error.name.as_deref(), Some("error"), "{events:?}");
    assert_eq!(error.json()["error"]["code"], "upstream_reset", "{events:?}");
    assert!(!events.iter().any(stargate_tests::SseEvent::is_done));
}

/// Asserts that a body which is no stream of events arrives cut, after exactly what the engine sent.
fn expect_cut(response: &'static str, then: Then, sent: &[u8]) {
    let engine = RawEngine::start(move |exchange| {
        exchange.send(response);
        then
    });
    let gateway = Gateway::before(&engine.url());
    let mut connection = gateway.client().connect();
    let answer = connection.exchange(&Request::chat("mock")).expect_ok();
    assert!(answer.body.is_cut(), "passed off as complete: {answer:?}");
    assert!(sent.starts_with(answer.body.bytes()), "{answer:?}");
    if then == Then::Close {
        // A reset may overtake bytes in flight; an orderly end may not.
        assert_eq!(answer.body.bytes(), sent);
    }
    connection.expect_closed();
    engine.only_request();
    gateway.wait_until_idle();
}

#[test]
fn a_chunked_json_body_that_was_cut_stays_cut() {
    let response = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n";
    expect_cut(response, Then::Close, b"{\"a\"");
    expect_cut(response, Then::Reset, b"{\"a\"");
}

#[test]
fn a_json_body_cut_within_a_chunk_stays_cut() {
    let response =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n9\r\n{\"a\"";
    expect_cut(response, Then::Close, b"{\"a\"");
}

#[test]
fn a_json_body_shorter_than_its_length_stays_short() {
    let response = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{\"a\"";
    expect_cut(response, Then::Close, b"{\"a\"");
    expect_cut(response, Then::Reset, b"{\"a\"");
}

/// Without a length, only an orderly close is an end (RFC 9112, 8).
#[test]
fn a_body_framed_by_its_connection_is_complete_at_fin_only() {
    let engine = RawEngine::start(|exchange| {
        exchange.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"a\":1}");
        Then::Close
    });
    let gateway = Gateway::before(&engine.url());
    let mut connection = gateway.client().connect();
    let answer = connection.exchange(&Request::chat("mock")).expect_ok();
    assert_eq!(answer.body.complete(), b"{\"a\":1}");
}

#[test]
fn streams_of_many_clients_do_not_mix() {
    let engine = RawEngine::start(|exchange| {
        let id = exchange.request.header("x-request-id").unwrap_or_default().to_owned();
        exchange.begin_stream();
        for number in 0..20 {
            exchange.send_chunk(format!("data: {id} {number}\n\n"));
        }
        exchange.end_chunks();
        Then::KeepOpen
    });
    let gateway = Gateway::before(&engine.url());
    let request = |id: usize| Request::chat_stream("mock").header("x-request-id", format!("client-{id}"));
    let mut connections: Vec<_> = (0..40).map(|_| gateway.client().connect()).collect();
    for (id, connection) in connections.iter_mut().enumerate() {
        connection.send(request(id).to_bytes());
    }
    for (id, connection) in connections.iter_mut().enumerate() {
        let head = connection.receive_head().expect("a head");
        let (events, end) = SseReader::new(connection.body(&head)).rest().expect("events");
        assert_eq!(end, SseItem::End);
        let expected: Vec<String> = (0..20).map(|number| format!("client-{id} {number}")).collect();
        assert_eq!(events.into_iter().map(|event| event.data).collect::<Vec<_>>(), expected);
    }
}
