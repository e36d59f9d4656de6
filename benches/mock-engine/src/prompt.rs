//! Reads from a request's body what costs an engine time: model, text length, output length, and what prefix it shares.
//!
//! One pass, no tree: strings are measured and hashed where they stand. Fields that are not known are skipped.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Text that one token stands for, the estimate that the gateway makes too.
const BYTES_PER_TOKEN: u64 = 4;

/// Elements of `messages` (or of a content list) that identify a conversation: the system prompt and the first question
/// stay the same over all of its turns.
const LEADING_ELEMENTS: usize = 2;

/// Bytes of a plain string that identify it.
const LEADING_BYTES: usize = 1024;

/// What a body asks for.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Prompt {
    /// The model's name.
    pub(crate) model: Option<String>,
    #[serde(default)]
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    #[serde(default)]
    messages: Text,
    #[serde(default, rename = "prompt")]
    text: Text,
    #[serde(default)]
    input: Text,
    #[serde(default)]
    system: Text,
    #[serde(default)]
    instructions: Text,
    #[serde(default)]
    query: Text,
    #[serde(default)]
    documents: Text,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

/// Size and identity of a text, however nested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Text {
    bytes: u64,
    leading_hash: u64,
}

// === impl Prompt ===

impl Prompt {
    /// Reads a JSON body.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }

    /// Whether the answer is to be streamed.
    pub(crate) fn stream(&self) -> bool {
        self.stream.unwrap_or(false)
    }

    /// Whether a stream's usage comes in an event of its own, as `OpenAI` does it.
    pub(crate) fn include_usage(&self) -> bool {
        self.stream_options.as_ref().and_then(|options| options.include_usage).unwrap_or(false)
    }

    /// Output tokens asked for.
    pub(crate) fn output_tokens(&self) -> Option<u64> {
        self.max_completion_tokens.or(self.max_tokens).or(self.max_output_tokens)
    }

    /// Input tokens, at 4 bytes of text each; at least one.
    pub(crate) fn input_tokens(&self) -> u64 {
        let bytes: u64 = self.texts().iter().map(|text| text.bytes).sum();
        bytes.div_ceil(BYTES_PER_TOKEN).max(1)
    }

    /// Identity of the leading messages: the cache key of a request that names none.
    pub(crate) fn leading_hash(&self) -> u64 {
        self.texts().iter().fold(0, |hash, text| combine(hash, text.leading_hash))
    }

    fn texts(&self) -> [Text; 7] {
        [self.system, self.instructions, self.messages, self.text, self.input, self.query, self.documents]
    }
}

/// Cache key of a named prefix.
pub(crate) fn affinity_hash(key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, 1)
}

fn combine(hash: u64, next: u64) -> u64 {
    (hash.rotate_left(23) ^ next).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

// === impl Text ===

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text, or a list of texts, messages or content parts")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        let leading = &text.as_bytes()[..text.len().min(LEADING_BYTES)];
        Ok(Text { bytes: text.len() as u64, leading_hash: xxh3_64_with_seed(leading, 0) })
    }

    /// A token id.
    fn visit_u64<E>(self, token: u64) -> Result<Text, E> {
        Ok(Text { bytes: BYTES_PER_TOKEN, leading_hash: token })
    }

    fn visit_i64<E>(self, _: i64) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_unit<E>(self) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Text, A::Error> {
        let mut whole = Text::default();
        let mut index = 0;
        while let Some(part) = list.next_element::<Text>()? {
            whole.bytes += part.bytes;
            if index < LEADING_ELEMENTS {
                whole.leading_hash = combine(whole.leading_hash, part.leading_hash);
            }
            index += 1;
        }
        Ok(whole)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
        let mut whole = Text::default();
        while let Some(key) = map.next_key::<Key>()? {
            if key.holds_text {
                let part = map.next_value::<Text>()?;
                whole.bytes += part.bytes;
                whole.leading_hash = combine(whole.leading_hash, part.leading_hash);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(whole)
    }
}

/// A key of a message or content part.
struct Key {
    holds_text: bool,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Key, E> {
        Ok(Key { holds_text: matches!(key, "content" | "text" | "input" | "output" | "arguments") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Prompt {
        Prompt::parse(body.as_bytes()).unwrap()
    }

    #[test]
    fn counts_text_not_syntax() {
        let prompt =
            parse(r#"{"messages":[{"role":"user","content":"12345678"}],"x":[1,{"y":"long text"}]}"#);
        assert_eq!(prompt.input_tokens(), 2);
        let parts = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"1234"},{"type":"image_url"}]}]}"#;
        assert_eq!(parse(parts).input_tokens(), 1);
        assert_eq!(parse(r#"{"prompt":"123456789"}"#).input_tokens(), 3);
        assert_eq!(parse(r#"{"input":[1,2,3]}"#).input_tokens(), 3);
        assert_eq!(parse(r#"{"system":"1234","messages":[]}"#).input_tokens(), 1);
        assert_eq!(parse("{}").input_tokens(), 1);
    }

    #[test]
    fn reads_length_and_streaming() {
        let prompt =
            parse(r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":7}"#);
        assert_eq!(prompt.model.as_deref(), Some("m"));
        assert!(prompt.stream() && prompt.include_usage());
        assert_eq!(prompt.output_tokens(), Some(7));
        assert_eq!(parse(r#"{"max_completion_tokens":3,"max_tokens":null}"#).output_tokens(), Some(3));
        assert_eq!(parse(r#"{"stream":null}"#).output_tokens(), None);
    }

    #[test]
    fn turns_of_one_conversation_share_their_leading_messages() {
        let turn = |extra: &str| {
            parse(&format!(
                r#"{{"messages":[{{"role":"system","content":"s"}},{{"role":"user","content":"a"}}{extra}]}}"#
            ))
        };
        let first = turn("").leading_hash();
        assert_eq!(
            first,
            turn(r#",{"role":"assistant","content":"b"},{"role":"user","content":"c"}"#).leading_hash()
        );
        let other = parse(r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"z"}]}"#);
        assert_ne!(first, other.leading_hash());
    }

    #[test]
    fn refuses_what_is_not_a_request() {
        assert!(Prompt::parse(b"{").is_err());
        assert!(Prompt::parse(b"[1]").is_err());
        assert!(Prompt::parse(br#"{"model":3}"#).is_err());
    }
}
