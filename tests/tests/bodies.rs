//! Bodies: large ones, odd ones, many at once.

use std::thread;

use serde_json::json;
use stargate_tests::{Gate, Gateway, RawEngine, Request, Then, eventually};

/// Bytes of the prompt that a 2 MB default limit refused elsewhere.
const LONG_PROMPT_BYTES: usize = 10 << 20;

/// Requests in flight together: prompts of this size and number have cost other gateways seconds.
const MANY: usize = 150;
const MANY_PROMPT_BYTES: usize = 220 * 1024;

fn recording_engine() -> RawEngine {
    RawEngine::start(|exchange| {
        exchange.respond_ok();
        Then::KeepOpen
    })
}

fn prompt_of(bytes: usize) -> Vec<u8> {
    let text: String =
        (0..).flat_map(|number: u32| format!("{number} ").into_bytes()).map(char::from).take(bytes).collect();
    json!({ "model": "mock", "messages": [{ "role": "user", "content": text }] }).to_string().into_bytes()
}

fn chat_of(body: &[u8]) -> Request {
    Request::new("POST", "/v1/chat/completions").header("content-type", "application/json").body(body)
}

#[test]
fn a_prompt_of_10_mb_passes_unchanged() {
    let engine = recording_engine();
    let gateway = Gateway::before(&engine.url());
    let body = prompt_of(LONG_PROMPT_BYTES);
    let mut connection = gateway.client().connect();
    let _ = connection.exchange(&chat_of(&body)).expect_ok();
    let _ = connection.exchange(&chat_of(&body).chunked(65_537)).expect_ok();
    for request in engine.requests() {
        assert!(request.body == body, "{} bytes became {} others", body.len(), request.body.len());
    }
    assert_eq!(engine.request_count(), 2);
}

#[test]
fn a_body_over_the_limit_is_413_and_names_the_limit() {
    let engine = recording_engine();
    let gateway =
        Gateway::builder().set("limits.max_body_bytes", 50_000).backend("e1", &engine.url()).start();
    let body = prompt_of(60_000);
    for request in [chat_of(&body), chat_of(&body).chunked(4096)] {
        let mut connection = gateway.client().connect();
        // The gateway may answer and close before all of it is sent.
        let _ = connection.try_send(request.to_bytes());
        let response = connection.receive(&request).expect("an answer");
        response.expect_error(413, "payload_too_large");
        let message = response.json()["error"]["message"].as_str().expect("a message").to_owned();
        assert!(message.contains("50000"), "{message:?} does not name the limit");
    }
    assert_eq!(engine.request_count(), 0);
    let _ = gateway.client().send(&chat_of(&prompt_of(40_000))).expect_ok();
    gateway.wait_until_idle();
}

/// A client that never reads while it sends must get the answer all the same: closing with its bytes unread
/// would send a reset, which destroys the answer on its way.
#[test]
fn a_client_that_sends_far_too_much_still_reads_why() {
    let engine = recording_engine();
    let gateway = Gateway::builder().set("limits.max_body_bytes", 1000).backend("e1", &engine.url()).start();
    for _ in 0..5 {
        let request = chat_of(&prompt_of(300_000));
        let mut connection = gateway.client().connect();
        let _ = connection.try_send(request.to_bytes());
        connection.receive(&request).expect("an answer").expect_error(413, "payload_too_large");
    }
}

#[test]
fn bodies_arrive_byte_for_byte() {
    let engine = recording_engine();
    let gateway = Gateway::before(&engine.url());
    let bodies: &[&[u8]] = &[
        b"{ \"model\" : \"mock\",\r\n\t\"messages\":[] , \"brand_new_field\": {\"deep\":[1e400, -0, 1.0]} }\n\n",
        br#"{"messages":[],"model":"mock","model_extra":"x","big":123456789012345678901234567890}"#,
        "{\"model\":\"mock\",\"messages\":[{\"role\":\"user\",\"content\":\"Grüße 世界 🚀 \u{7f}\"}]}".as_bytes(),
        br#"{"model":"\u006dock","messages":[{"content":"\ud83d\ude80 \u0000 \\ \" \/"}]}"#,
        br#"{"model":"mock","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:;base64,AAAA"}}]}]}"#,
    ];
    for body in bodies {
        for request in [chat_of(body), chat_of(body).chunked(1), chat_of(body).chunked(10)] {
            let _ = gateway.client().send(&request).expect_ok();
            let received = engine.requests().pop().expect("a request");
            assert_eq!(received.body, *body, "{}", String::from_utf8_lossy(body));
        }
    }
}

#[test]
fn a_body_that_is_no_json_passes_when_a_header_names_the_model() {
    let engine = recording_engine();
    let gateway = Gateway::before(&engine.url());
    let binary: Vec<u8> = (0..=255).cycle().take(5000).collect();
    let bodies: [&[u8]; 5] = [&binary, b"", b"{\"model\":", b"[1,2,3]", b"\xef\xbb\xbf{\"model\":\"other\"}"];
    for body in bodies {
        let _ = gateway.client().send(&chat_of(body).header("x-model", "mock")).expect_ok();
        assert_eq!(engine.requests().pop().expect("a request").body, body);
    }
    assert_eq!(engine.request_count(), bodies.len());
}

#[test]
fn the_header_wins_over_the_body() {
    let engine = recording_engine();
    let gateway = Gateway::before(&engine.url());
    let _ = gateway.client().send(&Request::chat("some-other-model").header("x-model", "mock")).expect_ok();
}

#[test]
fn the_model_is_found_wherever_it_stands_in_the_body() {
    let engine = recording_engine();
    let gateway = Gateway::before(&engine.url());
    let long = "x".repeat(200_000);
    let bodies = [
        format!(r#"{{"messages":[{{"role":"user","content":"{long}"}}],"model":"mock"}}"#),
        format!(r#"{{"model":"mock","messages":[{{"role":"user","content":"{long}"}}]}}"#),
        r#"{"metadata":{"model":"decoy"},"messages":[{"content":"\"model\":\"decoy\""}],"model":"mock"}"#
            .to_owned(),
    ];
    for body in bodies {
        let _ = gateway.client().send(&chat_of(body.as_bytes())).expect_ok();
    }
    assert_eq!(engine.request_count(), 3);
}

/// All are held by the engine at once, so none can have waited for another's end.
#[test]
fn many_long_prompts_are_in_flight_at_once() {
    let gate = Gate::default();
    let waiting = gate.clone();
    let engine = RawEngine::start(move |exchange| {
        waiting.wait();
        exchange.respond_ok();
        Then::KeepOpen
    });
    let gateway = Gateway::before(&engine.url());
    let body = prompt_of(MANY_PROMPT_BYTES);
    let request = chat_of(&body);
    let mut connections: Vec<_> = (0..MANY).map(|_| gateway.client().connect()).collect();
    let bytes = request.to_bytes();
    thread::scope(|scope| {
        for half in connections.chunks_mut(MANY / 2) {
            let bytes = &bytes;
            scope.spawn(move || half.iter_mut().for_each(|connection| connection.send(bytes)));
        }
    });
    engine.wait_for_requests(MANY);
    eventually("all are in flight", || gateway.in_flight() >= MANY as u64);
    gate.open();
    for connection in &mut connections {
        let _ = connection.receive(&request).expect("an answer").expect_ok();
    }
    let requests = engine.requests();
    assert_eq!(requests.len(), MANY);
    assert!(requests.iter().all(|request| request.body == body));
    gateway.wait_until_idle();
}

#[test]
fn bodies_held_for_replay_stay_within_their_budget() {
    const BODY_BYTES: usize = 200_000;
    let gate = Gate::default();
    let waiting = gate.clone();
    let engine = RawEngine::start(move |exchange| {
        waiting.wait();
        exchange.respond_ok();
        Then::KeepOpen
    });
    let gateway = Gateway::builder()
        .set("limits.max_body_bytes", BODY_BYTES + 10_000)
        .set("limits.max_replay_bytes", 3 * BODY_BYTES)
        .backend("e1", &engine.url())
        .start();
    let request = chat_of(&prompt_of(BODY_BYTES));
    let mut held: Vec<_> = (0..2).map(|_| gateway.client().connect()).collect();
    for connection in &mut held {
        connection.send(request.to_bytes());
    }
    engine.wait_for_requests(2);
    // Two are held; two more cannot be.
    let mut refused = 0;
    let mut others: Vec<_> = (0..2).map(|_| gateway.client().connect()).collect();
    for connection in &mut others {
        let _ = connection.try_send(request.to_bytes());
    }
    eventually("one of them is refused", || {
        refused = others.iter().filter(|connection| connection.has_input()).count();
        refused > 0
    });
    gate.open();
    let mut statuses = Vec::new();
    for connection in held.iter_mut().chain(&mut others) {
        let response = connection.receive(&request).expect("an answer");
        if response.status != 200 {
            response.expect_error(503, "no_capacity");
            assert!(response.head.headers.has("retry-after"), "{response:?}");
        }
        statuses.push(response.status);
    }
    assert_eq!(statuses[..2], [200, 200]);
    // What was held is given back.
    for _ in 0..5 {
        let _ = gateway.client().send(&request).expect_ok();
    }
    gateway.wait_until_idle();
}
