//! The exact handover of reservations to reported stats (docs/handover.md), as engines and operators see it.

use serde_json::{Value, json};
use stargate_tests::{Engine, Gateway, RawEngine, Request, eventually};

fn target(gateway: &Gateway) -> Value {
    gateway.admin().get("/api/v1/targets/mock").expect_ok().json()
}

#[test]
fn faulty_attempts_are_refused_with_their_path_and_leave_the_former_in_force() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().start();
    gateway.register("e1", &engine.url());
    let own = target(&gateway)["gateway"].as_str().expect("a gateway's id").to_owned();
    let core = |marks: Value| json!({ "attempts": { &own: { "0": marks } } });
    let good = json!({ "queue_size": 7, "attempts": { &own: { "0": { "through": 5, "except": [2, 4] } } } });
    assert_eq!(gateway.post_stats("e1", &good).status, 204);

    let at = format!("models.mock.attempts.{own}.0");
    let too_many: Vec<u64> = (1..=257).collect();
    for (fault, path) in [
        (json!({ "attempts": 5 }), "models.mock.attempts".to_owned()),
        (json!({ "attempts": { "not-a-gateway": {} } }), "models.mock.attempts.not-a-gateway".to_owned()),
        (json!({ "attempts": { &own: { "00": { "through": 1 } } } }), format!("{at}0")),
        (core(json!({ "through": -1 })), format!("{at}.through")),
        (core(json!({ "through": 9, "except": [4, 4] })), format!("{at}.except")),
        (core(json!({ "through": 999, "except": too_many })), format!("{at}.except")),
        (core(json!({ "through": 4, "except": [4] })), at.clone()),
        (core(json!({ "through": 4, "exceptions": [] })), format!("{at}.exceptions")),
    ] {
        let response = gateway.post_stats("e1", &fault);
        assert_eq!(response.status, 422, "{fault}: {response:?}");
        let error = response.json()["error"].clone();
        assert_eq!(error["param"], json!(path), "{fault}: {error}");
        let cluster = target(&gateway)["load"][0].clone();
        let cores = json!({ "0": { "through": 5, "exceptions": 2 } });
        assert_eq!(cluster["backends"][0]["handover"]["cores"], cores, "{fault} changed what was in force");
        assert_eq!(cluster["reported"]["queue_size"], 7);
    }
}

#[test]
fn a_target_tells_what_its_load_is_made_of_and_why() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder().start();
    gateway.register("e1", &engine.url());
    let load = || target(&gateway)["load"][0].clone();
    let reporting = |kind: &str| {
        let of = |other| if kind == other { json!(["e1"]) } else { json!([]) };
        json!({ "hands_over": of("hands_over"), "change_driven": of("change_driven"), "polled": of("polled") })
    };
    for (stats, kind, accounting) in [
        (json!({ "num_running_queries": 3 }), "polled", "in_flight"),
        (
            json!({ "num_running_queries": 3, "stats_capabilities": ["change-driven"] }),
            "change_driven",
            "reservations",
        ),
        (json!({ "num_running_queries": 3, "attempts": {} }), "hands_over", "reservations"),
        (json!({ "num_running_queries": 3 }), "polled", "in_flight"),
    ] {
        assert_eq!(gateway.post_stats("e1", &stats).status, 204);
        let load = load();
        assert_eq!(load["accounting"], accounting, "{stats}: {load}");
        assert_eq!(load["reporting"], reporting(kind), "{stats}: {load}");
        assert_eq!(load["backends"][0]["handover"].is_object(), kind == "hands_over", "{stats}: {load}");
        for values in ["reported", "effective"] {
            assert_eq!(load[values]["num_running_queries"], 3, "{values} of {load}");
        }
        assert_eq!(load["in_flight"]["running"], 0);
    }
}

/// From the stamp to the report: what the gateway sent is what comes back to it.
#[test]
fn an_engine_that_hands_over_tells_the_gateway_of_each_of_its_attempts() {
    const REQUESTS: u64 = 40;
    let gateway = Gateway::builder().start();
    let engine = Engine::builder("e1").handover().on_change().register_with(&gateway).start();
    eventually("its attempts are stamped", || {
        let load = &target(&gateway)["load"][0];
        load["backends"][0]["publishes_stats"] == true && load["accounting"] == "reservations"
    });
    for _ in 0..REQUESTS {
        let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    }
    let stamp = engine.last_headers().into_iter().find(|(name, _)| name == "x-stargate-attempt");
    let own = target(&gateway)["gateway"].as_str().expect("a gateway's id").to_owned();
    assert!(stamp.is_some_and(|(_, value)| value.starts_with(&own)));
    eventually("all attempts are handed over", || {
        let cores = target(&gateway)["load"][0]["backends"][0]["handover"]["cores"].clone();
        let cores = cores.as_object().expect("an engine that hands over");
        assert!(
            cores.values().all(|core| core["exceptions"] == 0),
            "one after another none is on its way: {cores:?}"
        );
        cores.values().map(|core| core["through"].as_u64().expect("a number")).sum::<u64>() == REQUESTS
    });
}
