//! How what a gateway sent is added to what a cluster reports, and why: as `GET /api/v1/targets/{model}` tells it.

mod support;

use serde_json::{Value, json};
use stargate_dataplane::{Bells, GatewayId, Observations};
use support::{Api, NO_HEALTH};

const TARGET: &str = "/api/v1/targets/m";

/// Registers a backend of the cluster `c`, by a letter.
async fn register(api: &Api, id: char) {
    let body = json!({
        "url": format!("http://127.0.0.1:{}", u32::from(id)), "cluster_id": "c", "models": { "m": {} }
    });
    assert_eq!(api.put(&format!("/api/v1/backends/{id}"), body).await.0, 201);
}

async fn report(api: &Api, id: char, stats: Value) {
    let path = format!("/api/v1/backends/{id}/stats");
    assert_eq!(api.post(&path, json!({ "models": { "m": stats } })).await, (204, Value::Null));
}

async fn cluster(api: &Api) -> Value {
    let (status, target) = api.get(TARGET).await;
    assert_eq!(status, 200, "{target}");
    target["load"][0].clone()
}

#[tokio::test]
async fn a_target_shows_which_accounting_its_clusters_have_and_why() {
    let api = Api::start(NO_HEALTH);
    for id in ['a', 'b', 'd'] {
        register(&api, id).await;
    }
    let found = cluster(&api).await;
    assert_eq!(found["accounting"], "in_flight");
    assert_eq!(
        found["reporting"],
        json!({ "hands_over": [], "change_driven": [], "polled": ["a", "b", "d"] })
    );

    report(&api, 'a', json!({ "attempts": {}, "num_running_queries": 2 })).await;
    report(&api, 'b', json!({ "stats_capabilities": ["change-driven"] })).await;
    let found = cluster(&api).await;
    assert_eq!(found["accounting"], "in_flight", "one that is polled decides");
    assert_eq!(found["reporting"], json!({ "hands_over": ["a"], "change_driven": ["b"], "polled": ["d"] }));

    api.call("DELETE", "/api/v1/backends/d", &Value::Null).await;
    let found = cluster(&api).await;
    assert_eq!(found["accounting"], "reservations");
    assert_eq!(found["cluster_id"], "c");
    for values in ["reported", "in_flight", "effective"] {
        assert!(found[values].is_object(), "{values} of {found}");
    }
    assert_eq!(found["reported"]["num_running_queries"], 2);
    // A report without withdraws it.
    report(&api, 'a', json!({})).await;
    assert_eq!(cluster(&api).await["accounting"], "in_flight");
}

#[tokio::test]
async fn handover_is_shown_in_short_and_of_this_gateway_only() {
    let api = Api::start(NO_HEALTH);
    register(&api, 'a').await;
    let attempts = json!({
        "0000beef": { "0": { "through": 9, "except": [3, 7] }, "1": { "through": 2, "except": [] } },
        "00c0ffee": { "0": { "through": 4, "except": [] } }
    });
    report(&api, 'a', json!({ "attempts": attempts })).await;
    let (_, target) = api.get(TARGET).await;
    assert_eq!(target["gateway"], Value::Null);
    assert_eq!(target["load"][0]["backends"][0]["handover"], Value::Null, "nobody asks yet");

    let gateway: GatewayId = "0000beef".parse().unwrap();
    api.plane.attach(gateway, Observations::default(), Bells::default(), Vec::new);
    report(&api, 'a', json!({ "attempts": attempts })).await;
    let (_, target) = api.get(TARGET).await;
    assert_eq!(target["gateway"], "0000beef");
    let handover = &target["load"][0]["backends"][0]["handover"];
    let cores = json!({ "0": { "through": 9, "exceptions": 2 }, "1": { "through": 2, "exceptions": 0 } });
    assert_eq!(handover["cores"], cores);
    let (_, snapshot) = api.get("/api/v1/snapshot").await;
    assert_eq!(&snapshot["targets"][0]["clusters"][0]["backends"][0]["handover"], handover);
    // The backend itself has it as it was reported.
    let (_, backend) = api.get("/api/v1/backends/a").await;
    assert_eq!(backend["models"]["m"]["stats"]["attempts"], attempts);

    report(&api, 'a', json!({ "attempts": attempts })).await;
    let (_, target) = api.get(TARGET).await;
    let later = &target["load"][0]["backends"][0]["handover"];
    assert!(later["report"].as_u64() > handover["report"].as_u64(), "{later} after {handover}");
}
