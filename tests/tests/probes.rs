//! What load balancers and clients ask before they send work: `/healthz`, `/readyz`, `/v1/models` (docs/api.md).

use serde_json::{Value, json};
use stargate_tests::{Client, Engine, Gateway, RawEngine, Request, eventually};

fn model_ids(client: Client, target: &str) -> Vec<String> {
    let list = client.get(target).expect_ok().json();
    assert_eq!(list["object"], "list", "{list}");
    let models = list["data"].as_array().expect("a list of models");
    for model in models {
        assert_eq!(model["object"], "model", "{model}");
        assert!(model["created"].is_u64() && model["owned_by"].is_string(), "{model}");
    }
    models.iter().map(|model| model["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn healthz_speaks_of_the_process_and_readyz_of_its_backends() {
    let engine = Engine::start("e1");
    let gateway = Gateway::builder().start();
    for client in [gateway.client(), gateway.admin()] {
        let _ = client.get("/healthz").expect_ok();
        let response = client.get("/readyz");
        assert_eq!(response.status, 503, "{response:?}");
    }
    gateway.register("e1", &engine.url());
    for client in [gateway.client(), gateway.admin()] {
        eventually("it is ready", || client.get("/readyz").status == 200);
    }
    drop(engine);
    for client in [gateway.client(), gateway.admin()] {
        eventually("it is not ready any more", || client.get("/readyz").status == 503);
        let _ = client.get("/healthz").expect_ok();
    }
}

#[test]
fn models_are_listed_in_openais_shape_and_filtered() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder()
        .backend_for("e1", &engine.url(), &["a", "org/b:v1"])
        .backend_for("e2", &engine.url(), &["c", "a"])
        .start();
    let client = gateway.client();
    let mut all = model_ids(client, "/v1/models");
    all.sort();
    assert_eq!(all, ["a", "c", "org/b:v1"]);
    assert_eq!(model_ids(client, "/v1/models?model_ids=a"), ["a"]);
    let mut two = model_ids(client, "/v1/models?model_ids=c,a");
    two.sort();
    assert_eq!(two, ["a", "c"]);
    assert_eq!(model_ids(client, "/v1/models?model_ids=org%2Fb%3Av1"), ["org/b:v1"]);
    assert_eq!(model_ids(client, "/v1/models?model_ids=nothing"), Vec::<String>::new());
    client.get("/v1/models?model_ids=").expect_error(400, "invalid_request");
    assert_eq!(engine.request_count(), 0, "no engine is asked");
}

#[test]
fn a_model_without_an_active_backend_is_not_listed() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().start();
    gateway.register("e1", &engine.url());
    assert_eq!(model_ids(gateway.client(), "/v1/models"), ["mock"]);
    assert!((200..300).contains(&gateway.delete_backend("e1").status));
    gateway.wait_until_not_routable("e1");
    assert_eq!(model_ids(gateway.client(), "/v1/models"), Vec::<String>::new());
}

/// A scope is authenticated by whoever sets it: its models are nobody else's to see.
#[test]
fn models_of_a_scope_are_listed_to_that_scope() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().start();
    gateway.register("e1", &engine.url());
    gateway.register_with(
        "e2",
        &json!({ "url": engine.url(), "routing_key": "team-a", "lease_ms": 600_000, "models": { "secret": {} } }),
    );
    assert_eq!(model_ids(gateway.client(), "/v1/models"), ["mock"]);
    let scoped: Value = gateway
        .client()
        .send(&Request::get("/v1/models").header("x-routing-key", "team-a"))
        .expect_ok()
        .json();
    assert_eq!(scoped["data"][0]["id"], "secret", "{scoped}");
    assert_eq!(scoped["data"].as_array().expect("a list").len(), 1, "{scoped}");
}
