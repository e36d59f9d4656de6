//! What is asked for, and its JSON body: of the size that was asked for, and as short as it can be where its fields need more.
//!
//! A body knows nothing of the head before it, nor of which request it is sent with.

use serde_json::{Value, json};

/// What to ask for.
#[derive(Clone, Debug)]
pub(crate) struct MessageOptions {
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// Size of the JSON body; a body that needs more for its fields is as short as it can be.
    pub(crate) body_bytes: usize,
    pub(crate) max_tokens: u64,
    /// Distinct values of `x-cache-affinity-key`, each with a text of its own; 0 sends none.
    pub(crate) affinity_keys: usize,
    /// Keys come as if drawn at random, the same at every run, not in turn.
    pub(crate) shuffled: bool,
    /// The rate at which a mock engine shall generate, whatever its own is.
    pub(crate) chunks_per_s: Option<f64>,
    /// Further headers, as `name: value`.
    pub(crate) headers: Vec<String>,
}

/// The body of a request of one message, which begins with `opening`.
pub(super) fn body(options: &MessageOptions, opening: &str) -> String {
    let with_content = |content: &str| chat(options, &json!([{"role": "user", "content": content}]));
    let missing = options.body_bytes.saturating_sub(with_content(opening).len());
    with_content(&format!("{opening}{}", filling(missing)))
}

/// The JSON body of a chat.
pub(super) fn chat(options: &MessageOptions, messages: &Value) -> String {
    let mut body = json!({"model": options.model, "max_tokens": options.max_tokens, "messages": messages});
    if options.stream {
        body["stream"] = json!(true);
    }
    body.to_string()
}

/// So many bytes of text that needs no escaping.
pub(super) fn filling(bytes: usize) -> String {
    "What does the star gate say today? ".chars().cycle().take(bytes).collect()
}
