//! The routing configuration through the admin API: read, checked, replaced, refused, rolled back, kept.

mod support;

use std::{env, fs, path::PathBuf};

use axum::{
    body::{Body, to_bytes},
    http::{HeaderMap, Request},
};
use serde_json::{Value, json};
use stargate_controlplane::{ControlPlane, api, config::Config};
use support::{Api, NO_HEALTH};
use tower::ServiceExt;

const ROUTING: &str = "/api/v1/config/routing";

/// A call with headers; status, headers and body of the answer.
async fn call(
    api: &Api,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> (u16, HeaderMap, Value) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(body.into()).unwrap();
    let response = api::router(api.plane.clone()).oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (parts.status.as_u16(), parts.headers, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

async fn serve_model(api: &Api) {
    let body = json!({ "url": "http://127.0.0.1:1", "models": { "m": {} } });
    assert_eq!(api.put("/api/v1/backends/a", body).await.0, 201);
}

fn method_of(api: &Api, model: &str) -> &'static str {
    let snapshot = api.plane.snapshot().load();
    snapshot.target(None, model).unwrap().policy.method.algorithm.kind().as_str()
}

#[tokio::test]
async fn what_is_put_is_in_the_snapshot_when_it_is_answered() {
    let api = Api::start(NO_HEALTH);
    serve_model(&api).await;
    assert_eq!(method_of(&api, "m"), "power-of-n");
    let (status, headers, document) = call(&api, "GET", ROUTING, &[], Body::empty()).await;
    assert_eq!((status, &headers["etag"]), (200, &"\"1\"".parse().unwrap()));
    assert_eq!(document["default"]["sample_count"], 2);

    let change = json!({ "default": "random", "models": { "x": { "algorithm": "pulsar", "seed": 7 } } });
    let (status, headers, applied) = call(&api, "PUT", ROUTING, &[], change.to_string()).await;
    assert_eq!((status, &headers["etag"]), (200, &"\"2\"".parse().unwrap()), "{applied}");
    assert_eq!(applied["changed_models"], json!(["m", "x"]));
    assert_eq!(applied["is_default_changed"], true);
    assert_eq!(method_of(&api, "m"), "random");
    let (_, document) = api.get(ROUTING).await;
    assert_eq!(document["models"]["x"]["seed"], "7");

    // What is read can be put again, and changes nothing.
    let (status, again) = api.put(ROUTING, document).await;
    assert_eq!((status, &again["version"], &again["is_changed"]), (200, &json!(2), &json!(false)));
    let (_, metrics) = api.raw("GET", "/metrics", "").await;
    for line in [
        "stargate_routing_config_version 2",
        "stargate_routing_config_changes_total{result=\"applied\"} 1",
        "stargate_routing_config_changes_total{result=\"unchanged\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in:\n{metrics}");
    }
}

#[tokio::test]
async fn toml_is_taken_where_the_content_type_says_so() {
    let api = Api::start(NO_HEALTH);
    serve_model(&api).await;
    let toml = [("content-type", "application/toml; charset=utf-8")];
    let text = "[models.m]\nalgorithm = 'pulsar'\nseed = 7\n";
    assert_eq!(call(&api, "PUT", ROUTING, &toml, text).await.0, 200);
    assert_eq!(method_of(&api, "m"), "pulsar");
    let (status, _, error) = call(&api, "PUT", ROUTING, &toml, "[models").await;
    assert_eq!((status, &error["error"]["code"]), (400, &json!("invalid_toml")));
}

#[tokio::test]
async fn what_is_wrong_is_named_by_its_path_and_nothing_is_applied() {
    let api = Api::start(NO_HEALTH);
    serve_model(&api).await;
    for (body, status, param, words) in [
        (
            r#"{"default":"random","models":{"a.b":{"algorithm":"wait-and-widen","next_bucket_unlock_factor":-1}}}"#,
            422,
            r#"models."a.b".next_bucket_unlock_factor"#,
            "found -1, allowed: a finite number from 0",
        ),
        (r#"{"default":"random","defaults":1}"#, 422, "defaults", "`models`"),
        (r#"{"default":{"algorithm":"pulsar","n":1e999}}"#, 422, "default.n", "not a finite number"),
        (r#"{"default":"#, 400, "default", "EOF"),
        ("[]", 422, "", "a routing document"),
    ] {
        let (status_found, _, error) = call(&api, "PUT", ROUTING, &[], body).await;
        let error = &error["error"];
        assert_eq!(status_found, status, "{error}");
        assert_eq!(error["param"].as_str().unwrap_or(""), param, "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        assert_eq!(method_of(&api, "m"), "power-of-n");
    }
    let path = format!("{ROUTING}?dry_runs=true");
    assert_eq!(call(&api, "PUT", &path, &[], "{}").await.0, 422);
    assert_eq!(api.plane.routing().current().number, 1);
}

#[tokio::test]
async fn a_dry_run_answers_the_same_and_changes_nothing() {
    let api = Api::start(NO_HEALTH);
    serve_model(&api).await;
    let path = format!("{ROUTING}?dry_run=true");
    let (status, headers, applied) =
        call(&api, "PUT", &path, &[], r#"{"default":"pulsar-wait-and-widen"}"#).await;
    assert_eq!((status, &headers["etag"]), (200, &"\"1\"".parse().unwrap()));
    assert_eq!((&applied["dry_run"], &applied["changed_models"]), (&json!(true), &json!(["m"])));
    assert!(applied["warnings"].to_string().contains("a full primary never overflows"), "{applied}");
    assert_eq!(call(&api, "PUT", &path, &[], r#"{"default":"best"}"#).await.0, 422);
    assert_eq!((method_of(&api, "m"), api.plane.routing().current().number), ("power-of-n", 1));
}

#[tokio::test]
async fn of_two_changes_to_one_version_the_second_is_refused() {
    let api = Api::start(NO_HEALTH);
    let put = async |tag: &str, algorithm: &str| {
        let body = json!({ "default": algorithm }).to_string();
        call(&api, "PUT", ROUTING, &[("if-match", tag)], body).await
    };
    assert_eq!(put("\"1\"", "random").await.0, 200);
    let (status, _, error) = put("\"1\"", "pulsar").await;
    assert_eq!((status, &error["error"]["code"]), (412, &json!("version_conflict")));
    assert!(error["error"]["message"].as_str().unwrap().contains("version 2 is in force, not 1"), "{error}");
    assert_eq!(put("*", "pulsar").await.0, 200);
    assert_eq!(put("W/\"7\", \"3\"", "random").await.0, 200);
    assert_eq!(put("three", "random").await.0, 400);
}

#[tokio::test]
async fn history_shows_what_was_and_leads_back() {
    let api = Api::start(NO_HEALTH);
    serve_model(&api).await;
    let rollback = format!("{ROUTING}/rollback");
    assert_eq!(call(&api, "POST", &rollback, &[], Body::empty()).await.0, 409);
    for algorithm in ["random", "pulsar"] {
        assert_eq!(api.put(ROUTING, json!({ "default": algorithm })).await.0, 200);
    }
    let (status, applied) = api.post(&rollback, json!({ "version": 1 })).await;
    assert_eq!((status, &applied["version"]), (200, &json!(4)), "{applied}");
    assert_eq!(method_of(&api, "m"), "power-of-n");
    assert_eq!(call(&api, "POST", &rollback, &[], Body::empty()).await.0, 200);
    assert_eq!(method_of(&api, "m"), "pulsar");
    let (status, error) = api.post(&rollback, json!({ "version": 99 })).await;
    assert_eq!((status, &error["error"]["param"]), (404, &json!("version")));

    let (_, history) = api.get(&format!("{ROUTING}/history")).await;
    let versions = history["versions"].as_array().unwrap();
    let numbers: Vec<u64> = versions.iter().map(|version| version["version"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [5, 4, 3, 2, 1]);
    assert_eq!(versions[0]["source"], json!({ "rollback": 3 }));
    assert_eq!((&versions[4]["source"], &versions[4]["is_active"]), (&json!("file"), &json!(false)));
    assert_eq!(versions[2]["document"]["default"]["algorithm"], "pulsar");
}

#[tokio::test]
async fn a_restart_goes_on_with_what_was_put() {
    let directory = env::temp_dir().join(format!("stargate-routing-config-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    let config = format!("{NO_HEALTH}[admin]\nstate_dir = {directory:?}\n");
    let api = Api::start(&config);
    assert_eq!(api.put(ROUTING, json!({ "default": "pulsar" })).await.0, 200);
    let api = Api::start(&config);
    serve_model(&api).await;
    assert_eq!((method_of(&api, "m"), api.plane.routing().current().number), ("pulsar", 2));
    let names: Vec<PathBuf> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names, [directory.join("routing.json")], "no draft is left");

    // What cannot be kept is not applied.
    fs::remove_dir_all(&directory).unwrap();
    fs::write(&directory, "a file in its place").unwrap();
    let (status, error) = api.put(ROUTING, json!({ "default": "random" })).await;
    assert_eq!((status, &error["error"]["code"]), (500, &json!("state_not_written")));
    assert_eq!(method_of(&api, "m"), "pulsar");
    let config: Config = toml::from_str(&config).unwrap();
    assert!(ControlPlane::new(config).err().unwrap().to_string().contains("routing.json"));
    fs::remove_file(&directory).unwrap();
}
