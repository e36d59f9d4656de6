//! Targets and rankings through the admin API, and the metrics of ranking tables.

mod support;

use serde_json::{Value, json};
use support::{Api, NO_HEALTH, eventually};

const MODEL: &str = "meta/llama 3";
const PATH: &str = "/api/v1/targets/meta%2Fllama%203";

/// The ranking of `session-1`, by an independent implementation (Python, with the xxhash package).
const EXPECTED: [&str; 3] = ["c", "a", "b"];

/// Clusters a, b and c of weights 1000, 2000 and 3000 that serve `MODEL` in the scope `t`, and a model that
/// is routed at random.
async fn start() -> Api {
    let api = Api::start(&format!(
        "{NO_HEALTH}[routing.models.\"{MODEL}\"]\nalgorithm = 'pulsar'\nseed = 7\n\
         [routing.models.r]\nalgorithm = 'random'"
    ));
    for (id, tps) in [("a", 1_000), ("b", 2_000), ("c", 3_000)] {
        let stats = json!({ "max_input_tps": tps, "last_mean_input_tps": 500, "kv_cache_free_tokens": tps });
        let body = json!({
            "cluster_id": id, "url": format!("http://127.0.0.1:{tps}"), "routing_key": "t",
            "models": { MODEL: { "stats": stats }, "r": {} }
        });
        assert_eq!(api.put(&format!("/api/v1/backends/{id}"), body).await.0, 201);
    }
    eventually("a ranking table", async || {
        api.get(&format!("{PATH}?routing_key=t")).await.1["ranking"]["has_table"] == true
    })
    .await;
    api
}

fn code(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["error"]["code"].as_str().unwrap_or("no error"))
}

fn cluster_ids(ranking: &Value) -> Vec<&str> {
    ranking.as_array().unwrap().iter().map(|rank| rank["cluster_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn targets_are_listed_and_shown_with_their_shares() {
    let api = start().await;
    let (status, list) = api.get("/api/v1/targets").await;
    assert_eq!(status, 200);
    let names: Vec<_> = list["targets"].as_array().unwrap().iter().map(|target| &target["model"]).collect();
    assert_eq!(names, [MODEL, "r"]);
    assert_eq!(list["targets"][1]["algorithm"], "random");
    assert_eq!(list["targets"][1]["ranking"], Value::Null);
    let (status, target) = api.get(&format!("{PATH}?routing_key=t")).await;
    assert_eq!(status, 200);
    for (field, value) in [
        ("/routing_key", json!("t")),
        ("/algorithm", json!("pulsar")),
        ("/clusters", json!(3)),
        ("/ranking/seed", json!("7")),
        ("/ranking/rendezvous_weight", json!("max-input-tps")),
        ("/ranking/slots", json!(65_536)),
        ("/shares/2/cluster_id", json!("c")),
        ("/shares/2/weight_held", json!(3_000.0)),
    ] {
        assert_eq!(target.pointer(field), Some(&value), "{field} of {target}");
        let listed = list["targets"][0].pointer(field);
        assert!(field.starts_with("/shares") || listed == Some(&value), "{field} of {list}");
    }
    let deviation = target["ranking"]["share_deviation"].as_f64().unwrap();
    assert!(deviation > 0.0 && deviation < 0.05, "{deviation}");
    assert!(target["ranking"]["memory_bytes"].as_u64().unwrap() > 1 << 20);
    let slots = |index: usize| target["shares"][index]["first_slots"].as_u64().unwrap();
    assert_eq!(slots(0) + slots(1) + slots(2), 65_536);
    let fair = target["shares"][1]["fair_slots"].as_f64().unwrap();
    assert!((fair - 65_536.0 / 3.0).abs() < 0.01, "{fair}");

    let (_, metrics) = api.raw("GET", "/metrics", "").await;
    for line in [
        format!("stargate_ranking_share_deviation_ratio{{model=\"{MODEL}\",routing_key=\"t\"}} {deviation}"),
        format!("stargate_ranking_table_bytes {}", target["ranking"]["memory_bytes"]),
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in:\n{metrics}");
    }
    assert!(metrics.contains("\nstargate_ranking_build_seconds_count "), "{metrics}");
    assert!(!metrics.contains("stargate_ranking_share_deviation_ratio{model=\"r\""), "{metrics}");
}

#[tokio::test]
async fn a_keys_ranking_is_told_in_full() {
    let api = start().await;
    let ask = async |query: &str| api.get(&format!("{PATH}/ranking?routing_key=t&{query}")).await;
    let (status, answer) = ask("key=session-1").await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["slot"], 0xc07e);
    assert_eq!(cluster_ids(&answer["ranking"]), EXPECTED);
    assert_eq!(answer["has_table"], true);
    assert_eq!(answer["unranked"], json!([]));
    for (position, rank) in answer["ranking"].as_array().unwrap().iter().enumerate() {
        assert_eq!(rank["rank"], position + 1);
        assert_eq!(rank["weight_held"], rank["weight_reported"]);
        assert_eq!(rank["weight_held"].as_f64(), rank["kv_free_tokens"].as_f64());
        assert!(rank["first_slots"].as_u64().unwrap() > 10_000);
    }

    // Another seed or weight is that of a request which selects it; no table holds these.
    let (_, other) = ask("key=session-1&seed=other&rendezvous_weight=last-mean-input-tps").await;
    assert_eq!((&other["seed"], &other["has_table"]), (&json!("other"), &json!(false)));
    assert_eq!(other["ranking"][0]["weight_held"], 500.0);
    assert_eq!(other["ranking"][0]["first_slots"], Value::Null);

    // A wobble is reported and not followed; a cluster without weight or backend takes no rank.
    let stats = json!({ "models": { MODEL: { "max_input_tps": 2_100 } } });
    assert_eq!(api.post("/api/v1/backends/b/stats", stats).await.0, 204);
    let (_, wobbling) = ask("key=session-1").await;
    assert_eq!(wobbling["revision"], answer["revision"]);
    let b = wobbling["ranking"].as_array().unwrap().iter().find(|rank| rank["cluster_id"] == "b").unwrap();
    assert_eq!((&b["weight_held"], &b["weight_reported"]), (&json!(2_000.0), &json!(2_100.0)));
    for (id, status) in [("d", "active"), ("e", "inactive")] {
        let body = json!({
            "cluster_id": id, "url": "http://127.0.0.1:9", "routing_key": "t",
            "models": { MODEL: { "status": status } }
        });
        api.put(&format!("/api/v1/backends/{id}"), body).await;
    }
    let (_, answer) = ask("key=session-1").await;
    assert_eq!(cluster_ids(&answer["ranking"]), EXPECTED);
    assert_eq!(
        answer["unranked"],
        json!([
            { "cluster_id": "d", "reason": "no_weight" },
            { "cluster_id": "e", "reason": "not_routable" }
        ])
    );
}

#[tokio::test]
async fn what_cannot_be_answered_says_why() {
    let api = start().await;
    for (path, expected) in [
        (PATH.to_owned(), (404, "target_not_found")),
        (format!("{PATH}?routing_key=u"), (404, "target_not_found")),
        (format!("{PATH}?routing_key=t&colour=red"), (422, "invalid_query")),
        ("/api/v1/targets/x/ranking?key=k".to_owned(), (404, "target_not_found")),
        (format!("{PATH}/ranking?routing_key=t"), (422, "invalid_query")),
        (format!("{PATH}/ranking?routing_key=t&key="), (422, "invalid_value")),
        (format!("{PATH}/ranking?routing_key=t&key=k&rendezvous_weight=x"), (422, "invalid_value")),
        ("/api/v1/targets/r/ranking?routing_key=t&key=k".to_owned(), (409, "no_ranking")),
    ] {
        let answer = api.get(&path).await;
        assert_eq!(code(&answer), expected, "{path}: {}", answer.1);
    }
    let (status, answer) = api.get("/api/v1/targets/r/ranking?routing_key=t&key=k&seed=").await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!((&answer["seed"], &answer["rendezvous_weight"]), (&json!(""), &json!("max-input-tps")));
    assert_eq!(answer["unranked"][0]["reason"], "no_weight", "r reports no throughput");
}
