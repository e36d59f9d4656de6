use super::{body::affinity_of_leading_messages, *};
use crate::{http::RequestHead, settings::HeaderPolicy};

fn headers(lines: &str, policy: &HeaderPolicy) -> Result<Box<FromHeaders>, Refusal> {
    let text = format!("POST /v1/x HTTP/1.1\r\nhost: a\r\n{lines}\r\n");
    let head = RequestHead::parse(text.as_bytes(), 4096, 100).unwrap().unwrap();
    let id = FromHeaders::request_id(&head, text.as_bytes(), policy);
    FromHeaders::read(&head, text.as_bytes(), policy, id.as_ref())
}

fn body(json: &str) -> FromBody {
    FromBody::read(json.as_bytes()).unwrap()
}

#[test]
fn a_plain_chat_body_gives_model_and_tokens() {
    let found = body(
        r#"{"model":"m","stream":true,"messages":[{"role":"system","content":"12345678"},
           {"role":"user","content":[{"type":"text","text":"1234"},{"type":"image_url","image_url":{"url":"data:xxxxxxxx"}}]}]}"#,
    );
    assert_eq!(found, FromBody { model: Some("m".into()), prompt_cache_key: None, text_bytes: 12 });
    assert_eq!(found.input_tokens(), Tokens(3));
}

#[test]
fn every_apis_input_counts() {
    assert_eq!(body(r#"{"prompt":"12345"}"#).input_tokens(), Tokens(2));
    assert_eq!(body(r#"{"prompt":[1,2,3]}"#).input_tokens(), Tokens(3));
    assert_eq!(body(r#"{"input":["1234","1234"],"instructions":"1234"}"#).input_tokens(), Tokens(3));
    assert_eq!(body(r#"{"query":"1234","documents":["1234",{"text":"1234"}]}"#).input_tokens(), Tokens(3));
    assert_eq!(body(r#"{"system":"1234","messages":[]}"#).input_tokens(), Tokens(1));
}

#[test]
fn fields_of_another_shape_are_passed_over() {
    let found = body(r#"{"model":{"new":"api"},"prompt_cache_key":[1],"messages":null,"x":[[[]]]}"#);
    assert_eq!(found, FromBody::default());
    assert_eq!(body(r#"{"model":"a","model":"b\n"}"#).model.as_deref(), Some("b\n"));
    assert!(FromBody::read(b"not json").is_err());
    assert!(FromBody::read(b"[]").is_err());
}

#[test]
fn leading_messages_make_a_key_that_later_ones_do_not_change() {
    let key = |json: &str| affinity_of_leading_messages(json.as_bytes(), 2);
    let short = key(r#"{"messages":[{"a":1},{"b":2}]}"#).unwrap();
    assert_eq!(key(r#"{"messages":[{"a":1},{"b":2},{"c":3}]}"#).unwrap(), short);
    assert_ne!(key(r#"{"messages":[{"a":1},{"b":3}]}"#).unwrap(), short);
    assert_eq!(key(r#"{"messages":[]}"#), None);
    assert_eq!(key(r#"{"prompt":"x"}"#), None);
}

#[test]
fn headers_are_read_and_a_malformed_one_is_named() {
    let policy = HeaderPolicy::default();
    let found = headers(
        "x-model: m\r\nx-input-tokens: 7\r\nx-routing-key: k\r\nx-cache-affinity-key: \r\nx-multi-turn-session-id: s\r\n\
         x-priority: 4\r\nx-request-slo-ms: 9\r\nx-max-wait-ms: 999999\r\nx-stargate-max-wait-ms: 5\r\nx-request-id: r\r\n",
        &policy,
    )
    .unwrap();
    assert_eq!(found.model.as_deref(), Some("m"));
    assert_eq!(found.input_tokens, Some(Tokens(7)));
    assert_eq!(found.affinity_key.as_deref(), Some(&b"s"[..]), "a blank key is absent");
    assert_eq!((found.priority, found.slo), (Some(4), Some(Millis(9))));
    assert_eq!(found.max_wait, Some(Waiting::MAX_WAIT));
    assert!(found.is_complete());
    for (line, name) in [
        ("x-input-tokens: -1\r\n", "x-input-tokens"),
        ("x-input-tokens: 1.5\r\n", "x-input-tokens"),
        ("x-priority: 4294967296\r\n", "x-priority"),
        ("x-request-slo-ms: soon\r\n", "x-request-slo-ms"),
        ("x-max-wait-ms: \r\n", "x-max-wait-ms"),
        ("x-model: \r\n", "x-model"),
        ("x-request-id: a b\r\n", "x-request-id"),
    ] {
        let refusal = headers(line, &policy).expect_err(line);
        assert_eq!(refusal.code, ErrorCode::InvalidHeader);
        assert!(refusal.message.contains(name), "{}", refusal.message);
    }
}

#[test]
fn strict_mode_names_what_is_missing_and_untrusted_callers_are_not_heard() {
    let strict = HeaderPolicy { strict: true, ..HeaderPolicy::default() };
    let refusal = headers("x-model: m\r\nx-request-id: r\r\n", &strict).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::MissingHeader);
    assert!(refusal.message.contains("x-input-tokens"));
    let untrusted = HeaderPolicy { trusted: false, ..HeaderPolicy::default() };
    let found = headers("x-model: m\r\nx-priority: nonsense\r\n", &untrusted).unwrap();
    assert!(found.model.is_none() && found.priority.is_none());
}
