//! The shapes of answers: what each endpoint wraps around the same tokens.
//!
//! Written straight into a buffer, since a mock that is slow measures itself. Texts need no escaping (see `text.rs`),
//! names were quoted once.

mod chat;
mod completion;
pub(crate) mod embeddings;
mod messages;
pub(crate) mod rerank;
mod responses;

use super::text::Words;

/// An endpoint that generates text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completion,
    /// `/v1/responses`.
    Responses,
    /// `/v1/messages` (Anthropic's).
    Messages,
}

/// What an answer reports besides its text.
pub(crate) struct Facts<'a> {
    /// The model's name as a JSON string, quotes included.
    pub(crate) model: &'a str,
    /// Number of the request: its id.
    pub(crate) ordinal: u64,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) input_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) output_tokens: u64,
    /// Whether the answer ends because the caller's limit was reached.
    pub(crate) truncated: bool,
    /// Whether a stream's usage comes in an event of its own.
    pub(crate) include_usage: bool,
}

// === impl Api ===

impl Api {
    /// The endpoint at `path`, if it generates text.
    pub(crate) fn at(path: &[u8]) -> Option<Self> {
        match path {
            b"/v1/chat/completions" => Some(Self::Chat),
            b"/v1/completions" => Some(Self::Completion),
            b"/v1/responses" => Some(Self::Responses),
            b"/v1/messages" => Some(Self::Messages),
            _ => None,
        }
    }

    /// Appends the body of an answer that is not streamed.
    pub(crate) fn whole(self, facts: &Facts, words: Words, out: &mut Vec<u8>) {
        match self {
            Self::Chat => chat::whole(facts, words, out),
            Self::Completion => completion::whole(facts, words, out),
            Self::Responses => responses::whole(facts, words, out),
            Self::Messages => messages::whole(facts, words, out),
        }
    }

    /// Appends the events before the first token, if there are any.
    pub(crate) fn opening(self, facts: &Facts, out: &mut Vec<u8>) {
        match self {
            Self::Chat | Self::Completion => {}
            Self::Responses => responses::opening(facts, out),
            Self::Messages => messages::opening(facts, out),
        }
    }

    /// Appends the event of one token.
    pub(crate) fn token(self, facts: &Facts, index: u64, word: &str, out: &mut Vec<u8>) {
        match self {
            Self::Chat => chat::token(facts, index, word, out),
            Self::Completion => completion::token(facts, word, out),
            Self::Responses => responses::token(facts, index, word, out),
            Self::Messages => messages::token(word, out),
        }
    }

    /// Appends the events after the last token.
    pub(crate) fn closing(self, facts: &Facts, words: Words, out: &mut Vec<u8>) {
        match self {
            Self::Chat => chat::closing(facts, out),
            Self::Completion => completion::closing(facts, out),
            Self::Responses => responses::closing(facts, words, out),
            Self::Messages => messages::closing(facts, out),
        }
    }

    /// What tells that a stream is complete, after its last event.
    pub(crate) fn end_marker(self) -> &'static str {
        match self {
            Self::Chat | Self::Completion => "data: [DONE]\n\n",
            Self::Responses | Self::Messages => "",
        }
    }
}

/// Appends formatted text: writing to a vector cannot fail.
macro_rules! append {
    ($out:expr, $($format:tt)*) => {{
        use std::io::Write;
        let _ = write!($out, $($format)*);
    }};
}
pub(crate) use append;

/// `usage` of `OpenAI`'s endpoints.
fn append_usage(facts: &Facts, out: &mut Vec<u8>) {
    append!(
        out,
        "{{\"prompt_tokens\":{},\"completion_tokens\":{},\"total_tokens\":{},\
         \"prompt_tokens_details\":{{\"cached_tokens\":{}}}}}",
        facts.input_tokens,
        facts.output_tokens,
        facts.input_tokens + facts.output_tokens,
        facts.cached_tokens
    );
}

fn finish_reason(facts: &Facts) -> &'static str {
    if facts.truncated { "length" } else { "stop" }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const FACTS: Facts = Facts {
        model: "\"m\"",
        ordinal: 7,
        created: 1,
        input_tokens: 20,
        cached_tokens: 16,
        output_tokens: 3,
        truncated: true,
        include_usage: true,
    };

    fn words() -> Words {
        Words::new(fastrand::Rng::with_seed(1))
    }

    fn text() -> String {
        let mut bytes = Vec::new();
        words().append(3, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    /// The data of each event of a whole stream, checked to be well-formed.
    fn stream(api: Api) -> Vec<Value> {
        let mut out = Vec::new();
        api.opening(&FACTS, &mut out);
        let mut each = words();
        for index in 0..3 {
            api.token(&FACTS, index, each.next_word(), &mut out);
        }
        api.closing(&FACTS, words(), &mut out);
        out.extend_from_slice(api.end_marker().as_bytes());
        let stream = String::from_utf8(out).unwrap();
        let mut events = Vec::new();
        for event in stream.strip_suffix("\n\n").unwrap().split("\n\n") {
            let (name, data) = match event.strip_prefix("event: ") {
                Some(named) => named.split_once("\ndata: ").map(|(name, data)| (Some(name), data)).unwrap(),
                None => (None, event.strip_prefix("data: ").unwrap()),
            };
            if data == "[DONE]" {
                continue;
            }
            let value: Value = serde_json::from_str(data).unwrap();
            assert_eq!(name, value["type"].as_str(), "{event}");
            events.push(value);
        }
        events
    }

    fn whole(api: Api) -> Value {
        let mut out = Vec::new();
        api.whole(&FACTS, words(), &mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn chat() {
        let answer = whole(Api::Chat);
        assert_eq!(answer["choices"][0]["message"]["content"], text());
        assert_eq!(answer["choices"][0]["finish_reason"], "length");
        assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 16);
        assert_eq!(answer["usage"]["total_tokens"], 23);
        let events = stream(Api::Chat);
        let streamed: String =
            events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(streamed, text());
        assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
        assert_eq!(events.last().unwrap()["usage"]["prompt_tokens"], 20);
        assert_eq!(events.last().unwrap()["choices"], serde_json::json!([]));
    }

    #[test]
    fn completion() {
        assert_eq!(whole(Api::Completion)["choices"][0]["text"], text());
        let events = stream(Api::Completion);
        let streamed: String =
            events.iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect();
        assert_eq!(streamed, text());
        assert_eq!(events.last().unwrap()["usage"]["completion_tokens"], 3);
    }

    #[test]
    fn responses() {
        let answer = whole(Api::Responses);
        assert_eq!(answer["output"][0]["content"][0]["text"], text());
        assert_eq!(answer["usage"]["input_tokens_details"]["cached_tokens"], 16);
        let events = stream(Api::Responses);
        let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
        let streamed: String = events
            .iter()
            .filter(|event| event["type"] == "response.output_text.delta")
            .filter_map(|event| event["delta"].as_str())
            .collect();
        assert_eq!(streamed, text());
        assert_eq!(events.last().unwrap()["response"]["output"][0]["content"][0]["text"], text());
    }

    #[test]
    fn messages() {
        let answer = whole(Api::Messages);
        assert_eq!(answer["content"][0]["text"], text());
        assert_eq!(answer["usage"]["cache_read_input_tokens"], 16);
        assert_eq!(answer["usage"]["input_tokens"], 4);
        let events = stream(Api::Messages);
        assert_eq!(events[0]["type"], "message_start");
        assert_eq!(events.last().unwrap()["type"], "message_stop");
        let streamed: String = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
        assert_eq!(streamed, text());
    }
}
