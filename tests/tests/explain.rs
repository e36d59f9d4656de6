//! `stargate explain`: an operator asks the running gateway why.

use serde_json::json;
use stargate_tests::{Gateway, RawEngine, Request};

#[test]
fn the_table_tells_what_the_next_request_meets() {
    let (a, b) = (RawEngine::plain(), RawEngine::plain());
    let gateway = Gateway::builder().toml("[routing]\ndefault = \"pulsar\"").start();
    for (id, engine) in [("a", &a), ("b", &b)] {
        gateway.register(id, &engine.url());
        let stats = json!({ "last_mean_input_tps": 1000.0, "max_input_tps": 1000.0 });
        assert_eq!(gateway.post_stats(id, &stats).status, 204);
    }
    let admin = gateway.admin().address().to_string();
    let header = "x-cache-affinity-key: session-1";
    let ask = |arguments: &[&str]| {
        let all = [&["explain", "--admin-listen", &admin, "-H", header][..], arguments].concat();
        Gateway::builder().run_bare(&all)
    };
    let output = ask(&["--model", "mock"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{table}{}", String::from_utf8_lossy(&output.stderr));
    for word in ["decision", "algorithm=pulsar", "affinity_key=session-1", "verdict", "rank"] {
        assert!(table.contains(word), "{word:?} is not in\n{table}");
    }

    let output = ask(&["--model", "mock", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let request = Request::chat("mock").header("x-cache-affinity-key", "session-1");
    let served = gateway.client().send(&request).expect_ok();
    assert_eq!(answer["decision"]["selected"]["backend_id"], served.served_by());

    let output = ask(&["--model", "unheard-of"]);
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("no_eligible_candidates") && error.contains("unheard-of"), "{error}");
}
