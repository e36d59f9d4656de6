use std::path::Path;

use super::*;

fn load(text: &str, overrides: &[Override]) -> Result<Config, ConfigError> {
    let mut layers = Layers::default();
    layers.file_text(Path::new("stargate.toml"), text.into());
    for layer in overrides {
        layers.push(layer.clone());
    }
    layers.load()
}

fn error(text: &str, overrides: &[Override]) -> String {
    load(text, overrides).unwrap_err().to_string()
}

#[test]
fn nothing_is_the_defaults() {
    assert_eq!(load("", &[]).unwrap(), Config::default());
    assert_eq!(Layers::default().load().unwrap(), Config::default());
    Config::default().settings(vec![]).validate().unwrap();
    assert_eq!(Config::default().settings(vec![]), stargate_dataplane::Settings::default());
}

#[test]
fn errors_of_the_file_name_line_key_finding_and_range() {
    for (text, parts) in [
        (
            "[timeouts]\nconnect_ms = 0\n",
            &["stargate.toml:2:", "timeouts.connect_ms:", "`0`", "from 1 to 86400000"][..],
        ),
        (
            "[timeouts]\nconnect_ms = \"2s\"\n",
            &["stargate.toml:2:", "timeouts.connect_ms:", "\"2s\"", "from 1 to"],
        ),
        ("[timeouts]\n\nconect_ms = 5\n", &["stargate.toml:3:", "conect_ms", "`connect_ms`"]),
        ("[timeout]\n", &["stargate.toml:1:", "`timeout`", "`timeouts`"]),
        ("[rtt]\nsource = \"kernel\"\n", &["stargate.toml:2:", "rtt.source", "`kernel`", "`tcp-info`"]),
        ("[rtt]\nkernel_log = \"info\"\n", &["stargate.toml:2:", "rtt.kernel_log", "`info`", "`faults`"]),
        ("[server]\nlisten = []\n", &["stargate.toml:2:", "server.listen:", "one or more addresses"]),
        (
            "[server]\nlisten = [\"localhost\"]\n",
            &["stargate.toml:2:", "server.listen[0]:", "\"localhost\"", "127.0.0.1:8080"],
        ),
        ("[server]\ncores = 0\n", &["stargate.toml:2:", "server.cores:", "`0`", "\"all\""]),
        ("[server]\ndriver = \"kqueue\"\n", &["stargate.toml:2:", "server.driver", "`kqueue`", "`io-uring`"]),
        (
            "[[backends]]\nid = \"a\"\nurl = \"https://x\"\nmodels = [\"m\"]\n",
            &["stargate.toml:3:", "backends[0].url:", "https://x", "TLS", "http://host"],
        ),
        ("[[backends]]\nurl = \"http://x\"\n", &["stargate.toml:1:", "backends[0]", "missing field `id`"]),
        (
            "[routing.models.\"a.b\"]\nalgorithm = \"best\"\n",
            &["stargate.toml:2:", "routing.models.\"a.b\".algorithm:", "\"best\"", "`pulsar`"],
        ),
        (
            "[routing.models.\"a.b\"]\nalgorithm = \"wait-and-widen\"\nnext_bucket_unlock_factor = -1\n",
            &[
                "stargate.toml:3:",
                "routing.models.\"a.b\".next_bucket_unlock_factor: found -1, allowed: a finite",
            ],
        ),
        (
            "[routing]\nalgorithm = \"random\"\n",
            &["stargate.toml:2:", "routing.algorithm", "`default.algorithm`"],
        ),
        ("[routing]\ndefault = 1979-05-27\n", &["stargate.toml:2:", "routing.default"]),
        ("[server\n", &["stargate.toml:1:"]),
        ("[limits]\nmax_connections = \"many\"\n", &["limits.max_connections:", "\"many\"", "\"auto\""]),
        ("[limits]\nmax_connections = -1\n", &["limits.max_connections:", "`-1`", "\"auto\""]),
    ] {
        let error = error(text, &[]);
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in: {error}");
        }
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn errors_across_keys_name_the_place_that_said_it() {
    let twice = "[[backends]]\nid = \"a\"\nurl = \"http://x\"\nmodels = [\"m\"]\n\
                 [[backends]]\nid = \"a\"\nurl = \"http://y\"\nmodels = [\"m\"]\n";
    let message = error(twice, &[]);
    assert!(message.starts_with("stargate.toml:6:1: backends[1].id: found \"a\" again"), "{message}");

    let message = error("[limits]\nmax_replay_bytes = 1000\n", &[]);
    assert!(message.starts_with("stargate.toml:1:2: limits.max_body_bytes"), "{message}");

    let message = error("", &[Override::variable("STARGATE__ADMIN__LISTEN", "0.0.0.0:9090").unwrap()]);
    assert!(
        message.starts_with("environment variable STARGATE__ADMIN__LISTEN: admin.listen: found 0.0.0.0:9090"),
        "{message}"
    );
    assert!(message.contains("admin.allow_remote"), "{message}");

    let message = error("[admin]\nlisten = \"127.0.0.1:8080\"\n", &[]);
    assert!(message.starts_with("stargate.toml:2:1: admin.listen: found 127.0.0.1:8080, as in"), "{message}");

    let message = error(
        "[retry]\nmax_connect_retries = 4\n",
        &[Override::set("retry.max_rejection_retries=4").unwrap()],
    );
    assert!(message.contains("retry: found 4 connect and 4 rejection retries"), "{message}");
}

#[test]
fn overrides_win_in_their_order_and_are_blamed_by_name() {
    let set = |text: &str| Override::set(text).unwrap();
    let variable = |name: &str, value: &str| Override::variable(name, value).unwrap();
    let config = load(
        "[timeouts]\nconnect_ms = 1\nwrite_ms = 7\n",
        &[variable("STARGATE__TIMEOUTS__CONNECT_MS", "2"), set("timeouts.connect_ms=3")],
    )
    .unwrap();
    assert_eq!((config.timeouts.connect_ms.get(), config.timeouts.write_ms.get()), (3, 7));

    let config = load(
        "",
        &[
            set("server.listen=127.0.0.1:0"),
            set("server.cores=0-1"),
            set("headers.trusted=false"),
            set("routing.models.\"a.b\".algorithm=random"),
            set("registration.max_backends=9"),
        ],
    )
    .unwrap();
    assert_eq!(config.server.listen.0.len(), 1);
    assert_eq!(config.server.cores, Cores::Cpus(vec![0, 1]));
    assert!(!config.headers.trusted);
    assert_eq!(
        config.routing.policies().unwrap().policy("a.b").method.algorithm,
        stargate_routing::Algorithm::Random
    );

    let message = error("", &[variable("STARGATE__TIMEOUTS__CONNECT_MS", "fast")]);
    assert!(
        message.starts_with("environment variable STARGATE__TIMEOUTS__CONNECT_MS: timeouts.connect_ms: ")
            && message.contains("\"fast\""),
        "{message}"
    );
    let message = error("", &[set("timeouts.conect_ms=5")]);
    assert!(message.starts_with("flag --set timeouts.conect_ms=5: timeouts.conect_ms: "), "{message}");
    let message = error("", &[set("timeouts.connect_ms.x=5")]);
    assert!(message.contains("timeouts.connect_ms"), "{message}");
    for bad in ["timeouts", "=5", "a b=5", "a\nb=5"] {
        assert!(Override::set(bad).is_err(), "{bad:?}");
    }
    assert_eq!(Override::variable("STARGATE_LISTEN", "x"), None);
}

#[test]
fn every_time_that_the_data_plane_refuses_is_named_as_in_the_file() {
    let known = toml::Table::try_from(Config::default()).unwrap();
    for setting in
        ["timeouts.header", "timeouts.write", "pool.idle_timeout", "limits.max_headers", "listen", "retry"]
    {
        let violation =
            Violation::from(stargate_dataplane::SettingsError { setting, found: String::new(), allowed: "" });
        let mut value = toml::Value::Table(known.clone());
        for part in violation.key.split('.') {
            value = value.get(part).unwrap_or_else(|| panic!("no key {}", violation.key)).clone();
        }
    }
}

#[test]
fn warnings_name_what_is_rarely_meant() {
    let config = load(
        "[pool]\nidle_timeout_ms = 60000\n[rtt]\nsource = \"probe\"\nkernel_log = \"debug\"\n\
         [admin]\nlisten = \"0.0.0.0:0\"\nallow_remote = true\n\
         [routing]\ndefault = \"pulsar\"\n[[backends]]\nid = \"a\"\nurl = \"http://x\"\nmodels = [\"m\"]\n",
        &[],
    )
    .unwrap();
    let warnings = config.warnings().join("\n");
    for part in ["pool.idle_timeout_ms = 60000", "admin.allow_remote", "rtt.kernel_log", "max_input_tps"] {
        assert!(warnings.contains(part), "{part} is not in: {warnings}");
    }
    assert_eq!(Config::default().warnings(), Vec::<String>::new());
}
