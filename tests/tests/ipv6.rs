//! IPv6 on both sides.

use std::net::{IpAddr, Ipv6Addr};

use stargate_tests::{Gateway, RawEngine, Request, Then};

fn ipv6_engine() -> RawEngine {
    RawEngine::start_on(IpAddr::V6(Ipv6Addr::LOCALHOST), true, |exchange| {
        exchange.respond_ok();
        Then::KeepOpen
    })
}

#[test]
fn a_client_of_ipv6_reaches_an_engine_of_ipv6() {
    let engine = ipv6_engine();
    let gateway = Gateway::builder().listen("[::1]:0").backend("e1", &engine.url()).start();
    assert!(gateway.addresses()[0].is_ipv6());
    let mut connection = gateway.client().connect();
    for _ in 0..3 {
        let _ = connection.exchange(&Request::chat("mock")).expect_ok();
    }
    let host = engine.address().to_string();
    assert_eq!(engine.requests()[0].header("host"), Some(host.as_str()));
}

#[test]
fn both_families_are_served_at_once() {
    let engine = ipv6_engine();
    let gateway = Gateway::builder().listen("127.0.0.1:0").listen("[::1]:0").start();
    gateway.register("e1", &engine.url());
    for address in gateway.addresses() {
        let _ = stargate_tests::Client::new(*address).send(&Request::chat("mock")).expect_ok();
    }
    assert_eq!(engine.request_count(), 2);
}

/// A name is resolved by the control plane, never on a core thread.
#[test]
fn a_backend_may_be_named_by_a_host_name() {
    let engine = RawEngine::start(|exchange| {
        exchange.respond_ok();
        Then::KeepOpen
    });
    let url = format!("http://localhost:{}", engine.address().port());
    let gateway = Gateway::builder().backend("e1", &url).start();
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    let host = format!("localhost:{}", engine.address().port());
    assert_eq!(engine.only_request().header("host"), Some(host.as_str()));
}
