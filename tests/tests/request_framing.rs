//! Requests that two parsers could read differently: refused, the connection closed, nothing of them sent on.

use stargate_tests::{Engine, Gateway, RawEngine, Request, Then};

const JSON: &str = r#"{"model":"mock","messages":[{"role":"user","content":"hi"}]}"#;

/// A chat request with these header lines, each with its own line end, and this body.
fn chat(header_lines: &str, body: &str) -> String {
    format!("POST /v1/chat/completions HTTP/1.1\r\nhost: gateway.test\r\n{header_lines}\r\n{body}")
}

/// A chat request framed by its length, with these further header lines.
fn chat_with(header_lines: &str) -> String {
    chat(&format!("{header_lines}content-length: {}\r\n", JSON.len()), JSON)
}

/// A chat request with this chunked body.
fn chunked(body: &str) -> String {
    chat("transfer-encoding: chunked\r\n", body)
}

/// Asserts 400 and a close for each, and that no engine sees any of them.
#[track_caller]
fn expect_refused(cases: &[(&str, String)]) {
    let engine = RawEngine::start(|exchange| {
        exchange.respond_ok();
        Then::KeepOpen
    });
    let gateway = Gateway::before(&engine.url());
    for (name, bytes) in cases {
        let mut connection = gateway.client().connect();
        connection.send(bytes);
        let response = connection
            .receive(&Request::chat("mock"))
            .unwrap_or_else(|error| panic!("{name}: no answer: {error:?}"));
        assert_eq!(response.status, 400, "{name}: {response:?}");
        response.expect_error(400, "invalid_request");
        assert!(response.head.headers.has_token("connection", "close"), "{name}: {response:?}");
        connection.expect_closed();
    }
    assert_eq!(engine.request_count(), 0, "{:?}", engine.requests());
    // The gateway is none the worse for it.
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    gateway.wait_until_idle();
}

#[test]
fn ambiguous_lengths_are_refused() {
    let length = JSON.len();
    let smuggled =
        "0\r\n\r\nPOST /v1/chat/completions HTTP/1.1\r\nhost: smuggled\r\ncontent-length: 0\r\n\r\n";
    expect_refused(&[
        (
            "content-length and transfer-encoding",
            chat(&format!("content-length: {}\r\ntransfer-encoding: chunked\r\n", smuggled.len()), smuggled),
        ),
        (
            "transfer-encoding and content-length",
            chat(&format!("transfer-encoding: chunked\r\ncontent-length: {}\r\n", smuggled.len()), smuggled),
        ),
        ("two content-lengths", chat(&format!("content-length: {length}\r\ncontent-length: 5\r\n"), JSON)),
        ("a list of content-lengths", chat(&format!("content-length: {length}, 5\r\n"), JSON)),
        ("a signed content-length", chat(&format!("content-length: +{length}\r\n"), JSON)),
        ("a negative content-length", chat("content-length: -1\r\n", JSON)),
        ("a content-length in hex", chat("content-length: 0x10\r\n", JSON)),
        ("an empty content-length", chat("content-length: \r\n", JSON)),
        ("a content-length with a space inside", chat("content-length: 1 0\r\n", JSON)),
        ("a content-length beyond 64 bits", chat("content-length: 18446744073709551617\r\n", JSON)),
    ]);
}

#[test]
fn transfer_encodings_other_than_chunked_are_refused() {
    let body = format!("{:x}\r\n{JSON}\r\n0\r\n\r\n", JSON.len());
    let with = |value: &str| chat(&format!("transfer-encoding: {value}\r\n"), &body);
    let http_1_0 = with("chunked").replacen("HTTP/1.1", "HTTP/1.0", 1);
    expect_refused(&[
        ("identity", with("identity")),
        ("gzip", with("gzip")),
        ("gzip, chunked", with("gzip, chunked")),
        ("chunked, gzip", with("chunked, gzip")),
        ("chunked twice", with("chunked, chunked")),
        ("chunked with a parameter", with("chunked;q=1")),
        ("chunked in quotes", with("\"chunked\"")),
        ("a vertical tab before chunked", with("\x0bchunked")),
        ("an empty one", with("")),
        ("two headers", chat("transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n", &body)),
        ("HTTP/1.0", http_1_0),
    ]);
}

#[test]
fn malformed_header_lines_are_refused() {
    expect_refused(&[
        ("a bare LF after a header", chat_with("x-a: 1\nx-b: 2\r\n")),
        ("a bare CR in a value", chat_with("x-a: 1\r2\r\n")),
        ("a NUL in a value", chat_with("x-a: 1\x002\r\n")),
        ("a control character in a value", chat_with("x-a: 1\x012\r\n")),
        ("a space before the colon", chat_with("x-a : 1\r\n")),
        ("a tab before the colon", chat_with("x-a\t: 1\r\n")),
        ("a folded value", chat_with("x-a: 1\r\n 2\r\n")),
        ("a value folded with a tab", chat_with("x-a: 1\r\n\t2\r\n")),
        ("a space before the first header", chat_with("").replacen("\r\nhost", "\r\n host", 1)),
        ("no colon", chat_with("x-a 1\r\n")),
        ("no name", chat_with(": 1\r\n")),
        ("a space in a name", chat_with("x a: 1\r\n")),
        ("a name beyond ASCII", chat_with("x-ä: 1\r\n")),
        ("a space before the colon of content-length", chat("content-length : 60\r\n", JSON)),
    ]);
}

#[test]
fn malformed_request_lines_are_refused() {
    let with = |line: &str| format!("{line}\r\nhost: gateway.test\r\ncontent-length: 0\r\n\r\n");
    expect_refused(&[
        ("a bare LF", with("POST /v1/chat/completions HTTP/1.1").replacen("\r\n", "\n", 1)),
        ("no version", with("POST /v1/chat/completions")),
        ("a lower-case version", with("POST /v1/chat/completions http/1.1")),
        ("an unknown version", with("POST /v1/chat/completions HTTP/1.2")),
        ("a space in the target", with("POST /v1/chat completions HTTP/1.1")),
        ("no target", with("POST  HTTP/1.1")),
        ("a method that is no token", with("PO(ST /v1/chat/completions HTTP/1.1")),
        ("a control character in the target", with("POST /v1/chat\x01completions HTTP/1.1")),
        ("something that is not HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n".to_owned()),
    ]);
}

/// RFC 9112, 3.2: a server must refuse these.
#[test]
fn a_missing_or_repeated_host_is_refused() {
    expect_refused(&[
        ("no host", chat_with("").replacen("host: gateway.test\r\n", "", 1)),
        ("two hosts", chat_with("host: other.test\r\n")),
    ]);
}

#[test]
fn malformed_chunks_are_refused() {
    let size = format!("{:x}", JSON.len());
    let with_size = |size: &str| chunked(&format!("{size}\r\n{JSON}\r\n0\r\n\r\n"));
    expect_refused(&[
        ("no digits", with_size("xyz")),
        ("an empty size", with_size("")),
        ("a sign", with_size(&format!("+{size}"))),
        ("a negative size", with_size("-1")),
        ("a prefix", with_size(&format!("0x{size}"))),
        ("a space before the size", with_size(&format!(" {size}"))),
        ("an underscore", with_size("3_c")),
        ("a size beyond 64 bits", with_size("10000000000000001")),
        ("a bare LF after the size", chunked(&format!("{size}\n{JSON}\r\n0\r\n\r\n"))),
        ("a bare CR in an extension", with_size(&format!("{size};a\rb"))),
        ("data longer than its size", chunked(&format!("5\r\n{JSON}\r\n0\r\n\r\n"))),
        ("no CRLF after the data", chunked(&format!("{size}\r\n{JSON}0\r\n\r\n"))),
        ("a bare LF after the data", chunked(&format!("{size}\r\n{JSON}\n0\r\n\r\n"))),
    ]);
}

/// What follows a refused request on its connection is never looked at.
#[test]
fn nothing_after_a_refused_request_is_answered() {
    let engine = Engine::start("e1");
    let gateway = Gateway::before(&engine.url());
    let mut connection = gateway.client().connect();
    let refused = chat("content-length: 5\r\ncontent-length: 6\r\n", "12345");
    let valid = String::from_utf8(Request::chat("mock").to_bytes()).expect("ASCII");
    connection.send(format!("{refused}{valid}"));
    assert_eq!(connection.receive(&Request::chat("mock")).expect("an answer").status, 400);
    connection.expect_closed();
    assert_eq!(engine.counter("requests_started"), 0);
}

/// RFC 9112, 6.3: the same length twice is harmless, and may be taken or refused; it must not be forwarded twice.
#[test]
fn a_repeated_equal_length_is_not_forwarded_twice() {
    let engine = RawEngine::start(|exchange| {
        exchange.respond_ok();
        Then::KeepOpen
    });
    let gateway = Gateway::before(&engine.url());
    let length = JSON.len();
    let mut connection = gateway.client().connect();
    connection.send(chat(&format!("content-length: {length}\r\ncontent-length: {length}\r\n"), JSON));
    let status = connection.receive(&Request::chat("mock")).expect("an answer").status;
    match status {
        200 => assert_eq!(engine.only_request().head.headers.all("content-length").len(), 1),
        400 => assert_eq!(engine.request_count(), 0),
        _ => panic!("neither taken nor refused: {status}"),
    }
}
