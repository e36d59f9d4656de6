//! HTTP that `OpenAI` clients seldom use and proxies often get wrong.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use serde_json::{Value, json};
use stargate_tests::{Body, Connection, Engine, Gateway, RawEngine, ReadError, Request, Then};

/// An engine that answers with the request's body.
fn echoing_engine() -> RawEngine {
    RawEngine::start(|exchange| {
        let body = exchange.request.body.clone();
        exchange.respond("200 OK", &[("content-type", "application/json")], body);
        Then::KeepOpen
    })
}

fn chat_saying(text: &str) -> Request {
    let body = json!({ "model": "mock", "messages": [{ "role": "user", "content": text }] });
    Request::post("/v1/chat/completions", &body)
}

fn text_of(body: &Value) -> &str {
    body["messages"][0]["content"].as_str().expect("a text")
}

#[test]
fn a_client_of_http_1_0_gets_an_answer_without_chunks_and_a_close() {
    let engine = RawEngine::start(|exchange| {
        exchange.begin_stream();
        exchange.send_chunk("data: 1\n\n");
        exchange.send_chunk("data: [DONE]\n\n");
        exchange.end_chunks();
        Then::KeepOpen
    });
    let gateway = Gateway::before(&engine.url());
    let mut connection = gateway.client().connect();
    let response = connection.exchange(&Request::chat_stream("mock").http_1_0()).expect_ok();
    assert!(!response.head.headers.has("transfer-encoding"), "{response:?}");
    assert_eq!(response.text(), "data: 1\n\ndata: [DONE]\n\n");
    connection.expect_closed();
}

/// Without chunks, a short end is all that says so.
#[test]
fn a_client_of_http_1_0_is_not_told_that_a_cut_stream_was_complete() {
    let engine = RawEngine::start(|exchange| {
        exchange.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{\"a\"");
        Then::Close
    });
    let gateway = Gateway::before(&engine.url());
    let response = gateway.client().send(&Request::chat("mock").http_1_0()).expect_ok();
    assert_eq!(response.body, Body::Cut(b"{\"a\"".to_vec()));
}

#[test]
fn a_client_of_http_1_0_sees_no_interim_response() {
    let engine = RawEngine::start(|exchange| {
        exchange.send("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n");
        exchange.respond_ok();
        Then::KeepOpen
    });
    let gateway = Gateway::before(&engine.url());
    let response = gateway.client().send(&Request::chat("mock").http_1_0()).expect_ok();
    assert_eq!(response.interim, []);
}

#[test]
fn head_is_answered_without_a_body_and_the_connection_goes_on() {
    let engine = RawEngine::start(|exchange| {
        let body = if exchange.request.method == "HEAD" { "" } else { "{\"n\":1}" };
        exchange.send(format!("HTTP/1.1 200 OK\r\ncontent-length: 7\r\nx-engine: 1\r\n\r\n{body}"));
        Then::KeepOpen
    });
    let gateway = Gateway::builder().cores(1).backend("e1", &engine.url()).start();
    let mut connection = gateway.client().connect();
    for _ in 0..2 {
        let own = connection.exchange(&Request::new("HEAD", "/healthz")).expect_ok();
        assert_eq!(own.body.complete(), b"");
        let response = connection
            .exchange(&Request::new("HEAD", "/v1/responses/1").header("x-model", "mock"))
            .expect_ok();
        assert_eq!(response.header("x-engine"), Some("1"));
        assert_eq!(response.header("content-length"), Some("7"));
        let response =
            connection.exchange(&Request::get("/v1/responses/1").header("x-model", "mock")).expect_ok();
        assert_eq!(response.body.complete(), b"{\"n\":1}");
    }
    let connections: Vec<usize> = engine.requests().iter().map(|request| request.connection).collect();
    assert!(connections.iter().all(|connection| *connection == connections[0]), "{connections:?}");
}

#[test]
fn interim_responses_of_an_engine_come_before_the_final_one() {
    let engine = RawEngine::start(|exchange| {
        exchange.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n");
        exchange.respond_ok();
        Then::KeepOpen
    });
    let gateway = Gateway::builder().cores(1).backend("e1", &engine.url()).start();
    let mut connection = gateway.client().connect();
    for _ in 0..2 {
        let response = connection.exchange(&Request::chat("mock")).expect_ok();
        assert_eq!(response.json()["object"], "chat.completion");
        // 100 answers an expectation that this client did not have (RFC 9110, 10.1.1).
        assert!(response.interim.iter().all(|head| head.start_line.contains(" 103 ")), "{response:?}");
    }
    let requests = engine.requests();
    assert_eq!(requests[0].connection, requests[1].connection, "still in sync");
}

#[test]
fn an_expectation_is_met_before_the_body_is_sent() {
    let engine = echoing_engine();
    let gateway = Gateway::before(&engine.url());
    let request = chat_saying("hello").header("expect", "100-continue");
    let mut connection = gateway.client().connect();
    for _ in 0..2 {
        connection.send(request.head_bytes());
        let interim = connection.receive_head().expect("an interim response");
        assert!(interim.start_line.starts_with("HTTP/1.1 100"), "{interim:?}");
        connection.send(request.body_bytes());
        let response = connection.receive(&request).expect("a response").expect_ok();
        assert_eq!(text_of(&response.json()), "hello");
        assert_eq!(response.interim, [], "one 100 is enough");
    }
    assert!(engine.requests().iter().all(|request| !request.head.headers.has("expect")));
}

#[test]
fn a_body_sent_without_waiting_for_100_is_read() {
    let engine = echoing_engine();
    let gateway = Gateway::before(&engine.url());
    let request = chat_saying("impatient").header("expect", "100-continue");
    let mut connection = gateway.client().connect();
    for _ in 0..2 {
        let response = connection.exchange(&request).expect_ok();
        assert_eq!(text_of(&response.json()), "impatient");
        assert!(response.interim.len() <= 1, "{response:?}");
    }
}

#[test]
fn an_unknown_expectation_is_417() {
    let engine = echoing_engine();
    let gateway = Gateway::before(&engine.url());
    let response = gateway.client().send(&chat_saying("hello").header("expect", "the-unexpected"));
    response.expect_error(417, "expectation_failed");
    assert_eq!(engine.request_count(), 0);
}

#[test]
fn an_upload_that_will_be_refused_is_refused_before_it_is_sent() {
    let engine = echoing_engine();
    let gateway = Gateway::builder().set("limits.max_body_bytes", 1000).backend("e1", &engine.url()).start();
    let request = chat_saying(&"a".repeat(2000)).header("expect", "100-continue");
    let mut connection = gateway.client().connect();
    connection.send(request.head_bytes());
    let response = connection.receive(&request).expect("an answer");
    response.expect_error(413, "payload_too_large");
    assert_eq!(response.interim, [], "no invitation to send what is then refused");
    // Nobody knows whether the client will send the body now: only a close is safe.
    assert!(response.head.headers.has_token("connection", "close"), "{response:?}");
    connection.expect_closed();
}

/// The engine answers after the head and reads no further: the answer must get through although the upload
/// cannot go on.
#[test]
fn an_answer_before_the_end_of_the_body_ends_the_upload() {
    let engine = RawEngine::start_without_reading_bodies(|exchange| {
        exchange.respond("429 Too Many Requests", &[("x-engine", "full")], "{}");
        // Neither reads nor closes until the gateway does.
        exchange.closed_by_gateway();
        Then::Close
    });
    let gateway = Gateway::before(&engine.url());
    // Far more than the socket buffers on the way take.
    let request = chat_saying(&"a".repeat(32 << 20));
    let connection = gateway.client().connect();
    let mut writer = Connection::open(gateway.client().address());
    drop(connection);
    let response = {
        let mut sender = writer.stream().try_clone().expect("a second handle");
        let bytes = request.to_bytes();
        let upload = thread::spawn(move || {
            // Fails once the gateway has answered and closed, which is what it is for.
            let _ = std::io::Write::write_all(&mut sender, &bytes);
        });
        let response = writer.receive(&request).expect("an answer");
        drop(writer);
        upload.join().expect("the upload ends");
        response
    };
    assert_eq!((response.status, response.header("x-engine")), (429, Some("full")), "{response:?}");
    assert_eq!(engine.request_count(), 1);
    gateway.wait_until_idle();
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let engine = echoing_engine();
    let gateway = Gateway::before(&engine.url());
    let requests = [
        chat_saying("one"),
        Request::get("/healthz"),
        chat_saying("two").chunked(7),
        Request::get("/v1/nowhere"),
        chat_saying("three"),
    ];
    let bytes: Vec<u8> = requests.iter().flat_map(Request::to_bytes).collect();
    let mut connection = gateway.client().connect();
    connection.send(bytes);
    let answers: Vec<_> =
        requests.iter().map(|request| connection.receive(request).expect("an answer")).collect();
    for (index, text) in [(0, "one"), (2, "two"), (4, "three")] {
        assert_eq!(answers[index].status, 200, "{:?}", answers[index]);
        assert_eq!(text_of(&answers[index].json()), text);
    }
    assert_eq!(answers[1].status, 200);
    assert!((400..500).contains(&answers[3].status), "{:?}", answers[3]);
    assert!(!connection.is_closed());
}

#[test]
fn pipelined_requests_split_at_any_byte_are_answered() {
    let engine = echoing_engine();
    let gateway = Gateway::before(&engine.url());
    let requests = [chat_saying("one"), chat_saying("two").chunked(5)];
    let bytes: Vec<u8> = requests.iter().flat_map(Request::to_bytes).collect();
    let mut connection = gateway.client().connect();
    for byte in &bytes {
        connection.send([*byte]);
    }
    for (request, text) in requests.iter().zip(["one", "two"]) {
        let response = connection.receive(request).expect("an answer").expect_ok();
        assert_eq!(text_of(&response.json()), text);
    }
}

#[test]
fn connection_close_is_obeyed() {
    let engine = echoing_engine();
    let gateway = Gateway::before(&engine.url());
    let mut connection = gateway.client().connect();
    let response = connection.exchange(&chat_saying("last").header("Connection", "Close")).expect_ok();
    assert!(response.head.headers.has_token("connection", "close"), "{response:?}");
    connection.expect_closed();
    assert_eq!(text_of(&response.json()), "last");
}

#[test]
fn connections_stay_open_otherwise() {
    let engine = echoing_engine();
    let gateway = Gateway::before(&engine.url());
    let mut connection = gateway.client().connect();
    for number in 0..50 {
        let response = connection.exchange(&chat_saying(&number.to_string())).expect_ok();
        assert_eq!(text_of(&response.json()), number.to_string());
    }
}

#[test]
fn a_connection_serves_as_many_requests_as_configured() {
    let engine = echoing_engine();
    let gateway =
        Gateway::builder().set("limits.max_requests_per_connection", 3).backend("e1", &engine.url()).start();
    let mut connection = gateway.client().connect();
    let closes: Vec<bool> = (0..3)
        .map(|_| {
            connection.exchange(&chat_saying("x")).expect_ok().head.headers.has_token("connection", "close")
        })
        .collect();
    assert_eq!(closes, [false, false, true]);
    connection.expect_closed();
}

#[test]
fn absolute_form_targets_are_served() {
    let engine = echoing_engine();
    let gateway = Gateway::before(&engine.url());
    let body = json!({ "model": "mock", "messages": [] });
    let request = Request::post("http://gateway.test/v1/chat/completions?a=b", &body);
    let _ = gateway.client().send(&request).expect_ok();
    assert_eq!(engine.only_request().target, "/v1/chat/completions?a=b");
    let _ = gateway.client().get("http://gateway.test/healthz").expect_ok();
}

#[test]
fn header_names_match_in_any_case() {
    let engine = echoing_engine();
    let gateway = Gateway::before(&engine.url());
    let body = r#"{"model":"mock","messages":[]}"#;
    for (length, encoding, host) in [
        ("content-length", "transfer-encoding", "host"),
        ("CONTENT-LENGTH", "TRANSFER-ENCODING", "HOST"),
        ("cOnTeNt-LeNgTh", "tRaNsFeR-eNcOdInG", "hOsT"),
    ] {
        let mut connection = gateway.client().connect();
        let head = format!("POST /v1/chat/completions HTTP/1.1\r\n{host}: a\r\n");
        connection.send(format!("{head}{length}: {}\r\n\r\n{body}", body.len()));
        let response = connection.receive(&Request::chat("mock")).expect("an answer").expect_ok();
        assert_eq!(response.body.complete(), body.as_bytes());
        connection.send(format!("{head}{encoding}: Chunked\r\n\r\n{:X}\r\n{body}\r\n0\r\n\r\n", body.len()));
        let response = connection.receive(&Request::chat("mock")).expect("an answer").expect_ok();
        assert_eq!(response.body.complete(), body.as_bytes());
    }
}

#[test]
fn odd_case_of_an_engines_framing_is_understood() {
    let engine = RawEngine::start(|exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nTRANSFER-encoding: CHUNKED\r\n\r\n2\r\n{}\r\n0\r\n\r\n");
        Then::KeepOpen
    });
    let gateway = Gateway::before(&engine.url());
    assert_eq!(gateway.client().send(&Request::chat("mock")).expect_ok().body.complete(), b"{}");
}

#[test]
fn trailers_shift_nothing() {
    let engine = RawEngine::start(|exchange| {
        exchange.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-sum: 1\r\nx-end: 2\r\n\r\n");
        Then::KeepOpen
    });
    let gateway = Gateway::builder().cores(1).backend("e1", &engine.url()).start();
    let mut connection = gateway.client().connect();
    let body = r#"{"model":"mock","messages":[]}"#;
    for _ in 0..3 {
        connection.send(format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n\
             {:x}\r\n{body}\r\n0\r\nx-sum: 3\r\nx-more: 4\r\n\r\n",
            body.len()
        ));
        let response = connection.receive(&Request::chat("mock")).expect("an answer").expect_ok();
        assert_eq!(response.body.complete(), b"{}");
        assert_eq!((response.trailers.get("x-sum"), response.trailers.get("x-end")), (Some("1"), Some("2")));
    }
    let requests = engine.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert_eq!(request.body, body.as_bytes());
        assert_eq!(request.connection, requests[0].connection, "still in sync");
        // A trailer must not turn into a header (RFC 9110, 6.5.1).
        assert!(!request.head.headers.has("x-sum") && !request.head.headers.has("x-more"), "{request:?}");
    }
}

/// RFC 9112, 2.2: for clients that end a body with a CRLF too many.
#[test]
fn an_empty_line_before_a_request_is_passed_over() {
    let engine = echoing_engine();
    let gateway = Gateway::before(&engine.url());
    let mut connection = gateway.client().connect();
    for _ in 0..2 {
        connection.send("\r\n");
        let _ = connection.exchange(&chat_saying("x")).expect_ok();
    }
}

#[test]
fn methods_and_paths_that_nobody_serves_are_told_apart() {
    let engine = Engine::start("e1");
    let gateway = Gateway::before(&engine.url());
    let client = gateway.client();
    client.get("/nowhere").expect_error(404, "not_found");
    client.send(&Request::chat("mock").header("x-a", "1")).expect_ok().json();
    client.send(&Request::new("POST", "/healthz").body("")).expect_error(405, "method_not_allowed");
    client.send(&Request::new("DELETE", "/v1/models")).expect_error(405, "method_not_allowed");
    client.get("/").expect_error(404, "not_found");
}

/// A connection that the engine will not keep is not offered to the next request.
#[test]
fn an_engines_connection_close_is_obeyed() {
    let (sender, receiver) = mpsc::channel::<bool>();
    let sender = Mutex::new(sender);
    let count = AtomicUsize::new(0);
    let engine = RawEngine::start(move |exchange| {
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            exchange.respond("200 OK", &[("connection", "close")], "{}");
            // Stays open: only the header says that it must not be used again.
            let _ = sender.lock().expect("one request").send(exchange.closed_by_gateway());
            return Then::Close;
        }
        exchange.respond_ok();
        Then::KeepOpen
    });
    let gateway = Gateway::builder().cores(1).backend("e1", &engine.url()).start();
    let mut connection = gateway.client().connect();
    for _ in 0..2 {
        let response = connection.exchange(&Request::chat("mock")).expect_ok();
        assert!(!response.head.headers.has_token("connection", "close"), "hop by hop: {response:?}");
    }
    assert_eq!(receiver.recv(), Ok(true));
    let requests = engine.requests();
    assert_ne!(requests[0].connection, requests[1].connection);
}

/// Engines of HTTP/1.0 close unless they say that they do not.
#[test]
fn an_engine_of_http_1_0_is_understood() {
    let engine = RawEngine::start(|exchange| {
        exchange.send("HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{\"a\":1}");
        Then::Close
    });
    let gateway = Gateway::before(&engine.url());
    let mut connection = gateway.client().connect();
    for _ in 0..2 {
        match connection.try_exchange(&Request::chat("mock")) {
            Ok(response) => {
                assert_eq!(response.body.complete(), b"{\"a\":1}", "{response:?}");
                if response.head.headers.has_token("connection", "close") {
                    connection = gateway.client().connect();
                }
            }
            Err(error @ ReadError::Closed) => panic!("closed without having said so: {error:?}"),
            Err(error) => panic!("{error:?}"),
        }
    }
}
