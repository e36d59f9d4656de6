//! How what a gateway sent is added to what a cluster reports, and why: as `GET /api/v1/targets/{model}` tells it.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use stargate_dataplane::{Bells, GatewayId, Observations};
use stargate_routing::{DecisionState, Exclusions, RoutingRequest, Running, Tokens, decide_and_enter};
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

/// Decides on a request for the target, as a core does, and counts it there.
fn send(api: &Api, core: &mut DecisionState) -> Running {
    let request = RoutingRequest { input_tokens: Tokens(10), ..RoutingRequest::default() };
    let snapshot = api.plane.snapshot().load_full();
    core.loads().follow(&snapshot);
    let target = snapshot.target(None, "m").unwrap();
    let algorithm = &target.policy.method.algorithm;
    decide_and_enter(target, algorithm, &request, &Exclusions::default(), core, Duration::ZERO).1.unwrap()
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
    for values in ["reported", "reserved", "in_flight", "effective"] {
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

#[tokio::test]
async fn a_target_shows_what_of_its_room_requests_that_wait_may_take() {
    let api =
        Api::start(&format!("{NO_HEALTH}[routing.models.m]\nalgorithm = 'wait-and-widen'\nmax_queued = 4"));
    let gateway: GatewayId = "0000beef".parse().unwrap();
    api.plane.attach(gateway, Observations::default(), Bells::default(), Vec::new);
    register(&api, 'a').await;
    let room = async || {
        let mut room = cluster(&api).await["room"].clone();
        room.as_object_mut().unwrap().remove("draw").unwrap();
        room
    };
    assert_eq!(
        room().await,
        json!({ "share": 1.0, "places": null, "reported_free": null, "left": null }),
        "no slots are reported"
    );
    report(&api, 'a', json!({ "num_running_queries": 8, "max_engine_concurrency": 12 })).await;
    assert_eq!(
        room().await,
        json!({ "share": 1.0, "places": 16, "reported_free": 8, "left": 8 }),
        "what is polled is not shared"
    );

    // Eight run, none of them from here: it counts as if one did.
    let others = json!({ "00c0ffee": { "0": { "through": 8 } } });
    let stats = json!({ "num_running_queries": 8, "max_engine_concurrency": 12, "attempts": others });
    report(&api, 'a', stats).await;
    let expected = |left: u64| json!({ "share": 0.125, "places": 16, "reported_free": 8, "left": left });
    assert_eq!(room().await, expected(1));
    let mut core = DecisionState::new();
    let sent = send(&api, &mut core);
    core.loads().flush();
    assert_eq!(room().await, expected(0), "what was sent since the report has taken it");
    drop(sent);
    core.loads().flush();
    assert_eq!(room().await, expected(1), "it has ended");

    let random = json!({ "models": { "m": "random" } });
    assert_eq!(api.put("/api/v1/config/routing", random).await.0, 200);
    assert_eq!(cluster(&api).await["room"], Value::Null, "it waits for no room");
}

/// From a decision to the report that includes it: counted once at every moment.
#[tokio::test]
async fn what_was_sent_is_counted_once_before_and_after_it_is_reported() {
    let api = Api::start(NO_HEALTH);
    let gateway: GatewayId = "0000beef".parse().unwrap();
    api.plane.attach(gateway, Observations::default(), Bells::default(), Vec::new);
    register(&api, 'a').await;
    report(&api, 'a', json!({ "attempts": {}, "num_running_queries": 1, "queue_size": 0 })).await;

    let mut core = DecisionState::new();
    let running: Vec<Running> = (0..3).map(|_| send(&api, &mut core)).collect();
    let sequences: Vec<_> = running.iter().map(Running::sequence).collect();
    assert_eq!(sequences, [Some(1), Some(2), Some(3)]);
    core.loads().flush();
    let found = cluster(&api).await;
    assert_eq!(found["in_flight"]["running"], 3);
    assert_eq!(found["reserved"], json!({ "attempts": 3, "input_tokens": 30, "ended": 0 }));
    assert_eq!(found["effective"]["num_running_queries"], 4);

    // The second is still on its way.
    let attempts = json!({ "0000beef": { "0": { "through": 3, "except": [2] } } });
    report(&api, 'a', json!({ "attempts": attempts, "num_running_queries": 3, "queue_size": 0 })).await;
    core.loads().follow(&api.plane.snapshot().load());
    core.loads().flush();
    let found = cluster(&api).await;
    assert_eq!(found["in_flight"]["running"], 3);
    assert_eq!(found["reserved"], json!({ "attempts": 1, "input_tokens": 10, "ended": 0 }));
    assert_eq!(found["effective"]["num_running_queries"], 4);

    // All end before the next report: two of them are in this one.
    drop(running);
    core.loads().flush();
    let found = cluster(&api).await;
    assert_eq!(found["in_flight"]["running"], 0);
    assert_eq!(found["reserved"], json!({ "attempts": 0, "input_tokens": 0, "ended": 2 }));
    assert_eq!(found["effective"]["num_running_queries"], 1);
    let attempts = json!({ "0000beef": { "0": { "through": 3, "except": [] } } });
    report(&api, 'a', json!({ "attempts": attempts, "num_running_queries": 1, "queue_size": 0 })).await;
    core.loads().follow(&api.plane.snapshot().load());
    core.loads().flush();
    let found = cluster(&api).await;
    assert_eq!(found["reserved"]["ended"], 0);
    assert_eq!(found["effective"]["num_running_queries"], 1);
}
