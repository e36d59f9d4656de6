//! `POST /v1/chat/completions/render`: the tokens that a chat comes to, which vLLM tells routers that look for shared prefixes.
//!
//! Four bytes are a token, as everywhere here. Texts with a common beginning have common first tokens; more is not asked
//! of a tokenizer that nobody reads from.

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::{answer::Answer, api::append};

/// Where it is asked for.
pub(crate) const PATH: &[u8] = b"/v1/chat/completions/render";

/// Text that one token stands for.
const BYTES_PER_TOKEN: usize = 4;

/// Distinct tokens.
const VOCABULARY: u64 = 128_000;

/// The answer to a chat's body.
pub(crate) fn answer(body: &[u8]) -> Answer {
    match serde_json::from_slice(body) {
        Ok(chat) => Answer::with_status(200, rendered(&chat)),
        Err(error) => Answer::error(400, "invalid_json", &format!("cannot read the body: {error}")),
    }
}

fn rendered(chat: &Value) -> Vec<u8> {
    let text = text(chat);
    let mut out = b"{\"request_id\":\"render\",\"token_ids\":[".to_vec();
    for (index, piece) in text.as_bytes().chunks(BYTES_PER_TOKEN).enumerate() {
        let comma = if index == 0 { "" } else { "," };
        append!(out, "{comma}{}", xxh3_64(piece) % VOCABULARY);
    }
    out.extend_from_slice(b"]}");
    out
}

/// What a chat template makes of it: each message's role and text, in order.
fn text(chat: &Value) -> String {
    let mut text = String::new();
    for message in chat["messages"].as_array().into_iter().flatten() {
        text.push_str(message["role"].as_str().unwrap_or_default());
        text.push('\n');
        match &message["content"] {
            Value::String(content) => text.push_str(content),
            Value::Array(parts) => {
                for part in parts {
                    text.push_str(part["text"].as_str().unwrap_or_default());
                }
            }
            _ => {}
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokens(chat: &Value) -> Vec<u64> {
        let answer: Value = serde_json::from_slice(&answer(chat.to_string().as_bytes()).body).unwrap();
        answer["token_ids"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap()).collect()
    }

    #[test]
    fn a_longer_chat_begins_with_the_tokens_of_the_shorter() {
        let question = json!({"role": "user", "content": "What is a star gate?"});
        let parts = json!({"role": "user", "content": [{"type": "text", "text": "What is a star gate?"}]});
        let reply = json!({"role": "assistant", "content": "A door."});
        let short = tokens(&json!({"messages": [question]}));
        let long = tokens(&json!({"messages": [question, reply]}));
        // "user\n" and 20 characters and a line feed: 26 bytes.
        assert_eq!(short.len(), 7);
        assert_eq!(long[..6], short[..6]);
        assert_eq!(tokens(&json!({"messages": [parts]})), short);
        assert_eq!(answer(b"{").status, 400);
    }
}
