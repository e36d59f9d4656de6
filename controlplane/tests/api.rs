//! The admin API through its routes, without a process or a socket.

mod support;

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::future::join_all;
use serde_json::{Value, json};
use support::{Api, NO_HEALTH};

const A: &str = "/api/v1/backends/a";

fn body() -> Value {
    json!({
        "cluster_id": "c", "url": "http://127.0.0.1:1", "engine": "vllm",
        "models": { "m": { "status": "active", "stats": { "max_engine_concurrency": 8 } } }
    })
}

#[tokio::test]
async fn a_backend_lives_from_put_to_delete() {
    let api = Api::start(NO_HEALTH);
    assert_eq!(
        api.get("/readyz").await,
        (503, json!({ "status": "not_ready", "reason": "no_routable_backend" }))
    );
    let (status, backend) = api.put(A, body()).await;
    assert_eq!(status, 201);
    for (field, value) in [
        ("/id", json!("a")),
        ("/cluster_id", json!("c")),
        ("/engine", json!("vllm")),
        ("/origin", json!("registered")),
        ("/lease_ms", json!(15_000)),
        ("/address", json!("127.0.0.1:1")),
        ("/publishes_stats", json!(false)),
        ("/health/condition", json!("healthy")),
        ("/models/m/status", json!("active")),
        ("/models/m/is_active", json!(true)),
        ("/models/m/stats", json!({ "max_engine_concurrency": 8 })),
        ("/models/m/input_tps/source", json!("assumed")),
    ] {
        assert_eq!(backend.pointer(field), Some(&value), "{field} of {backend}");
    }
    // The answer comes when the data plane knows.
    assert!(api.plane.snapshot().load().target(None, "m").is_some());
    assert_eq!(api.get("/readyz").await, (200, json!({ "status": "ready" })));
    assert_eq!(api.put(A, body()).await.0, 200);
    assert_eq!(api.get("/api/v1/backends").await.1["backends"][0]["id"], "a");
    assert_eq!(api.get(A).await.0, 200);

    assert_eq!(api.call("DELETE", A, &Value::Null).await, (204, Value::Null));
    assert!(api.plane.snapshot().load().target(None, "m").is_none());
    assert_eq!(api.call("DELETE", A, &Value::Null).await.0, 404);
    let (status, error) = api.get(A).await;
    assert_eq!((status, &error["error"]["code"]), (404, &json!("backend_not_found")));
}

#[tokio::test]
async fn the_snapshot_and_the_clusters_show_reported_in_flight_and_effective_load() {
    let api = Api::start(&format!("{NO_HEALTH}[routing.models.m]\nalgorithm = 'pulsar'\nseed = 7"));
    api.put(A, body()).await;
    let stats = json!({ "models": { "m": { "num_running_queries": 1, "queue_time_estimate_ms_by_priority": { "0": 12.5 } } } });
    assert_eq!(api.post(&format!("{A}/stats"), stats).await, (204, Value::Null));
    let load = api.plane.snapshot().load().target(None, "m").unwrap().clusters[0].load.clone();
    let running: Vec<_> = (0..3).map(|_| load.enter(stargate_routing::Tokens(10))).collect();

    let (_, snapshot) = api.get("/api/v1/snapshot").await;
    let target = &snapshot["targets"][0];
    assert_eq!(target["model"], "m");
    assert_eq!(target["method"]["algorithm"], "pulsar");
    assert_eq!(target["method"]["seed"], "7");
    let cluster = &target["clusters"][0];
    assert_eq!(cluster["cluster_id"], "c");
    assert_eq!(cluster["reported"]["num_running_queries"], 1);
    assert_eq!(cluster["reported"]["queue_time_estimate_ms_by_priority"], json!({ "0": 12.5 }));
    assert_eq!(cluster["in_flight"], json!({ "running": 3, "queued": 3, "queued_input_tokens": 30 }));
    assert_eq!(
        cluster["effective"],
        json!({
            "queue_size": 3, "num_running_queries": 3, "queued_input_size": 30, "total_query_input_size": 0,
            "queue_time_estimate_ms_by_priority": { "0": 12.5 }
        })
    );
    assert_eq!(cluster["backends"][0]["backend_id"], "a");
    assert_eq!(cluster["backends"][0]["publishes_stats"], true);

    let mut inactive = body();
    inactive["models"]["m"]["status"] = json!("inactive");
    inactive["url"] = json!("http://127.0.0.1:2");
    api.put("/api/v1/backends/b", inactive).await;
    let (_, clusters) = api.get("/api/v1/clusters").await;
    let entry = &clusters["clusters"][0];
    assert_eq!((&entry["cluster_id"], &entry["is_routable"]), (&json!("c"), &json!(true)));
    assert_eq!(
        entry["members"],
        json!([{ "backend_id": "a", "is_active": true }, { "backend_id": "b", "is_active": false }])
    );
    assert_eq!(entry["current"]["in_flight"]["running"], 3);
    drop(running);
}

#[tokio::test]
async fn what_is_wrong_is_answered_with_its_path_and_changes_nothing() {
    let api = Api::start(NO_HEALTH);
    api.put(A, body()).await;
    let stats = |stats: &str| format!(r#"{{"models":{{"m":{stats}}}}}"#);
    let good = stats(r#"{"queue_size":5}"#);
    assert_eq!(api.raw("POST", &format!("{A}/stats"), good).await.0, StatusCode::NO_CONTENT);
    let version = api.plane.snapshot().load().version;
    for (body, status, param) in [
        (stats(r#"{"queue_size":-1}"#), 422, "models.m.queue_size"),
        (stats(r#"{"queue_size":1.5}"#), 422, "models.m.queue_size"),
        (stats(r#"{"queue_size":"5"}"#), 422, "models.m.queue_size"),
        (stats(r#"{"queue_size":99999999999}"#), 422, "models.m.queue_size"),
        (stats(r#"{"output_tps":NaN}"#), 422, "models.m.output_tps"),
        (stats("{\"output_tps\":\n  -Infinity}"), 422, "models.m.output_tps"),
        (stats(r#"{"output_tps":1e999}"#), 422, "models.m.output_tps"),
        (stats(r#"{"output_tps":-0.1}"#), 422, "models.m.output_tps"),
        (stats(r#"{"output_tps":1e13}"#), 422, "models.m.output_tps"),
        (stats(r#"{"queue_len":1}"#), 422, "models.m.queue_len"),
        (
            stats(r#"{"queue_time_estimate_ms_by_priority":{"x":1}}"#),
            422,
            "models.m.queue_time_estimate_ms_by_priority",
        ),
        (
            stats(r#"{"queue_time_estimate_ms_by_priority":{"1":-1}}"#),
            422,
            "models.m.queue_time_estimate_ms_by_priority.1",
        ),
        (stats(r#"{"stats_sources":"x"}"#), 422, "models.m.stats_sources"),
        (stats(r#"{"attempts":[]}"#), 422, "models.m.attempts"),
        (stats(r#"{"attempts":{"7":{}}}"#), 422, "models.m.attempts.7"),
        (stats(r#"{"attempts":{"00000007":{"x":{"through":1}}}}"#), 422, "models.m.attempts.00000007.x"),
        (stats(r#"{"attempts":{"00000007":{"0":{}}}}"#), 422, "models.m.attempts.00000007.0"),
        (
            stats(r#"{"attempts":{"00000007":{"0":{"through":-1}}}}"#),
            422,
            "models.m.attempts.00000007.0.through",
        ),
        (
            stats(r#"{"attempts":{"00000007":{"0":{"through":1,"up_to":1}}}}"#),
            422,
            "models.m.attempts.00000007.0.up_to",
        ),
        (
            stats(r#"{"attempts":{"00000007":{"0":{"through":1,"except":[1]}}}}"#),
            422,
            "models.m.attempts.00000007.0",
        ),
        (
            stats(r#"{"attempts":{"00000007":{"0":{"through":9,"except":[2,1]}}}}"#),
            422,
            "models.m.attempts.00000007.0.except",
        ),
        (r#"{"models":{"x.y":{}}}"#.into(), 422, r#"models."x.y""#),
        (r#"{"models":{},"more":1}"#.into(), 422, "more"),
        (r#"{"models":{"m":{"#.into(), 400, "models.m"),
        ("[]".into(), 422, ""),
    ] {
        let (found, text) = api.raw("POST", &format!("{A}/stats"), body.clone()).await;
        let error: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found.as_u16(), status, "{body}: {text}");
        let found = error["error"]["param"].as_str().unwrap_or("");
        assert!(found.starts_with(param), "{body}: {param} is not in {text}");
        for field in ["message", "type", "code"] {
            assert!(error["error"][field].is_string(), "{text}");
        }
    }
    assert_eq!(api.get(A).await.1["models"]["m"]["stats"], json!({ "queue_size": 5 }));
    assert_eq!(api.plane.snapshot().load().version, version);

    for (field, value) in [
        ("url", json!("https://x")),
        ("url", json!(null)),
        ("cluster_id", json!("a b")),
        ("routing_key", json!("a b")),
        ("engine", json!("gpt")),
        ("lease_ms", json!(1)),
        ("models", json!({})),
        ("colour", json!("red")),
    ] {
        let mut changed = body();
        changed[field] = value;
        let (status, error) = api.put("/api/v1/backends/new", changed).await;
        assert_eq!((status, &error["error"]["param"]), (422, &json!(field)), "{error}");
    }
    for id in ["a%20b", "%FF", "a%2Fb", &"x".repeat(129)] {
        let (status, error) = api.put(&format!("/api/v1/backends/{id}"), body()).await;
        assert_eq!((status, &error["error"]["param"]), (422, &json!("id")), "{id}: {error}");
    }
    assert_eq!(api.get("/api/v1/backends").await.1["backends"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn conflicts_and_limits_are_told_apart() {
    let api = Api::start(&format!(
        "{NO_HEALTH}[registration]\nmax_backends = 2\nmax_body_bytes = 2000\n\
         [[backends]]\nid = 's'\nurl = 'http://127.0.0.1:1'\nmodels = ['m']"
    ));
    let code = |answer: (u16, Value)| (answer.0, answer.1["error"]["code"].as_str().unwrap().to_owned());
    api.put(A, body()).await;
    let mut moved = body();
    moved["url"] = json!("http://127.0.0.1:2");
    let answer = api.put(A, moved).await;
    assert_eq!(answer.1["error"]["param"], "url");
    assert_eq!(code(answer), (409, "identity_changed".into()));
    assert_eq!(code(api.put("/api/v1/backends/s", body()).await), (409, "static_backend".into()));
    let answer = api.call("DELETE", "/api/v1/backends/s", &Value::Null).await;
    assert_eq!(code(answer), (409, "static_backend".into()));
    assert_eq!(code(api.put("/api/v1/backends/b", body()).await), (503, "too_many_backends".into()));
    let answer = api.post("/api/v1/backends/b/stats", json!({ "models": {} })).await;
    assert_eq!(code(answer), (404, "backend_not_found".into()));
    let (status, text) = api.raw("PUT", A, " ".repeat(2001)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(text.contains("2000 bytes") && text.contains("payload_too_large"), "{text}");
    assert_eq!(code(api.get("/api/v2/backends").await), (404, "not_found".into()));
    assert_eq!(code(api.post(A, json!({})).await), (405, "method_not_allowed".into()));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_runs_out_removes_the_backend() {
    let api = Api::start(NO_HEALTH);
    let mut leased = body();
    leased["lease_ms"] = json!(500);
    api.put(A, leased).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(api.post(&format!("{A}/stats"), json!({ "models": {} })).await.0, 204);
    }
    assert!(api.plane.snapshot().load().is_routable());
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(api.get(A).await.0, 404);
    assert!(!api.plane.snapshot().load().is_routable());
    let (_, metrics) = api.raw("GET", "/metrics", "").await;
    assert!(metrics.contains("stargate_registrations_expired_total 1\n"), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn changes_at_the_same_time_become_one_snapshot() {
    let api = Api::start(NO_HEALTH);
    api.put(A, body()).await;
    let version = api.plane.snapshot().load().version;
    let answers = join_all((0..100u32).map(|port| {
        let mut other = body();
        other["url"] = json!(format!("http://127.0.0.1:{}", port + 2));
        let (api, path) = (&api, format!("/api/v1/backends/b{port}"));
        async move { api.put(&path, other).await.0 }
    }))
    .await;
    assert!(answers.iter().all(|status| *status == 201), "{answers:?}");
    let snapshot = api.plane.snapshot().load();
    assert_eq!(snapshot.target(None, "m").unwrap().clusters[0].backends.len(), 101);
    assert!(snapshot.version <= version + 2, "{} snapshots", snapshot.version - version);
}

#[tokio::test]
async fn probes_tell_life_from_readiness() {
    let api = Api::start(NO_HEALTH);
    api.put(A, body()).await;
    assert_eq!(api.get("/readyz").await.0, 200);
    api.plane.stop();
    assert_eq!(api.get("/readyz").await, (503, json!({ "status": "not_ready", "reason": "shutting_down" })));
    assert_eq!(api.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn metrics_are_prometheus_text_with_the_configured_prefix() {
    let api = Api::start(&format!("{NO_HEALTH}[metrics]\nprefix = 'gw_'"));
    api.put(A, body()).await;
    let (status, text) = api.raw("GET", "/metrics", "").await;
    assert_eq!(status, StatusCode::OK);
    for line in [
        "# TYPE gw_active_inference_servers gauge",
        r#"gw_active_inference_servers{model="m",routing_key=""} 1"#,
        r#"gw_backends{health="healthy"} 1"#,
        "# TYPE gw_registrations_expired_total counter",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
    }
    assert!(text.lines().all(|line| line.starts_with('#') || line.starts_with("gw_")), "{text}");
}
