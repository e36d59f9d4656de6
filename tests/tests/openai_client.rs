//! The official `openai` Python package against the gateway: what an application sees.
//!
//! The package lives in a virtual environment in the target folder, which `cargo xtask ci` makes; without it this
//! test makes it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use serde_json::{Value, json};
use stargate_tests::{Engine, Gateway, RawEngine, Then, target_dir, workspace_dir};

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The Python of a virtual environment that has the packages of `tests/requirements.txt`.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(prepare_python)
}

fn prepare_python() -> PathBuf {
    let venv = target_dir().join("venv");
    let python = venv.join("bin/python");
    let requirements = workspace_dir().join("tests/requirements.txt");
    let stamp = venv.join("requirements.txt");
    let same = |a: &Path, b: &Path| fs::read(a).ok().is_some_and(|a| fs::read(b).ok() == Some(a));
    if !same(&requirements, &stamp) {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"])
            .arg(&requirements));
        fs::copy(&requirements, &stamp).expect("a stamp beside what was installed");
    }
    python
}

/// Runs the script and returns what it printed, by name.
fn drive(gateway: &Gateway) -> Value {
    let script = workspace_dir().join("tests/openai_client.py");
    let base_url = format!("http://{}/v1", gateway.client().address());
    let output = run(Command::new(python()).arg(script).args([&base_url, "mock"]));
    let mut seen = json!({});
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let fact: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        seen[fact["what"].as_str().expect("a name")] = fact.clone();
    }
    seen
}

#[test]
fn an_application_sees_what_its_client_promises() {
    let engine = Engine::start("e1");
    let gateway = Gateway::before(&engine.url());
    let seen = drive(&gateway);

    assert_eq!(seen["chat"]["role"], "assistant", "{seen}");
    assert!(seen["chat"]["text"].as_str().is_some_and(|text| !text.is_empty()), "{seen}");
    assert!(seen["chat"]["tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{seen}");
    assert_eq!(seen["headers"]["backend"], "e1", "{seen}");
    assert!(seen["headers"]["request_id"].is_string(), "{seen}");
    assert!(seen["stream"]["text"].as_str().is_some_and(|text| !text.is_empty()), "{seen}");
    assert!(seen["stream"]["chunks"].as_u64().is_some_and(|chunks| chunks > 2), "{seen}");
    assert_eq!(seen["stream"]["finish"].as_array().map(Vec::len), Some(1), "{seen}");
    assert_eq!(seen["embeddings"]["count"], 2, "{seen}");
    assert!(seen["embeddings"]["dimensions"].as_u64().is_some_and(|dimensions| dimensions > 0), "{seen}");
    assert_eq!(seen["models"]["ids"], json!(["mock"]), "{seen}");
    assert_eq!(seen["error"]["status"], 404, "{seen}");
    assert_eq!(seen["error"]["code"], "no_eligible_candidates", "{seen}");
    assert!(seen["error"]["message"].as_str().is_some_and(|text| text.contains("no-such-model")), "{seen}");
    assert_eq!(seen["stream_end"]["error"], Value::Null, "{seen}");
    gateway.wait_until_idle();
}

/// An engine that is orderly but for one request, which dies after its first event.
fn engine_that_dies_once() -> RawEngine {
    RawEngine::start(|exchange| {
        let chunk = |delta: Value, finish: Value| {
            json!({
                "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "mock",
                "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }]
            })
            .to_string()
        };
        let body: Value = serde_json::from_slice(&exchange.request.body).expect("a JSON body");
        if exchange.request.target.ends_with("/embeddings") {
            let entry = |index: u32| json!({ "object": "embedding", "index": index, "embedding": [0.5] });
            let answer = json!({
                "object": "list", "model": "mock", "data": [entry(0), entry(1)],
                "usage": { "prompt_tokens": 1, "total_tokens": 1 }
            });
            exchange.respond("200 OK", &[("content-type", "application/json")], answer.to_string());
            return Then::KeepOpen;
        }
        if body["stream"] != json!(true) {
            let answer = json!({
                "id": "c", "object": "chat.completion", "created": 1, "model": "mock",
                "choices": [{
                    "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": "hello" }
                }],
                "usage": { "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2 }
            });
            exchange.respond("200 OK", &[("content-type", "application/json")], answer.to_string());
            return Then::KeepOpen;
        }
        exchange.begin_stream();
        exchange.send_chunk(format!(
            "data: {}\n\n",
            chunk(json!({ "role": "assistant", "content": "hel" }), Value::Null)
        ));
        if exchange.request.header("x-request-id") == Some("dies-mid-stream") {
            return Then::Close;
        }
        exchange.send_chunk(format!("data: {}\n\n", chunk(json!({ "content": "lo" }), json!("stop"))));
        exchange.send_chunk("data: [DONE]\n\n");
        exchange.end_chunks();
        Then::KeepOpen
    })
}

#[test]
fn an_application_learns_that_a_stream_broke_off() {
    let engine = engine_that_dies_once();
    let gateway = Gateway::before(&engine.url());
    let seen = drive(&gateway);
    assert_eq!(seen["stream"]["text"], "hello", "{seen}");
    assert!(seen["stream_end"]["error"].is_string(), "passed off as complete: {seen}");
    gateway.wait_until_idle();
}
