//! The harness itself: that its client notices what it must notice.

use stargate_tests::{Blackhole, Body, Client, RawEngine, ReadError, Request, SseItem, Then};

fn answer(bytes: &'static str, then: Then) -> (RawEngine, Client) {
    let engine = RawEngine::start(move |exchange| {
        exchange.send(bytes);
        then
    });
    let client = Client::new(engine.address());
    (engine, client)
}

fn body_of(bytes: &'static str, then: Then) -> Body {
    let (_engine, client) = answer(bytes, then);
    client.send(&Request::chat("m")).body
}

fn is_malformed(bytes: &'static str) -> bool {
    let (_engine, client) = answer(bytes, Then::Close);
    matches!(client.try_send(&Request::chat("m")), Err(ReadError::Malformed(_)))
}

#[test]
fn complete_bodies_are_told_from_cut_ones() {
    let complete = Body::Complete(b"abc".to_vec());
    let cut = Body::Cut(b"abc".to_vec());
    assert_eq!(body_of("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", Then::Close), complete);
    assert_eq!(body_of("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabc", Then::Close), cut);
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
    assert_eq!(body_of(chunked, Then::Close), complete);
    let no_end = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n";
    assert_eq!(body_of(no_end, Then::Close), cut);
    assert_eq!(body_of("HTTP/1.1 200 OK\r\n\r\nabc", Then::Close), complete);
}

#[test]
fn invalid_responses_are_not_forgiven() {
    for bytes in [
        "HTTP/1.1 200 OK\ncontent-length: 0\n\n\r\n\r\n",
        "HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length : 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    ] {
        assert!(is_malformed(bytes), "{bytes:?}");
    }
}

#[test]
fn events_are_read_with_either_line_end() {
    let stream = "HTTP/1.1 200 OK\r\n\r\ndata: a\r\n\r\nevent: error\ndata: b\ndata: c\n\ndata: [DONE]\n\n";
    let (_engine, client) = answer(stream, Then::Close);
    let (events, end) = client.stream(&Request::chat("m"));
    let seen: Vec<_> = events.iter().map(|event| (event.name.as_deref(), event.data.as_str())).collect();
    assert_eq!(seen, [(None, "a"), (Some("error"), "b\nc"), (None, "[DONE]")]);
    assert_eq!(end, SseItem::End);
}

#[test]
fn an_engine_records_what_it_was_sent() {
    let (engine, client) = answer("HTTP/1.1 204 No Content\r\n\r\n", Then::KeepOpen);
    let mut connection = client.connect();
    for body in ["first", "second"] {
        let request = Request::new("POST", "/x").header("X-Odd", "1").body(body).chunked(2);
        assert_eq!(connection.exchange(&request).status, 204);
    }
    let requests = engine.requests();
    assert_eq!(
        requests.iter().map(|request| request.body.as_slice()).collect::<Vec<_>>(),
        [b"first".as_slice(), b"second"]
    );
    assert!(requests.iter().all(|request| request.connection == requests[0].connection));
    assert_eq!(requests[0].head.headers.iter().next(), Some(("host", "gateway.test")));
}

#[test]
fn a_blackhole_neither_accepts_nor_refuses() {
    let blackhole = Blackhole::start();
    let before = blackhole.hanging();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_nonblocking(true).expect("a non-blocking socket");
    let error = socket.connect(&blackhole.address().into()).expect_err("it hangs");
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::INPROGRESS.raw_os_error()));
    assert_eq!(blackhole.hanging(), before + 1);
    drop(socket);
    assert_eq!(blackhole.hanging(), before);
}
