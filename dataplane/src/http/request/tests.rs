use super::*;

fn parse(text: &str) -> Result<Option<RequestHead>, RequestRefused> {
    RequestHead::parse(text.as_bytes(), 4096, 100)
}

fn refused(text: &str) -> RequestRefused {
    parse(text).expect_err(text)
}

fn forwarded(text: &str) -> Vec<String> {
    let head = parse(text).unwrap().unwrap();
    head.forward.iter().map(|span| span.of_text(text.as_bytes()).to_owned()).collect()
}

#[test]
fn an_incomplete_head_is_no_error_and_a_complete_one_is_measured() {
    let text = "POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    for end in 0..text.len() - 3 {
        assert!(parse(&text[..end]).unwrap().is_none(), "{end}");
    }
    let head = parse(text).unwrap().unwrap();
    assert_eq!(head.length, text.len() - 3);
    assert_eq!(head.body, BodyFraming::Length(3));
    assert!(head.keep_alive);
}

#[test]
fn leading_empty_lines_are_skipped() {
    let head = parse("\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().unwrap();
    assert_eq!(head.method, Method::Get);
}

#[test]
fn ambiguous_framing_is_refused() {
    let head = "POST /v1/x HTTP/1.1\r\nHost: a\r\n";
    for (lines, error) in [
        ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", FramingError::LengthAndChunked),
        ("Content-Length: 3\r\nContent-Length: 4\r\n", FramingError::LengthsDiffer),
        ("Content-Length: 3, 3\r\n", FramingError::LengthNotANumber),
        ("Content-Length: +3\r\n", FramingError::LengthNotANumber),
        ("Content-Length: \r\n", FramingError::LengthNotANumber),
        ("Content-Length: 99999999999999999999\r\n", FramingError::LengthNotANumber),
        ("Transfer-Encoding: gzip, chunked\r\n", FramingError::NotChunked),
        ("Transfer-Encoding: xchunked\r\n", FramingError::NotChunked),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", FramingError::NotChunked),
    ] {
        assert_eq!(refused(&format!("{head}{lines}\r\n")), RequestRefused::Framing(error), "{lines}");
    }
    assert_eq!(
        refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        RequestRefused::Framing(FramingError::ChunkedInHttp10)
    );
    let same_twice = format!("{head}Content-Length: 3\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(parse(&same_twice).unwrap().unwrap().body, BodyFraming::Length(3));
}

#[test]
fn malformed_lines_are_refused() {
    for text in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    ] {
        assert!(matches!(refused(text), RequestRefused::Syntax(_)), "{text:?}");
    }
}

#[test]
fn limits_are_named() {
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: 1\r\n".repeat(100));
    assert_eq!(refused(&many), RequestRefused::TooManyHeaders(100));
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(5000));
    assert_eq!(refused(&long), RequestRefused::TooLong(4096));
    let endless = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "a".repeat(5000));
    assert_eq!(refused(&endless), RequestRefused::TooLong(4096));
}

#[test]
fn hop_by_hop_headers_and_those_that_connection_names_are_not_forwarded() {
    let text = "POST /v1/x HTTP/1.1\r\nHost: a\r\nA: 1\r\nConnection: close, X-Hop\r\nKeep-Alive: timeout=5\r\n\
        Proxy-Connection: x\r\nTE: trailers\r\nUpgrade: h2c\r\nProxy-Authorization: secret\r\nX-Hop: 1\r\nB: 2\r\nA: 3\r\n\r\n";
    assert_eq!(forwarded(text), ["A: 1", "B: 2", "A: 3"]);
    assert!(!parse(text).unwrap().unwrap().keep_alive);
}

#[test]
fn stargates_headers_are_read_not_forwarded_and_must_be_single() {
    let text = "POST /v1/x HTTP/1.1\r\nHOST: a\r\nX-Model: m\r\nx-PRIORITY: 3\r\nX-Stargate-Attempt: forged\r\n\
        X-Multi-Turn-Session-Id: s\r\nX-Modelled: no\r\n\r\n";
    assert_eq!(forwarded(text), ["X-Multi-Turn-Session-Id: s", "X-Modelled: no"]);
    let head = parse(text).unwrap().unwrap();
    assert_eq!(head.stargate.model.unwrap().of_text(text.as_bytes()), "m");
    assert_eq!(head.stargate.priority.unwrap().of_text(text.as_bytes()), "3");
    assert_eq!(
        refused("GET / HTTP/1.1\r\nHost: a\r\nX-Model: m\r\nx-model: n\r\n\r\n"),
        RequestRefused::Repeated("x-model")
    );
}

#[test]
fn absolute_form_is_read_as_its_path() {
    for (target, path, query) in [
        ("http://h:1/v1/models?model_ids=a", "/v1/models", "model_ids=a"),
        ("http://h", "", ""),
        ("/v1/x?u=http://y/", "/v1/x", "u=http://y/"),
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = parse(&text).unwrap().unwrap();
        assert_eq!((head.path(text.as_bytes()), head.query(text.as_bytes())), (path, query));
    }
}

#[test]
fn http_1_0_closes_unless_asked_and_knows_no_expectation() {
    let head = parse("POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").unwrap().unwrap();
    assert!(!head.keep_alive && !head.expects_continue);
    assert!(parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").unwrap().unwrap().keep_alive);
    assert_eq!(refused("POST / HTTP/1.1\r\nHost: a\r\nExpect: cake\r\n\r\n"), RequestRefused::Expectation);
}
