//! What a client is told when its request cannot be served, and what an operator finds in the log
//! (docs/api.md).

use serde_json::json;
use stargate_tests::{Gateway, RawEngine, Request, Then, eventually};

#[test]
fn an_unknown_model_is_404_and_is_named() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&engine.url());
    for request in [Request::chat("gpt-99"), Request::chat("mock").header("x-model", "gpt-99")] {
        let response = gateway.client().send(&request);
        response.expect_error(404, "no_eligible_candidates");
        assert!(response.json()["error"]["message"].as_str().expect("a message").contains("gpt-99"));
    }
    assert_eq!(engine.request_count(), 0);
}

#[test]
fn a_request_without_a_model_is_400() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&engine.url());
    for body in [
        r#"{"messages":[]}"#,
        r#"{"messages":[],"model":""}"#,
        r#"{"messages":[],"metadata":{"model":"mock"}}"#,
        "{}",
        "",
    ] {
        let request = Request::new("POST", "/v1/chat/completions").body(body);
        let response = gateway.client().send(&request);
        response.expect_error(400, "missing_model");
    }
    assert_eq!(engine.request_count(), 0);
}

#[test]
fn a_body_that_names_no_model_because_it_is_no_json_is_400() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&engine.url());
    for body in [
        "not json",
        "{\"model\":",
        "{\"model\":\"mock\"",
        "[\"model\",\"mock\"]",
        "{\"model\":5}",
        "\"mock\"",
    ] {
        let request = Request::new("POST", "/v1/chat/completions").body(body);
        let response = gateway.client().send(&request);
        assert_eq!(response.status, 400, "{body:?}: {response:?}");
        let code = response.header("x-stargate-error-code").expect("a code");
        assert!(["missing_model", "invalid_request"].contains(&code), "{body:?}: {response:?}");
    }
    assert_eq!(engine.request_count(), 0);
}

#[test]
fn every_error_carries_the_requests_id() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&engine.url());
    for (number, request) in [
        Request::chat("gpt-99"),
        Request::new("POST", "/v1/chat/completions").body("{}"),
        Request::chat("mock").header("x-priority", "high"),
        Request::get("/v1/chat/nowhere"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("failing-{number}");
        let response = gateway.client().send(&request.header("x-request-id", &id));
        assert!(response.status >= 400, "{response:?}");
        assert_eq!(response.header("x-request-id"), Some(id.as_str()), "{response:?}");
    }
}

#[test]
fn every_failure_leaves_one_line_in_the_log() {
    let engine = RawEngine::start(|_| Then::Close);
    let gateway = Gateway::before(&engine.url());
    let failures = [
        ("log-404", Request::chat("gpt-99"), "no_eligible_candidates"),
        ("log-400", Request::new("POST", "/v1/chat/completions").body("{}"), "missing_model"),
        ("log-502", Request::chat("mock"), "upstream_reset"),
    ];
    for (id, request, code) in &failures {
        let response = gateway.client().send(&request.clone().header("x-request-id", id));
        assert_eq!(response.header("x-stargate-error-code"), Some(*code));
    }
    eventually("all are logged", || {
        let log = gateway.process().log();
        failures.iter().all(|(id, _, code)| {
            let lines: Vec<&str> = log.lines().filter(|line| line.contains(id)).collect();
            assert!(lines.len() <= 1, "{lines:?}");
            lines.first().is_some_and(|line| line.contains(code))
        })
    });
}

/// Secrets travel in headers, queries and bodies.
#[test]
fn the_log_holds_no_secrets() {
    let engine = RawEngine::start(|_| Then::Close);
    let gateway = Gateway::before(&engine.url());
    let body = json!({ "model": "mock", "messages": [{ "role": "user", "content": "hush-body" }] });
    let request = Request::post("/v1/chat/completions?key=hush-query", &body)
        .header("authorization", "Bearer hush-header")
        .header("x-request-id", "whisper");
    assert_eq!(gateway.client().send(&request).status, 502);
    eventually("the failure is logged", || gateway.process().log().contains("whisper"));
    assert!(!gateway.process().log().contains("hush-"), "{}", gateway.process().log());
}

/// A header value must not be able to write a line of its own.
#[test]
fn an_id_that_is_no_id_is_refused_or_made_harmless() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&engine.url());
    for id in ["x".repeat(5000), "a b\tc".to_owned(), String::new(), "\u{e4}\u{f6}".to_owned()] {
        let response = gateway.client().send(&Request::chat("mock").header("x-request-id", &id));
        match response.status {
            200 => assert!(response.header("x-request-id").is_some_and(|id| !id.is_empty()), "{response:?}"),
            400 => response.expect_error(400, "invalid_header"),
            _ => panic!("{id:?}: {response:?}"),
        }
    }
}

#[test]
fn nothing_to_connect_to_is_503_with_retry_after() {
    let gateway = Gateway::builder().backend("dead", "http://127.0.0.1:9").start_without_waiting();
    let response = gateway.client().send(&Request::chat("mock"));
    response.expect_error(503, "no_active_backend");
    assert!(response.header("retry-after").is_some_and(|value| value.parse::<u32>().is_ok()), "{response:?}");
}

#[test]
fn an_engines_own_error_is_passed_on_as_it_is() {
    let engine = RawEngine::start(|exchange| {
        exchange.respond(
            "422 Unprocessable Entity",
            &[("content-type", "application/json")],
            r#"{"detail":"engine"}"#,
        );
        Then::KeepOpen
    });
    let gateway = Gateway::before(&engine.url());
    let response = gateway.client().send(&Request::chat("mock"));
    assert_eq!(response.status, 422);
    assert_eq!(response.head.start_line, "HTTP/1.1 422 Unprocessable Entity");
    assert_eq!(response.body.complete(), br#"{"detail":"engine"}"#);
    assert_eq!(response.header("x-stargate-error-code"), None);
    assert_eq!(response.header("x-inference-server-id"), Some("e1"));
}
