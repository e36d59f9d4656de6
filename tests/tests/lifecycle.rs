//! From start to stop: the ready line, a start with a backend down, a drain that loses nothing.

use std::{
    net::{TcpListener, TcpStream},
    os::unix::process::ExitStatusExt,
};

use serde_json::json;
use stargate_tests::{
    Connection, Engine, Gateway, RawEngine, ReadError, Request, Signal, SseItem, SseReader, eventually,
};

/// Streams held open over a shutdown.
const STREAMS: usize = 50;

/// A stream of which the first event has been read.
fn open_stream(gateway: &Gateway) -> SseReader<Connection> {
    let mut connection = gateway.client().connect();
    let head = connection.begin(&Request::chat_stream("mock"));
    let mut stream = SseReader::new(connection.into_body(&head));
    assert_eq!(stream.next_event().data, "1");
    stream
}

#[test]
fn the_ready_line_says_where_and_how() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().cores(1).backend("e1", &engine.url()).start();
    let line = gateway.process().ready_line();
    let words: Vec<&str> = line.split(' ').map(|word| word.split('=').next().expect("a key")).collect();
    assert_eq!(words, ["ready", "dataplane", "admin", "cores", "driver"], "{line}");
    assert_eq!(gateway.process().ready_value("cores"), "1");
    assert!(
        gateway.process().ready_value("driver").starts_with("io_uring") || line.contains("io-uring"),
        "{line}"
    );
    assert_ne!(gateway.addresses()[0].port(), 0);
}

#[test]
fn epoll_serves_as_well() {
    let engine = Engine::start("e1");
    let gateway =
        Gateway::builder().argument("--driver").argument("epoll").backend("e1", &engine.url()).start();
    assert_eq!(gateway.process().ready_value("driver"), "epoll");
    let mut connection = gateway.client().connect();
    for _ in 0..10 {
        let _ = connection.exchange(&Request::chat("mock")).expect_ok();
    }
    let (events, end) = gateway.client().stream(&Request::chat_stream("mock"));
    assert_eq!(end, SseItem::End);
    assert!(events.last().expect("events").is_done());
    gateway.wait_until_idle();
}

#[test]
fn several_addresses_are_listened_on() {
    let engine = RawEngine::plain();
    let gateway =
        Gateway::builder().listen("127.0.0.1:0").listen("127.0.0.2:0").backend("e1", &engine.url()).start();
    assert_eq!(gateway.addresses().len(), 2);
    for address in gateway.addresses() {
        let _ = stargate_tests::Client::new(*address).send(&Request::chat("mock")).expect_ok();
    }
}

/// Connections are spread by the kernel; whichever core gets one serves it.
#[test]
fn every_core_serves() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&engine.url());
    for _ in 0..40 {
        let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    }
    assert_eq!(engine.request_count(), 40);
    gateway.wait_until_idle();
}

#[test]
fn it_starts_and_serves_with_one_of_three_backends_down() {
    let (a, b) = (RawEngine::plain(), RawEngine::plain());
    let gateway = Gateway::builder()
        .backend("a", &a.url())
        .backend("down", "http://127.0.0.1:9")
        .backend("b", &b.url())
        .start_without_waiting();
    gateway.wait_until_routable("a");
    gateway.wait_until_routable("b");
    for _ in 0..20 {
        let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    }
    assert!(!gateway.is_routable("down"));
    let models = gateway.client().get("/v1/models").expect_ok().json();
    assert_eq!(models["data"].as_array().expect("a list").len(), 1, "{models}");
}

/// Stops a gateway with this many open streams: they finish, and nothing new begins.
fn drain_with_open_streams(count: usize, signal: Signal) {
    let (engine, gate) = RawEngine::gated();
    let mut gateway = Gateway::before(&engine.url());
    let mut streams: Vec<_> = (0..count).map(|_| open_stream(&gateway)).collect();
    let mut idle = gateway.client().connect();
    let _ = idle.exchange(&Request::get("/healthz")).expect_ok();

    gateway.signal(signal);
    eventually("no new connection is taken", || refuses_connections(&gateway));
    idle.expect_closed();
    gate.open();
    for stream in &mut streams {
        let (events, end) = stream.rest().expect("the rest");
        assert_eq!((events.len(), events[0].data.as_str(), end), (1, "2", SseItem::End));
    }
    assert_eq!(gateway.wait().code(), Some(0), "{signal:?}");
}

/// Some cores have nothing open by then, and must refuse all the same.
fn refuses_connections(gateway: &Gateway) -> bool {
    TcpStream::connect(gateway.client().address()).is_err()
}

#[test]
fn open_streams_finish_and_nothing_new_begins_once_it_was_told_to_stop() {
    for signal in [Signal::Term, Signal::Int] {
        drain_with_open_streams(STREAMS, signal);
    }
}

/// While one core drains, those that have nothing left to do take no connections either: one in the backlog of a
/// listener that nobody serves would hang until the end.
#[test]
fn a_core_without_streams_takes_no_connections_while_another_drains() {
    drain_with_open_streams(1, Signal::Term);
}

#[test]
fn a_stop_with_nothing_open_is_immediate_and_clean() {
    let engine = RawEngine::plain();
    // A pooled connection is nothing to wait for.
    let mut gateway = Gateway::before(&engine.url());
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    gateway.signal(Signal::Term);
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn the_grace_limit_cuts_what_does_not_end() {
    let (engine, _never_opened) = RawEngine::gated();
    let mut gateway =
        Gateway::builder().set("timeouts.shutdown_grace_ms", 200).backend("e1", &engine.url()).start();
    let mut stream = open_stream(&gateway);
    gateway.signal(Signal::Term);
    match stream.rest() {
        Ok((events, SseItem::Cut)) => assert!(events.iter().all(|event| event.name.is_some()), "{events:?}"),
        Ok((events, SseItem::End)) => {
            let last = events.last().expect("an error, as the stream was not complete");
            assert_eq!(last.name.as_deref(), Some("error"), "{events:?}");
        }
        Err(error) => assert_eq!(error, ReadError::Reset),
        Ok(other) => panic!("{other:?}"),
    }
    assert!(gateway.wait().code().is_some(), "it exits by itself");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (signal, code) in [(Signal::Int, 130), (Signal::Term, 143)] {
        let (engine, _never_opened) = RawEngine::gated();
        let mut gateway =
            Gateway::builder().set("timeouts.shutdown_grace_ms", 60_000).backend("e1", &engine.url()).start();
        let _stream = open_stream(&gateway);
        gateway.signal(signal);
        eventually("the drain has begun", || gateway.process().log().contains("draining"));
        gateway.signal(signal);
        let status = gateway.wait();
        assert_eq!(status.code(), Some(code), "{signal:?}: {status:?}, killed by {:?}", status.signal());
    }
}

#[test]
fn an_address_in_use_is_a_clear_error() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    for (listen, admin) in [(address.as_str(), "127.0.0.1:0"), ("127.0.0.1:0", address.as_str())] {
        let output = Gateway::builder().run(&["--listen", listen, "--admin-listen", admin, "--cores", "1"]);
        assert!(output.status.code().is_some_and(|code| code != 0), "{output:?}");
        assert_eq!(output.stdout, b"", "never ready");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(&address), "the address is not named: {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

/// The control plane is not asked for anything per request.
#[test]
fn backends_registered_before_stay_while_others_fail_to_register() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().start();
    gateway.register("e1", &engine.url());
    for _ in 0..20 {
        let fault = json!({ "url": "nonsense", "models": {} });
        assert!((400..500).contains(&gateway.put_backend("e2", &fault).status));
        let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    }
}
