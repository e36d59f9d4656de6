//! Every endpoint under `/v1/` that names a model is passed on as it is (docs/api.md).

use serde_json::{Value, json};
use stargate_tests::{Engine, Gateway, RawEngine, Request};

/// Endpoints, each with a body that names the model.
fn requests() -> [(&'static str, Value); 6] {
    let messages = json!([{ "role": "user", "content": "hi" }]);
    [
        ("/v1/chat/completions", json!({ "model": "mock", "messages": messages })),
        ("/v1/completions", json!({ "model": "mock", "prompt": "hi" })),
        ("/v1/responses", json!({ "model": "mock", "input": "hi" })),
        ("/v1/messages", json!({ "model": "mock", "max_tokens": 5, "messages": messages })),
        ("/v1/embeddings", json!({ "model": "mock", "input": "hi" })),
        ("/v1/rerank", json!({ "model": "mock", "query": "hi", "documents": ["a", "b"] })),
    ]
}

#[test]
fn an_engines_endpoints_answer_through_the_gateway_as_they_do_directly() {
    let engine = Engine::start("e1");
    let gateway = Gateway::before(&engine.url());
    for (path, body) in requests() {
        let direct = engine.client().post(path, &body).expect_ok().json();
        let through = gateway.client().post(path, &body).expect_ok().json();
        // Ids, times and generated text differ from answer to answer; the shape does not.
        let keys =
            |answer: &Value| answer.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&through), keys(&direct), "{path}");
    }
    assert_eq!(engine.counter("requests_completed"), 12);
    gateway.wait_until_idle();
}

#[test]
fn path_and_query_arrive_unchanged() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&engine.url());
    let mut expected = Vec::new();
    for (path, body) in requests() {
        let target = format!("{path}?user=a%20b&beta=true&x=%2F..%2F");
        let _ = gateway.client().post(&target, &body).expect_ok();
        expected.push(target);
    }
    // Paths that nobody has thought of, with the model in the body or in the header.
    for target in ["/v1/audio/speech", "/v1/some/future//endpoint", "/v1/videos/%7Bid%7D"] {
        let _ = gateway.client().post(target, &json!({ "model": "mock" })).expect_ok();
        expected.push(target.to_owned());
    }
    for method in ["GET", "DELETE", "PATCH", "PUT", "OPTIONS"] {
        let target = format!("/v1/responses/resp_1?method={method}");
        let _ = gateway.client().send(&Request::new(method, &target).header("x-model", "mock")).expect_ok();
        expected.push(target);
    }
    let received: Vec<String> = engine.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(received, expected);
    let methods: Vec<String> = engine.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods[9..], ["GET", "DELETE", "PATCH", "PUT", "OPTIONS"]);
}

#[test]
fn a_backends_base_path_comes_before_the_requests() {
    let engine = RawEngine::plain();
    let gateway = Gateway::before(&format!("{}/engines/a/", engine.url()));
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    assert_eq!(engine.only_request().target, "/engines/a/v1/chat/completions");
}
