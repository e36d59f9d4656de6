//! Health checks against real sockets.

mod support;

use std::time::Duration;

use serde_json::json;
use stargate_controlplane::{
    backend_url::Host,
    health::{CheckFailure, CheckReport, CheckTarget, LookUp, check},
};
use support::{Answer, Api, Backend, eventually};
use tokio::net::TcpListener;

/// Long enough for any check that gets an answer.
const PLENTY: Duration = Duration::from_secs(20);

async fn check_at(host: Host, limit: Duration) -> CheckReport {
    let target = CheckTarget { host, authority: "engine".into(), path: "/health".into(), address: None };
    check(&target, &mut LookUp::default(), limit).await
}

#[tokio::test]
async fn an_answer_decides_and_connecting_is_measured() {
    for (answer, is_good) in [
        (Answer::Status(200), true),
        (Answer::Status(204), true),
        (Answer::Status(302), false),
        (Answer::Status(503), false),
        (Answer::Garbage, false),
    ] {
        let backend = Backend::start(answer).await;
        let report = check_at(Host::Address(backend.address), PLENTY).await;
        assert_eq!(report.result.is_ok(), is_good, "{answer:?}: {report:?}");
        assert_eq!(report.address, Some(backend.address));
        assert!(report.connect.is_some());
    }
}

#[tokio::test]
async fn a_backend_that_never_answers_fails_by_the_timeout() {
    let backend = Backend::start(Answer::Never).await;
    let report = check_at(Host::Address(backend.address), Duration::from_millis(50)).await;
    assert!(matches!(report.result, Err(CheckFailure::Timeout)), "{report:?}");
}

#[tokio::test]
async fn a_closed_port_fails_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let report = check_at(Host::Address(address), PLENTY).await;
    assert!(matches!(report.result, Err(CheckFailure::Connect(found, _)) if found == address), "{report:?}");
    assert_eq!((report.address, report.connect), (None, None));
}

#[tokio::test]
async fn of_several_addresses_of_a_name_the_one_that_accepts_is_taken() {
    // localhost is [::1] too on most hosts, where nobody listens on this port.
    let backend = Backend::start(Answer::Status(200)).await;
    let host = Host::Name("localhost".into(), backend.address.port());
    let report = check_at(host, PLENTY).await;
    assert!(report.result.is_ok(), "{report:?}");
    assert_eq!(report.address, Some(backend.address));
}

#[tokio::test]
async fn a_name_that_cannot_be_looked_up_fails_only_while_no_address_is_known() {
    let backend = Backend::start(Answer::Status(200)).await;
    let host = Host::Name("no-such-host.invalid".into(), 80);
    let report = check_at(host.clone(), PLENTY).await;
    assert!(matches!(report.result, Err(CheckFailure::LookUp(_))), "{report:?}");
    let target =
        CheckTarget { host, authority: "engine".into(), path: "/".into(), address: Some(backend.address) };
    let report = check(&target, &mut LookUp::default(), PLENTY).await;
    assert!(report.result.is_ok(), "{report:?}");
}

#[tokio::test]
async fn one_hung_backend_does_not_hold_up_the_checks_of_others() {
    let (hung, good) = (Backend::start(Answer::Never).await, Backend::start(Answer::Status(200)).await);
    let api = Api::start(&format!(
        "[health]\ninterval_ms = 1\ntimeout_ms = 86400000\n\
         [[backends]]\nid = 'a-hung'\nurl = '{}'\nmodels = ['m']\n\
         [[backends]]\nid = 'good'\nurl = '{}'\nmodels = ['m']\n",
        hung.url(),
        good.url()
    ));
    eventually("ten checks of the good one", async || good.count() >= 10).await;
    assert_eq!(hung.count(), 1);
    assert!(api.plane.snapshot().load().is_routable());
    assert_eq!(api.get("/api/v1/backends/a-hung").await.1["health"]["condition"], "unknown");
}

#[tokio::test]
async fn a_backend_leaves_rotation_when_it_hangs_and_comes_back() {
    let backend = Backend::start(Answer::Status(200)).await;
    let api = Api::start("[health]\ninterval_ms = 5\ntimeout_ms = 100\n");
    let body = json!({ "url": backend.url(), "models": { "m": {} } });
    assert_eq!(api.put("/api/v1/backends/a", body).await.0, 201);
    let is_routable = async || api.plane.snapshot().load().is_routable();
    eventually("routable", is_routable).await;
    backend.answer(Answer::Never);
    eventually("out of rotation", async || !is_routable().await).await;
    let (_, view) = api.get("/api/v1/backends/a").await;
    assert_eq!(view["health"]["condition"], "unhealthy");
    assert_eq!(view["health"]["last_failure"], "no answer in time");
    assert!(api.plane.snapshot().load().target(None, "m").is_some(), "the target stays known");
    backend.answer(Answer::Status(200));
    eventually("back in rotation", is_routable).await;
}

#[tokio::test]
async fn an_openai_backend_is_asked_for_its_models_and_a_prefix_is_kept() {
    let backend = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/prefix", backend.local_addr().unwrap());
    let _api =
        Api::start(&format!("[[backends]]\nid = 'a'\nurl = '{url}'\nengine = 'openai'\nmodels = ['m']\n"));
    let (mut stream, _) = backend.accept().await.unwrap();
    let mut head = vec![0; 29];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut head).await.unwrap();
    assert_eq!(String::from_utf8(head).unwrap(), "GET /prefix/v1/models HTTP/1.");
}

#[tokio::test]
async fn the_connect_time_of_checks_is_the_round_trip_while_nobody_else_measures() {
    let backend = Backend::start(Answer::Status(200)).await;
    let api = Api::start("[health]\ninterval_ms = 20\n");
    let (_, empty) = api.get("/api/v1/dataplane").await;
    assert_eq!(empty["gateway"], json!(null));
    assert_eq!(empty["cores"], json!([]));
    assert_eq!((&empty["rtt"]["source"], &empty["rtt"]["backends"]), (&json!(null), &json!([])));
    let body = json!({ "url": backend.url(), "models": { "m": {} } });
    assert_eq!(api.put("/api/v1/backends/b", body).await.0, 201);
    eventually("three checks are shown", async || {
        let (_, shown) = api.get("/api/v1/dataplane").await;
        let known = &shown["rtt"]["backends"][0];
        assert_eq!((&known["id"], &known["address"]), (&json!("b"), &json!(backend.address.to_string())));
        known["source"] == json!("probe")
            && known["samples"].as_u64() >= Some(3)
            && known["rtt_ms"].as_f64() <= known["smoothed_ms"].as_f64()
            && known["routed_rtt_ms"].is_number()
    })
    .await;
    let (_, metrics) = api.raw("GET", "/metrics", "").await;
    assert!(
        metrics.contains(r#"stargate_backend_rtt_seconds{inference_server_id="b",source="probe"}"#),
        "{metrics}"
    );
}
