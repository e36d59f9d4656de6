//! What must hold for any input, one function a target. A broken property panics.

use std::{path::Path, sync::LazyLock};

use stargate_controlplane::config::{ConfigError, Document, Layers, Origin, Routing};
use stargate_dataplane::{ExpressionError, method_of};
use stargate_routing::{Method, Policy};

/// Everything may be selected, and one algorithm has bounds that half an overlay can break.
static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let document = r#"{
        "models": { "m": {
            "algorithm": "wait-and-widen", "max_queue_time_floor_ms": 10, "max_queue_time_ceil_ms": 20
        } }
    }"#;
    let routing = Routing::from_json(document).expect("JSON");
    Policy::clone(routing.policies().expect("a document").policy("m"))
});

/// `x-routing-method`: what is selected is one of the methods that may be, with fields within their bounds; a
/// refusal is one line that a caller can be told.
pub fn routing_expression(input: &[u8]) {
    match method_of(&POLICY, input) {
        Ok(method) => {
            let kind = method.algorithm.kind();
            assert!(POLICY.selectable(kind).is_some(), "{kind:?} was selected");
            assert_eq!(Method::with_fields(kind, method.fields()).as_ref(), Ok(&method));
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty() && message.len() < 4096, "{message}");
            if let ExpressionError::Parameter(fault) = error {
                assert!(!fault.field.is_empty() && !fault.allowed.is_empty(), "{message}");
            }
        }
    }
}

/// A routing document as JSON.
pub fn routing_document_json(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(routing) = Routing::from_json(text)
    {
        check(&routing);
    }
}

/// A routing document as TOML.
pub fn routing_document_toml(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(routing) = Routing::from_toml(text)
    {
        check(&routing);
    }
}

/// A whole configuration file: it is usable as a whole, or an error names the file and, beyond syntax, the key.
pub fn config_toml(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut layers = Layers::default();
    layers.file_text(Path::new("f.toml"), text.to_owned());
    match layers.load() {
        Ok(config) => {
            config.validate().expect("a configuration that was loaded is valid");
            check(&config.routing);
            let _ = (config.warnings(), config.summary());
        }
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            if let ConfigError::Value { origin: Origin::File { .. } | Origin::Default, key, problem } = &error
            {
                assert!(key.as_ref().is_none_or(|key| !key.is_empty()) && !problem.is_empty(), "{error}");
            }
        }
    }
}

fn check(routing: &Routing) {
    match routing.read() {
        Ok(document) => {
            let written = serde_json::to_string(&document).expect("JSON");
            let again: Result<Document, _> = Routing::from_json(&written).expect("JSON").read();
            assert_eq!(again.as_ref(), Ok(&document), "{written}");
            let _ = (document.warnings(&[]), routing.policies().expect("it was read before"));
        }
        Err(violation) => {
            assert!(!violation.key.is_empty() && !violation.key.contains('\n'), "{violation:?}");
            assert!(!violation.found.is_empty() && !violation.allowed.is_empty(), "{violation:?}");
        }
    }
}
