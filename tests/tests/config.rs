//! Configuration: from every source in its order, and errors that say where and what.

use std::{fs, process::Output};

use stargate_tests::{Gateway, GatewayBuilder, RawEngine, Request, Then, workspace_dir};

/// Exit status of a configuration that cannot be used.
const CONFIG_ERROR: i32 = 2;

fn check(builder: &GatewayBuilder) -> Output {
    builder.run(&["check-config"])
}

/// A configuration file with exactly these lines.
fn file(lines: &str) -> GatewayBuilder {
    Gateway::builder().without_settings().toml(lines)
}

#[track_caller]
fn expect_error(output: &Output, words: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(CONFIG_ERROR), "{stdout}{stderr}");
    let said = format!("{stdout}{stderr}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in {said:?}");
    }
}

#[test]
fn a_good_file_is_ok() {
    let output = check(&file("[timeouts]\nconnect_ms = 500\n[routing]\ndefault = \"pulsar\""));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("ok: "), "{output:?}");
}

#[test]
fn errors_name_file_line_key_and_what_is_allowed() {
    for (lines, line, words) in [
        ("[timeouts]\nconnect_msec = 500", 2, &["connect_msec", "connect_ms"][..]),
        ("[timeouts]\nconnect_ms = 0", 2, &["timeouts.connect_ms", "0"]),
        ("[timeouts]\n\n\nconnect_ms = \"fast\"", 4, &["connect_ms", "fast", "integer"]),
        ("[limits]\nmax_headers = 5", 2, &["limits.max_headers", "5", "16", "256"]),
        ("[server]\nlisten = [\"localhost\"]", 2, &["listen", "localhost"]),
        ("[server]\ndriver = \"kqueue\"", 2, &["driver", "kqueue", "io-uring", "epoll"]),
        ("[routing]\ndefault = \"fastest\"", 2, &["default", "fastest", "power-of-n", "pulsar"]),
        ("[routing]\nalgorithm = \"random\"", 2, &["routing.algorithm", "`default.algorithm`"]),
        (
            "[routing.default]\nalgorithm = \"power-of-n\"\nsample_count = 65",
            3,
            &["sample_count", "65", "64"],
        ),
        ("[routing.default]\nalgorithm = \"random\"\nsample_count = 3", 3, &["sample_count", "power-of-n"]),
        (
            "[routing.models.\"a.b\"]\nalgorithm = \"pulsar\"\nseed = true",
            3,
            &["models.\"a.b\".seed", "true"],
        ),
        (
            "[routing.models.m]\nalgorithm = \"pulsar\"\n[routing.models.m.request_algorithms]\npulsar = \"random\"",
            4,
            &["models.m.request_algorithms.pulsar", "`random`"],
        ),
        ("[headers]\nmode = \"lenient\"", 2, &["mode", "lenient", "derive", "strict"]),
        ("[nonsense]\na = 1", 1, &["nonsense"]),
        ("[log]\nlevel = \"loud\"", 2, &["level", "loud", "debug"]),
        ("[[backends]]\nid = \"a\"\nurl = \"http://127.0.0.1:1\"\nmodels = []", 4, &["models"]),
        ("[[backends]]\nid = \"a\"\nurl = \"htp://127.0.0.1:1\"\nmodels = [\"m\"]", 3, &["url", "htp"]),
        ("[[backends]]\nid = \"a\"\nmodels = [\"m\"]", 1, &["url"]),
    ] {
        let builder = file(lines);
        let output = check(&builder);
        let place = format!("stargate.toml:{line}");
        let mut expected = vec![place.as_str()];
        expected.extend(words);
        eprintln!("{lines:?}");
        expect_error(&output, &expected);
    }
}

/// Documents of the field are files of their own.
#[test]
fn a_routing_document_is_checked_by_itself() {
    let check = |name: &str, text: &str| {
        let path = stargate_tests::scratch_file(name, text);
        Gateway::builder().without_settings().run(&[
            "check-config",
            "--routing",
            path.to_str().expect("a path"),
        ])
    };
    let good =
        r#"{"default":"power-of-two","models":{"a.b":{"algorithm":"groq-multiregion","n":3,"slo_ms":900}}}"#;
    let output = check("lb-config.json", good);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = check("lb-config.json", &good.replace("\"n\":3", "\"n\":300"));
    expect_error(&output, &["lb-config.json", "models.\"a.b\".n", "300", "64"]);
    expect_error(&check("lb-config.toml", "default = \"best\""), &["lb-config.toml", "default", "best"]);
    expect_error(&check("lb-config.json", "{"), &["lb-config.json", "EOF"]);
    let output = check("lb-config.json", r#"{"default":"pulsar-multiregion"}"#);
    assert!(String::from_utf8_lossy(&output.stderr).contains("a full primary never overflows"), "{output:?}");
}

#[test]
fn a_file_that_is_no_toml_names_the_line() {
    expect_error(&check(&file("[timeouts]\nconnect_ms = = 5")), &["stargate.toml:2"]);
    expect_error(&check(&file("[timeouts\nconnect_ms = 5")), &["stargate.toml:1"]);
}

#[test]
fn backends_that_cannot_be_told_apart_are_an_error() {
    let twice = "[[backends]]\nid = \"a\"\nurl = \"http://127.0.0.1:1\"\nmodels = [\"m\"]\n".repeat(2);
    expect_error(&check(&file(&twice)), &["stargate.toml:6", "id", "\"a\""]);
}

#[test]
fn a_missing_file_is_named() {
    let output = Gateway::builder()
        .argument("--config")
        .argument("/nonexistent/stargate.toml")
        .run_bare(&["check-config"]);
    expect_error(&output, &["/nonexistent/stargate.toml"]);
}

#[test]
fn serving_refuses_what_check_config_refuses() {
    let output = file("[timeouts]\nconnect_ms = 0").run(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
    ]);
    expect_error(&output, &["stargate.toml:2", "timeouts.connect_ms"]);
    assert_eq!(output.stdout, b"", "never ready");
}

#[test]
fn faulty_overrides_name_their_source() {
    let builder = Gateway::builder().argument("--set").argument("timeouts.connect_ms=0");
    expect_error(&check(&builder), &["--set", "timeouts.connect_ms", "0"]);
    let builder = Gateway::builder().argument("--set").argument("timeouts.no_such_key=1");
    expect_error(&check(&builder), &["--set", "no_such_key"]);
    let builder = Gateway::builder().environment("STARGATE__TIMEOUTS__CONNECT_MS", "0");
    expect_error(&check(&builder), &["STARGATE__TIMEOUTS__CONNECT_MS", "0"]);
}

/// Which of the sources wins, seen from outside: the limit that a 413 names.
#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let engine = RawEngine::start(|exchange| {
        exchange.respond_ok();
        Then::KeepOpen
    });
    let limit = |builder: GatewayBuilder| {
        let gateway = builder.backend("e1", &engine.url()).start();
        let request =
            Request::new("POST", "/v1/chat/completions").header("x-model", "mock").body(vec![b'x'; 9000]);
        let mut connection = gateway.client().connect();
        let _ = connection.try_send(request.to_bytes());
        let response = connection.receive(&request).expect("an answer");
        response.expect_error(413, "payload_too_large");
        let message = response.json()["error"]["message"].as_str().expect("a message").to_owned();
        ["1111", "2222", "3333"]
            .into_iter()
            .find(|limit| message.contains(limit))
            .unwrap_or_else(|| panic!("no limit in {message:?}"))
    };
    let in_file = Gateway::builder().set("limits.max_body_bytes", 1111);
    let in_environment = in_file.clone().environment("STARGATE__LIMITS__MAX_BODY_BYTES", "2222");
    let in_flag = in_environment.clone().argument("--set").argument("limits.max_body_bytes=3333");
    assert_eq!(limit(in_file), "1111");
    assert_eq!(limit(in_environment), "2222");
    assert_eq!(limit(in_flag), "3333");
}

/// The named flags have variables of their own, which the flags override.
#[test]
fn named_flags_have_variables() {
    let gateway = Gateway::builder().environment("STARGATE_DRIVER", "epoll").start();
    assert_eq!(gateway.process().ready_value("driver"), "epoll");
    let gateway = Gateway::builder()
        .environment("STARGATE_DRIVER", "epoll")
        .argument("--driver")
        .argument("io-uring")
        .start();
    assert_ne!(gateway.process().ready_value("driver"), "epoll");
}

#[test]
fn logs_are_json_where_that_is_asked_for() {
    let gateway = Gateway::builder().argument("--log-format").argument("json").start();
    gateway
        .client()
        .send(&Request::chat("nobody").header("x-request-id", "json-line"))
        .expect_error(404, "no_eligible_candidates");
    let line = stargate_tests::eventually_some("the failure is logged", || {
        gateway.process().log().lines().find(|line| line.contains("json-line")).map(str::to_owned)
    });
    let parsed: serde_json::Value =
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert!(parsed.is_object());
}

/// The commented example that ships is a working configuration as it stands.
#[test]
fn the_shipped_example_is_a_good_configuration() {
    let example =
        fs::read_to_string(workspace_dir().join("docs/stargate.toml")).expect("the commented example");
    let output = check(&file(&example));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
