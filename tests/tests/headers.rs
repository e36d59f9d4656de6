//! Which headers pass, each way (docs/api.md).

use serde_json::json;
use stargate_tests::{Engine, Gateway, Headers, RawEngine, Request, Then, eventually};

/// Names (lower case) and values of those headers whose name passes the filter, in order.
fn selected(headers: &Headers, filter: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .filter(|(name, _)| filter(name))
        .collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn hop_by_hop_headers_of_a_request_end_here_and_all_others_go_on() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&engine.url());
    let request = Request::chat("mock")
        .header("X-First", "1")
        .header("Connection", "keep-alive, X-Hop")
        .header("X-Hop", "gone")
        .header("Accept", "text/event-stream")
        .header("connection", "x-other-hop")
        .header("x-other-hop", "gone")
        .header("Keep-Alive", "timeout=5")
        .header("Proxy-Connection", "keep-alive")
        .header("TE", "trailers")
        .header("Trailer", "x-sum")
        .header("Upgrade", "h2c")
        .header("Proxy-Authorization", "Basic Z2F0ZTp3YXk=")
        .header("Authorization", "Bearer sk-test")
        .header("X-Repeat", "one")
        .header("Cookie", "a=1; b=2")
        .header("x-repeat", "two, three")
        .header("X-Empty", "")
        .header("X-Repeat", "four")
        .header("X-Spaces", "a  b\tc")
        .header("User-Agent", "OpenAI/Python 3");
    let _ = gateway.client().send(&request).expect_ok();
    let head = engine.only_request().head;
    let hops = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "proxy-authorization",
        "x-hop",
        "x-other-hop",
    ];
    for name in hops {
        // The gateway may say `connection: keep-alive` for itself.
        assert!(head.headers.all(name).iter().all(|value| *value == "keep-alive"), "{name}: {head:#?}");
    }
    let own = ["x-request-id", "x-model", "x-input-tokens", "x-cache-affinity-key"];
    let passed = selected(&head.headers, |name| {
        !hops.contains(&name) && !own.contains(&name) && !["host", "content-length"].contains(&name)
    });
    assert_eq!(
        passed,
        pairs(&[
            ("content-type", "application/json"),
            ("x-first", "1"),
            ("accept", "text/event-stream"),
            ("authorization", "Bearer sk-test"),
            ("x-repeat", "one"),
            ("cookie", "a=1; b=2"),
            ("x-repeat", "two, three"),
            ("x-empty", ""),
            ("x-repeat", "four"),
            ("x-spaces", "a  b\tc"),
            ("user-agent", "OpenAI/Python 3"),
        ])
    );
    let host = engine.address().to_string();
    assert_eq!(head.headers.get("host"), Some(host.as_str()), "the engine's own name");
}

/// A header named by `Connection` ends here, but what frames the message is not its sender's to remove.
#[test]
fn connection_cannot_remove_the_framing_of_a_request() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&engine.url());
    let request = Request::chat("mock").header("connection", "content-length, host, x-request-id");
    let _ = gateway.client().send(&request).expect_ok();
    let received = engine.only_request();
    assert!(!received.body.is_empty());
    assert!(received.head.headers.has("host") && received.head.headers.has("x-request-id"));
}

#[test]
fn hop_by_hop_headers_of_a_response_end_here_and_all_others_go_on() {
    let engine = RawEngine::start(|exchange| {
        exchange.send(
            "HTTP/1.1 200 Fine\r\nX-First: 1\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\n\
             X-Hop: gone\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\n\
             Set-Cookie: a=1\r\nContent-Type: application/json\r\nSet-Cookie: b=2\r\nX-Empty:\r\n\
             Retry-After: 3\r\nServer: uvicorn\r\nset-cookie: c=3\r\nTransfer-Encoding: chunked\r\n\r\n\
             2\r\n{}\r\n0\r\n\r\n",
        );
        Then::KeepOpen
    });
    let gateway = Gateway::before(&engine.url());
    let response = gateway.client().send(&Request::chat("mock")).expect_ok();
    for name in ["keep-alive", "proxy-connection", "upgrade", "x-hop"] {
        assert!(!response.head.headers.has(name), "{name}: {response:#?}");
    }
    let framing_and_own = [
        "connection",
        "transfer-encoding",
        "content-length",
        "x-request-id",
        "x-inference-server-id",
        "x-stargate-cluster-id",
    ];
    let passed = selected(&response.head.headers, |name| !framing_and_own.contains(&name));
    assert_eq!(
        passed,
        pairs(&[
            ("x-first", "1"),
            ("set-cookie", "a=1"),
            ("content-type", "application/json"),
            ("set-cookie", "b=2"),
            ("x-empty", ""),
            ("retry-after", "3"),
            ("server", "uvicorn"),
            ("set-cookie", "c=3"),
        ])
    );
}

#[test]
fn of_stargates_headers_the_engine_gets_those_that_are_for_it() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().start();
    gateway.register_with(
        "e1",
        &json!({ "url": engine.url(), "routing_key": "team-a", "lease_ms": 600_000, "models": { "mock": {} } }),
    );
    let request = Request::chat("ignored")
        .header("x-request-id", "request-1")
        .header("x-model", "mock")
        .header("x-input-tokens", 123)
        .header("x-cache-affinity-key", "session-1")
        .header("x-priority", 7)
        .header("x-routing-key", "team-a")
        .header("x-request-slo-ms", 5000)
        .header("x-routing-method", "random")
        .header("x-max-wait-ms", 10)
        .header("x-stargate-max-wait-ms", 10)
        .header("x-stargate-attempt", 9)
        .header("x-stargate-expected-queue-ms", 9)
        .header("x-stargate-anything", 9);
    let response = gateway.client().send(&request).expect_ok();
    assert_eq!(response.header("x-request-id"), Some("request-1"));
    let headers = engine.only_request().head.headers;
    for (name, value) in [
        ("x-request-id", "request-1"),
        ("x-model", "mock"),
        ("x-input-tokens", "123"),
        ("x-cache-affinity-key", "session-1"),
        ("x-priority", "7"),
    ] {
        assert_eq!(headers.get(name), Some(value), "{headers:#?}");
    }
    for name in [
        "x-routing-key",
        "x-routing-method",
        "x-request-slo-ms",
        "x-max-wait-ms",
        "x-stargate-max-wait-ms",
        "x-stargate-attempt",
        "x-stargate-expected-queue-ms",
        "x-stargate-anything",
    ] {
        assert!(!headers.has(name), "{name}: {headers:#?}");
    }
}

#[test]
fn a_plain_client_needs_none_of_them() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&engine.url());
    let response = gateway.client().send(&Request::chat("mock")).expect_ok();
    let id = response.header("x-request-id").expect("an id").to_owned();
    // A UUID of version 7 (RFC 9562): 8-4-4-4-12 hexadecimal digits, version and variant in their places.
    let groups: Vec<usize> = id.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12], "{id}");
    assert!(id.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{id}");
    assert_eq!(id.as_bytes()[14], b'7', "{id}");
    assert!(b"89ab".contains(&id.as_bytes()[19]), "{id}");
    assert_eq!(response.header("x-inference-server-id"), Some("e1"));
    assert_eq!(response.header("x-stargate-cluster-id"), Some("e1"));
    let headers = engine.only_request().head.headers;
    assert_eq!(headers.get("x-request-id"), Some(id.as_str()), "one id everywhere");
    assert!(!headers.has("x-priority"), "only when given: {headers:#?}");
    let other = gateway.client().send(&Request::chat("mock")).expect_ok();
    assert_ne!(other.header("x-request-id"), Some(id.as_str()));
}

#[test]
fn an_engines_word_to_the_gateway_and_its_own_ids_do_not_reach_the_client() {
    let engine = RawEngine::start(|exchange| {
        exchange.respond(
            "200 OK",
            &[
                ("x-request-id", "engines-own"),
                ("x-inference-server-id", "engines-own"),
                ("x-stargate-cluster-id", "engines-own"),
                ("x-stargate-retryable", "false"),
                ("x-stargate-retry-reason", "none"),
                ("x-stargate-retry-after-ms", "1"),
            ],
            "{}",
        );
        Then::KeepOpen
    });
    let gateway = Gateway::before(&engine.url());
    let response = gateway.client().send(&Request::chat("mock").header("x-request-id", "r1")).expect_ok();
    // `header` fails on a repeated one.
    assert_eq!(response.header("x-request-id"), Some("r1"));
    assert_eq!(response.header("x-inference-server-id"), Some("e1"));
    assert_eq!(response.header("x-stargate-cluster-id"), Some("e1"));
    for name in ["x-stargate-retryable", "x-stargate-retry-reason", "x-stargate-retry-after-ms"] {
        assert!(!response.head.headers.has(name), "{name}");
    }
}

#[test]
fn each_header_that_is_added_can_be_turned_off() {
    let engine = RawEngine::plain();
    let added = [
        ("headers.response_request_id", "x-request-id"),
        ("headers.response_server_id", "x-inference-server-id"),
        ("headers.response_cluster_id", "x-stargate-cluster-id"),
    ];
    for (key, off) in added {
        let gateway = Gateway::builder().set(key, false).backend("e1", &engine.url()).start();
        let response = gateway.client().send(&Request::chat("mock")).expect_ok();
        for (_, name) in added {
            assert_eq!(response.head.headers.has(name), name != off, "{key} = false: {response:?}");
        }
    }
}

#[test]
fn malformed_values_are_400() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&engine.url());
    for (name, value) in [
        ("x-priority", "urgent"),
        ("x-priority", "-1"),
        ("x-priority", "1.5"),
        ("x-priority", "4294967296"),
        ("x-priority", ""),
        ("x-input-tokens", "many"),
        ("x-input-tokens", "1e3"),
        ("x-input-tokens", "+5"),
        ("x-input-tokens", "18446744073709551616"),
        ("x-max-wait-ms", "soon"),
        ("x-request-slo-ms", "fast"),
        ("x-stargate-max-wait-ms", "-5"),
    ] {
        let response = gateway.client().send(&Request::chat("mock").header(name, value));
        assert_eq!(response.status, 400, "{name}: {value:?}: {response:?}");
        response.expect_error(400, "invalid_header");
        let message = response.json()["error"]["message"].as_str().expect("a message").to_owned();
        assert!(message.contains(name), "{message:?} does not name {name}");
    }
    assert_eq!(engine.request_count(), 0);
    for (name, value) in
        [("x-priority", "0"), ("x-priority", "4294967295"), ("x-input-tokens", "18446744073709551615")]
    {
        let _ = gateway.client().send(&Request::chat("mock").header(name, value)).expect_ok();
    }
}

#[test]
fn what_an_untrusted_caller_sets_is_ignored_and_stripped() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().set("headers.trusted", false).backend("e1", &engine.url()).start();
    let request = Request::chat("mock")
        .header("x-request-id", "forged")
        .header("x-model", "other")
        .header("x-input-tokens", "not even a number")
        .header("x-cache-affinity-key", "forged")
        .header("x-priority", "not even a number")
        .header("x-routing-key", "other-team")
        .header("x-max-wait-ms", "forged");
    let response = gateway.client().send(&request).expect_ok();
    assert_ne!(response.header("x-request-id"), Some("forged"));
    let headers = engine.only_request().head.headers;
    assert!(
        !headers.iter().any(|(_, value)| value.contains("forged") || value.contains("other")),
        "{headers:#?}"
    );
    assert!(!headers.has("x-priority") && !headers.has("x-routing-key"), "{headers:#?}");
}

#[test]
fn strict_mode_wants_what_it_would_otherwise_derive() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().set("headers.mode", "\"strict\"").backend("e1", &engine.url()).start();
    let required = [("x-model", "mock"), ("x-request-id", "r1"), ("x-input-tokens", "10")];
    for (missing, _) in required {
        let mut request = Request::chat("mock");
        for (name, value) in required.iter().filter(|(name, _)| *name != missing) {
            request = request.header(name, value);
        }
        let response = gateway.client().send(&request);
        response.expect_error(400, "missing_header");
        assert!(response.json()["error"]["message"].as_str().expect("a message").contains(missing));
    }
    assert_eq!(engine.request_count(), 0);
    let mut request = Request::chat("mock");
    for (name, value) in required {
        request = request.header(name, value);
    }
    let _ = gateway.client().send(&request).expect_ok();
}

/// What the engine gets of two headers, for a backend that publishes stats or does not.
fn told_to_the_engine(publishes: bool, name: &str) -> Option<String> {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().start();
    gateway.register("e1", &engine.url());
    if publishes {
        let response = gateway.post_stats("e1", &json!({ "last_mean_input_tps": 1000.0, "queue_size": 0 }));
        assert_eq!(response.status, 204, "{response:?}");
        eventually("the report is in the snapshot", || {
            gateway.snapshot()["targets"][0]["clusters"][0]["backends"][0]["publishes_stats"] == true
        });
    }
    let forged =
        Request::chat("mock").header("x-stargate-expected-queue-ms", 777).header("x-stargate-attempt", 777);
    let _ = gateway.client().send(&forged).expect_ok();
    engine.only_request().head.headers.get(name).map(str::to_owned)
}

/// Only who publishes stats can make use of what the gateway expects of its queue.
#[test]
fn a_stats_publisher_is_told_what_was_expected_of_its_queue_and_nobody_else_is() {
    const NAME: &str = "x-stargate-expected-queue-ms";
    assert_eq!(
        told_to_the_engine(true, NAME).as_deref(),
        Some("0"),
        "an idle one is expected to start at once"
    );
    assert_eq!(told_to_the_engine(false, NAME), None);
}

#[test]
fn a_stats_publisher_is_told_which_attempt_it_is_and_nobody_else_is() {
    const NAME: &str = "x-stargate-attempt";
    let stamp = told_to_the_engine(true, NAME).expect("a stamp `<gateway>.<core>.<sequence>`");
    let parts: Vec<&str> = stamp.split('.').collect();
    let [gateway, core, sequence] = parts[..] else { panic!("{stamp}") };
    assert!(gateway.len() == 8 && u32::from_str_radix(gateway, 16).is_ok(), "{stamp}");
    assert!(core.parse::<u32>().is_ok() && sequence == "1", "the first attempt of its core: {stamp}");
    assert_eq!(told_to_the_engine(false, NAME), None);
}

/// The key that the engine gets: from the header, else the session id, else the body.
#[test]
fn the_affinity_key_is_taken_from_where_it_is_named_first() {
    let engine = Engine::start("e1");
    let gateway = Gateway::before(&engine.url());
    let key_of = |request: &Request| {
        let _ = gateway.client().send(request).expect_ok();
        let headers = engine.last_headers();
        headers
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("x-cache-affinity-key"))
            .map(|(_, key)| key)
    };
    let body = json!({ "model": "mock", "prompt_cache_key": "from-body", "messages": [] });
    let in_body = Request::post("/v1/chat/completions", &body);
    let in_session = in_body.clone().header("x-multi-turn-session-id", "from-session");
    let in_header = in_session.clone().header("x-cache-affinity-key", "from-header");
    assert_eq!(key_of(&in_header).as_deref(), Some("from-header"));
    assert_eq!(key_of(&in_session).as_deref(), Some("from-session"));
    assert_eq!(key_of(&in_body).as_deref(), Some("from-body"));
    assert_eq!(key_of(&Request::chat("mock")), None, "no key without a source: opt-in per model");
}
