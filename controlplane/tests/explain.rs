//! `POST /api/v1/explain`: the decision that a request would meet, and why of every cluster.

mod support;

use serde_json::{Value, json};
use support::{Api, NO_HEALTH};

const CLUSTERS: [&str; 4] = ["a", "b", "c", "d"];

/// Four clusters of one backend and two slots each.
async fn fleet(routing: &str) -> Api {
    let api = Api::start(&format!("{NO_HEALTH}{routing}"));
    for id in CLUSTERS {
        let stats = json!({
            "last_mean_input_tps": 1000.0, "max_input_tps": 1000.0, "max_engine_concurrency": 2,
            "num_running_queries": 0, "queued_input_size": 0
        });
        let body =
            json!({ "url": format!("http://127.0.0.1:9/{id}"), "models": { "m": { "stats": stats } } });
        assert_eq!(api.put(&format!("/api/v1/backends/{id}"), body).await.0, 201);
    }
    api
}

async fn report(api: &Api, id: &str, running: u64) {
    let stats = json!({
        "last_mean_input_tps": 1000.0, "max_engine_concurrency": 2, "num_running_queries": running,
        "queued_input_size": running * 1000
    });
    let body = json!({ "models": { "m": stats } });
    assert_eq!(api.post(&format!("/api/v1/backends/{id}/stats"), body).await.0, 204);
}

async fn explain(api: &Api, question: Value) -> Value {
    let (status, answer) = api.post("/api/v1/explain", question).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

fn row<'a>(answer: &'a Value, cluster: &str) -> &'a Value {
    let rows = answer["clusters"].as_array().unwrap();
    rows.iter().find(|row| row["cluster_id"] == cluster).unwrap()
}

/// The clusters in the order of the key's ranking.
fn ranked(answer: &Value) -> Vec<String> {
    let mut rows: Vec<_> = answer["clusters"].as_array().unwrap().clone();
    rows.sort_by_key(|row| row["rank"].as_u64().unwrap());
    rows.iter().map(|row| row["cluster_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_full_primary_is_held_for_then_overflows_and_every_row_says_why() {
    let api = fleet(
        "[routing.models.m]\nalgorithm = 'pulsar-wait-and-widen'\nprimary_admission = 'capacity'\n\
         cache_affinity_wait_ms = 100\nband_widen_interval_ms = 50\nnext_bucket_unlock_factor = 0",
    )
    .await;
    let headers = json!({ "x-model": "m", "x-cache-affinity-key": "session-1", "x-input-tokens": "100" });
    let free = explain(&api, json!({ "headers": headers })).await;
    let order = ranked(&free);
    let primary = &order[0];
    assert_eq!(free["decision"]["selected"]["cluster_id"], json!(primary));
    assert_eq!(free["decision"]["selected"]["rank"], 1);
    assert_eq!(row(&free, primary)["verdict"], "chosen");
    assert_eq!(free["request"]["input_tokens_are_estimated"], false);
    assert_eq!(free["method"]["primary_admission"], "capacity");

    report(&api, primary, 2).await;
    let held = explain(&api, json!({ "headers": headers, "elapsed_ms": 40 })).await;
    assert_eq!(held["decision"], json!({ "wait": { "until_ms": 100.0, "reason": "affinity" } }));
    let full = row(&held, primary);
    assert_eq!((&full["verdict"], &full["rank"]), (&json!("full"), &json!(1)));
    assert_eq!(full["in_group"]["has_capacity"], false);
    assert_eq!(full["queue_delay_ms"], 2000.0);
    // k = 1: ranks 2 and 3 open with the first band, rank 4 with the second.
    for (rank, band, opens_at_ms) in [(2, 1, 100.0), (3, 1, 100.0), (4, 2, 150.0)] {
        let other = row(&held, &order[rank - 1]);
        assert_eq!(other["band"], json!({ "number": band, "opens_at_ms": opens_at_ms }), "rank {rank}");
        assert_eq!(other["ttft_ms"], 100.0);
    }

    let overflown = explain(&api, json!({ "headers": headers, "elapsed_ms": 100 })).await;
    let selected = &overflown["decision"]["selected"];
    assert_eq!(selected["is_fallback"], true);
    assert!([json!(order[1]), json!(order[2])].contains(&selected["cluster_id"]), "{selected}");
    assert_eq!(row(&overflown, &order[3])["verdict"], "band_locked");

    let failed = explain(&api, json!({ "headers": headers, "excluded": CLUSTERS })).await;
    assert_eq!(failed["decision"]["unavailable"]["reason"], "all_excluded");
    assert!(CLUSTERS.iter().all(|id| row(&failed, id)["verdict"] == "excluded"));
}

#[tokio::test]
async fn explaining_leaves_no_trace() {
    let api = fleet("[routing]\ndefault = 'round-robin'").await;
    let question = json!({ "headers": { "x-model": "m" } });
    let first = explain(&api, question.clone()).await;
    for _ in 0..3 {
        let next = explain(&api, question.clone()).await;
        assert_eq!(next["decision"], first["decision"], "no turn was taken");
    }
    let (_, clusters) = api.get("/api/v1/clusters").await;
    for cluster in clusters["clusters"].as_array().unwrap() {
        assert_eq!(cluster["current"]["in_flight"]["running"], 0);
    }
}

#[tokio::test]
async fn a_request_may_choose_its_method_and_its_body_counts() {
    let api = fleet("[routing.request_algorithms.pulsar]\nalgorithm = 'pulsar'").await;
    let body = json!({ "model": "m", "prompt_cache_key": "k", "messages": [{ "role": "user", "content": "12345678" }] });
    let headers = json!({ "x-routing-method": "pulsar;seed=blue" });
    let answer = explain(&api, json!({ "headers": headers, "body": body })).await;
    assert_eq!(
        (&answer["method"]["algorithm"], &answer["method"]["seed"]),
        (&json!("pulsar"), &json!("blue"))
    );
    assert_eq!(
        (&answer["request"]["affinity_key"], &answer["request"]["input_tokens"]),
        (&json!("k"), &json!(2))
    );
    assert!(answer["request"]["slot"].is_u64());
}

#[tokio::test]
async fn a_queue_too_shallow_for_the_reports_is_noted() {
    let api = fleet("[routing.models.m]\nalgorithm = 'wait-and-widen'\nmax_queued = 1").await;
    let question = json!({ "headers": { "x-model": "m" } });
    assert_eq!(explain(&api, question.clone()).await["notes"], json!([]));
    let id = stargate_controlplane::names::BackendId::new("a").unwrap();
    let uid = api.plane.registry().get(&id).unwrap().backend_uid();
    for _ in 0..40 {
        let sample = stargate_controlplane::learn::Sample {
            input: stargate_routing::Tokens(1),
            first_byte: std::time::Duration::from_millis(1),
        };
        for _ in 0..3 {
            api.plane.registry().measured(uid, "m", sample, tokio::time::Instant::now());
        }
        report(&api, "a", 0).await;
    }
    let notes = explain(&api, question).await["notes"].clone();
    let note = notes[0].as_str().unwrap();
    assert!(note.starts_with("backend a reports every ") && note.contains("max_queued = 1"), "{note}");
    assert_eq!(notes.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_question_that_cannot_be_answered_says_why() {
    let api = fleet("").await;
    for (question, status, code, param) in [
        (json!({ "headers": {} }), 400, "missing_model", "headers"),
        (json!({ "headers": { "x-model": "other" } }), 404, "no_eligible_candidates", "headers"),
        (json!({ "headers": { "x-model": "m", "x-priority": "high" } }), 400, "invalid_header", "headers"),
        (
            json!({ "headers": { "x-model": "m", "x-routing-method": "fastest" } }),
            400,
            "invalid_routing_method",
            "headers",
        ),
        (json!({ "headers": { "x-model": "m" }, "excluded": ["z"] }), 422, "invalid_value", "excluded[0]"),
        (json!({ "headers": { "x-model": 7 } }), 422, "invalid_value", "headers.x-model"),
        (json!({ "header": {} }), 422, "invalid_value", "header"),
    ] {
        let (found, answer) = api.post("/api/v1/explain", question.clone()).await;
        let error = &answer["error"];
        assert_eq!((found, &error["code"]), (status, &json!(code)), "{question}: {answer}");
        assert_eq!(error["param"], json!(param), "{question}: {answer}");
    }
}
