use proptest::prelude::*;
use serde_json::{Value, json};
use stargate_routing::{Algorithm, AlgorithmKind};

use super::*;
use crate::config::{Config, Violation};

fn document(json: &Value) -> Document {
    Routing::from_json(&json.to_string()).unwrap().read().unwrap()
}

fn violation(json: &str) -> Violation {
    Routing::from_json(json).unwrap().read().unwrap_err()
}

fn policies(json: &Value) -> Policies {
    Policies::of(&document(json), None)
}

#[test]
fn nothing_is_power_of_n_and_every_algorithm_may_be_selected() {
    let policies = policies(&json!({}));
    let policy = policies.policy("m");
    assert_eq!(
        **policy,
        stargate_routing::Policy { request_methods: policy.request_methods.clone(), ..Default::default() }
    );
    for kind in AlgorithmKind::ALL {
        assert_eq!(policy.selectable(kind).unwrap().algorithm, kind.with_defaults());
    }
    assert!(std::sync::Arc::ptr_eq(policy, policies.policy("other")));
}

/// The example of the documentation that such documents come from, and its old names.
#[test]
fn documents_of_the_field_are_taken_as_they_are() {
    let policies = policies(&json!({
        "default": "power-of-two",
        "request_algorithms": {
            "groq-multiregion": "groq-multiregion",
            "pulsar": { "algorithm": "pulsar", "seed": "request-routing-v1", "require_cache_affinity_key": true },
            "pulsar_multiregion": {
                "algorithm": "pulsar-multiregion", "seed": "request-routing-v1",
                "max_queue_time_floor_ms": 500, "max_queue_time_ceil_ms": 2000
            }
        },
        "models": {
            "model-a": {
                "algorithm": "GROQ_multiregion",
                "cache_affinity_backend_selection_count": 2,
                "request_algorithms": { "pulsar": { "algorithm": "pulsar", "seed": 7 } }
            },
            "model-b": "powerOf2"
        }
    }));
    let seed = |model: &str| {
        let method = policies.policy(model).selectable(AlgorithmKind::Pulsar).unwrap();
        let Algorithm::Pulsar(parameters) = &method.algorithm else { panic!() };
        (parameters.seed.as_str().to_owned(), method.admission.require_cache_affinity_key)
    };
    assert_eq!(seed("model-a"), ("7".into(), false));
    assert_eq!(seed("model-b"), ("request-routing-v1".into(), true));
    assert_eq!(seed("model-c"), ("request-routing-v1".into(), true));
    assert!(
        policies.policy("model-b").selectable(AlgorithmKind::Random).is_none(),
        "exactly those that are named"
    );
    assert!(policies.policy("model-b").selectable(AlgorithmKind::PowerOfN).is_some(), "its own always");
    let Algorithm::WaitAndWiden(own) = &policies.policy("model-a").method.algorithm else { panic!() };
    assert_eq!(own.affinity_group, 2);
}

#[test]
fn a_model_takes_nothing_from_the_default_and_selects_its_own_method() {
    let policies = policies(&json!({
        "default": { "algorithm": "pulsar", "seed": "a", "slo_ms": 500, "affinity_from_leading_messages": 1 },
        "models": { "m": { "algorithm": "pulsar", "seed": "b" } }
    }));
    let own = policies.policy("m");
    assert_eq!((own.waiting.slo, own.affinity_from_leading_messages), (None, 0));
    assert_eq!(own.selectable(AlgorithmKind::Pulsar), Some(&own.method));
    let other = policies.policy("x");
    assert_eq!(other.waiting.slo, Some(stargate_routing::Millis(500)));
    assert_eq!(other.selectable(AlgorithmKind::Pulsar), Some(&other.method));
}

#[test]
fn errors_name_path_value_and_what_is_allowed() {
    for (json, key, found, allowed) in [
        (r#"{"defaults":"random"}"#, "defaults", "unknown", "`default`, `request_algorithms` and `models`"),
        (r#"{"sample_count":3}"#, "sample_count", "unknown", "`default.sample_count`"),
        (r#"{"default":"best"}"#, "default", "\"best\"", "`power-of-n`"),
        (r#"{"default":3}"#, "default", "3", "the name of an algorithm, or an object"),
        (r#"{"default":null}"#, "default", "null", "the name of an algorithm"),
        (r#"{"default":{}}"#, "default.algorithm", "nothing", "`pulsar`"),
        (r#"{"default":{"algorithm":7}}"#, "default.algorithm", "7", "`pulsar`"),
        (r#"{"default":{"algorithm":"random","algorithm":"random"}}"#, "default.algorithm", "again", "once"),
        (
            r#"{"default":{"algorithm":"random","n":3}}"#,
            "default.n",
            "random does not use",
            "`require_input_tokens`",
        ),
        (
            r#"{"default":{"algorithm":"random","x":3}}"#,
            "default.x",
            "unknown",
            "for a model: `default_max_wait_ms`",
        ),
        (
            r#"{"default":{"algorithm":"random","request_algorithms":{}}}"#,
            "default.request_algorithms",
            "ignored",
            "`models`",
        ),
        (
            r#"{"default":{"algorithm":"random","max_waiters":0}}"#,
            "default.max_waiters",
            "0",
            "from 1 to 65536",
        ),
        (r#"{"default":{"algorithm":"pulsar","seed":["a"]}}"#, "default.seed", "a list", "a text"),
        (r#"{"models":[]}"#, "models", "a list", "exact model ids"),
        (r#"{"models":{" a":"random"}}"#, r#"models." a""#, "\" a\"", "a model name"),
        (r#"{"models":{"a":"random","a":"random"}}"#, "models.a", "again", "once"),
        (
            r#"{"models":{"a.b":{"algorithm":"wait-and-widen","next_bucket_unlock_factor":-1}}}"#,
            r#"models."a.b".next_bucket_unlock_factor"#,
            "-1",
            "a finite number from 0",
        ),
        (
            r#"{"models":{"a":{"algorithm":"wait-and-widen","max_queue_time_floor_ms":1}}}"#,
            "models.a.max_queue_time_floor_ms",
            "1 without",
            "together, or neither",
        ),
        (
            r#"{"models":{"a":{"algorithm":"random","request_algorithms":{"pulsar":{"algorithm":"pulsar","seed":true}}}}}"#,
            "models.a.request_algorithms.pulsar.seed",
            "true",
            "text",
        ),
        (
            r#"{"request_algorithms":{"pulsar":"random"}}"#,
            "request_algorithms.pulsar",
            "`random`",
            "`pulsar`",
        ),
        (r#"{"request_algorithms":{"best":"random"}}"#, "request_algorithms.best", "\"best\"", "`random`"),
        (
            r#"{"request_algorithms":{"powerOf2":"power-of-n","power-of-n":"power-of-n"}}"#,
            "request_algorithms.power-of-n",
            "again",
            "once",
        ),
        (
            r#"{"request_algorithms":{"random":{"algorithm":"random","slo_ms":5}}}"#,
            "request_algorithms.random.slo_ms",
            "a field of a model",
            "`default`",
        ),
        (
            r#"{"request_algorithms":{"random":{"algorithm":"random","request_algorithms":{}}}}"#,
            "request_algorithms.random.request_algorithms",
            "ignored",
            "top level",
        ),
    ] {
        let violation = violation(json);
        assert_eq!(violation.key, key, "{json}");
        assert!(violation.found.contains(found), "{violation:?}");
        assert!(violation.allowed.contains(allowed), "{violation:?}");
    }
    for json in ["[]", "3", "null", "{\"default\":", "{\"default\":{\"algorithm\":\"pulsar\",\"n\":1e999}}"] {
        assert!(Routing::from_json(json).is_err(), "{json}");
    }
}

#[test]
fn toml_and_json_say_the_same() {
    let toml = Routing::from_toml(
        "default = 'random'\n[request_algorithms.pulsar]\nalgorithm = 'pulsar'\nseed = 7\n\
         [models.'a.b']\nalgorithm = 'wait-and-widen'\nnext_bucket_unlock_factor = 0.1\n",
    );
    let json = json!({
        "default": "random",
        "request_algorithms": { "pulsar": { "algorithm": "pulsar", "seed": "7" } },
        "models": { "a.b": { "algorithm": "wait-and-widen", "next_bucket_unlock_factor": 0.1 } }
    });
    assert_eq!(toml.unwrap().read().unwrap(), document(&json));
}

#[test]
fn warnings_name_what_is_rarely_meant() {
    let of = |text: &str| {
        let config: Config = toml::from_str(text).unwrap();
        config.validate().unwrap();
        config.warnings().join("\n")
    };
    let bounded = "slo_ms = 5000\n";
    for (routing, words) in [
        ("[routing]\ndefault = 'wait-and-widen'".to_owned(), "routing.default: requests may wait for 60 s"),
        ("[routing.default]\nalgorithm = 'pulsar'\ndefault_max_wait_ms = 60000".into(), "may wait for 60 s"),
        (
            format!("[routing.default]\nalgorithm = 'pulsar-wait-and-widen'\n{bounded}"),
            "a full primary never overflows",
        ),
        (
            format!("[routing.default]\nalgorithm = 'pulsar-wait-and-widen'\ncache_affinity_wait_spread = 0.5\n{bounded}"),
            "cache_affinity_wait_spread makes nobody leave",
        ),
        (
            format!("[routing.default]\nalgorithm = 'pulsar-wait-and-widen'\nprimary_admission = 'capacity'\n{bounded}"),
            "max_queued = 0 is below",
        ),
        (
            "[routing.default]\nalgorithm = 'wait-and-widen'\ncache_affinity_wait_ms = 900\nslo_ms = 500".into(),
            "slo_ms = 500 ends the wait before cache_affinity_wait_ms = 900",
        ),
        (
            format!("[routing.default]\nalgorithm = 'wait-and-widen'\ncache_affinity_wait_ms = 900\n{bounded}"),
            "cache_affinity_wait_ms does nothing",
        ),
        (
            "[routing.models.'x.y']\nalgorithm = 'random'\n[[backends]]\nid = 'a'\nurl = 'http://x'\nmodels = ['m']".into(),
            "routing.models.\"x.y\": no static backend serves it",
        ),
        (
            format!(
                "[routing.default]\nalgorithm = 'pulsar-wait-and-widen'\nmax_queued = 4\nmax_queue_time_floor_ms = 0\n\
                 max_queue_time_ceil_ms = 100\n{bounded}[[backends]]\nid = 'a'\nurl = 'http://x'\nmodels = ['m']\n\
                 last_mean_input_tps = 5000.0"
            ),
            "500 tokens of queued prefill",
        ),
        (
            "[routing]\ndefault = 'pulsar'\n[[backends]]\nid = 'a'\nurl = 'http://x'\nmodels = ['m']".into(),
            "backend \"a\" has no max_input_tps, by which pulsar",
        ),
    ] {
        let warnings = of(&routing);
        assert!(warnings.contains(words), "{words:?} is not in {warnings:?} of {routing}");
    }
    let recommended = "[routing.default]\nalgorithm = 'pulsar-wait-and-widen'\nprimary_admission = 'capacity'\n\
                       max_queued = 4\ndefault_max_wait_ms = 5000\nslo_ms = 5000\n";
    assert_eq!(of(recommended), "");
}

/// JSON that is often nearly a document.
fn any_json() -> impl Strategy<Value = Value> {
    let names = [
        "power-of-n",
        "random",
        "pulsar",
        "wait-and-widen",
        "pulsar-wait-and-widen",
        "pulsar-multiregion",
        "best",
        "",
    ];
    let fields = [
        "algorithm",
        "seed",
        "n",
        "sample_count",
        "comparator",
        "max_queue_time_floor_ms",
        "max_queue_time_ceil_ms",
        "next_bucket_unlock_factor",
        "slo_ms",
        "wait_order",
        "max_input_work_seconds",
        "band_widen_interval_ms",
        "request_algorithms",
        "no.such\"field",
    ];
    let name = proptest::sample::select(names.to_vec());
    let scalar = prop_oneof![
        name.clone().prop_map(Value::from),
        (-2..70_i64).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        Just(json!([1])),
    ];
    let object = (
        name.clone(),
        proptest::collection::btree_map(proptest::sample::select(fields.to_vec()), scalar, 0..4),
    )
        .prop_map(|(algorithm, fields)| {
            let mut object: serde_json::Map<String, Value> =
                fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            object.entry("algorithm").or_insert(algorithm.into());
            Value::Object(object)
        });
    let entry = prop_oneof![name.prop_map(Value::from), object];
    let map = |keys: Vec<&'static str>| {
        proptest::collection::btree_map(proptest::sample::select(keys), entry.clone(), 0..4)
    };
    (entry.clone(), proptest::option::of(map(names.to_vec())), map(vec!["a", "a.b", "模型", " x"])).prop_map(
        |(default, request, models)| match request {
            Some(request) => json!({ "default": default, "request_algorithms": request, "models": models }),
            None => json!({ "default": default, "models": models }),
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_reads_as_the_same_and_errors_have_a_path(json in any_json()) {
        match Routing::from_json(&json.to_string()).unwrap().read() {
            Ok(document) => {
                let written = serde_json::to_string(&document).unwrap();
                prop_assert_eq!(Routing::from_json(&written).unwrap().read().unwrap(), document);
            }
            Err(violation) => {
                let roots = ["default", "request_algorithms", "models"];
                prop_assert!(roots.iter().any(|root| violation.key.starts_with(root)), "{:?}", violation);
            }
        }
    }
}
