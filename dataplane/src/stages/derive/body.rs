//! What a request's body says of it, for what no header gave.
//!
//! It is read leniently: a field of another shape than expected is passed over, so that a new field of an API breaks
//! nothing here.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use stargate_routing::Tokens;

/// Bytes of text that make a token, about, in English and code.
const BYTES_PER_TOKEN: u64 = 4;

/// What the body says, where it is JSON.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FromBody {
    pub(crate) model: Option<String>,
    pub(crate) prompt_cache_key: Option<String>,
    pub(crate) text_bytes: u64,
}

// === impl FromBody ===

impl FromBody {
    pub(crate) fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }

    /// The estimate of input tokens; never 0 for a body with text.
    pub(crate) fn input_tokens(&self) -> Tokens {
        Tokens(self.text_bytes.div_ceil(BYTES_PER_TOKEN))
    }
}

/// The estimate for a body that could not be read.
pub(crate) fn tokens_of_unread_body(length: usize) -> Tokens {
    Tokens((length as u64).div_ceil(BYTES_PER_TOKEN))
}

/// An affinity key made from the first `count` messages of a chat body; `None` when it has no messages.
pub(crate) fn affinity_of_leading_messages(body: &[u8], count: usize) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Chat<'a> {
        #[serde(borrow)]
        messages: Vec<&'a RawValue>,
    }
    let chat: Chat<'_> = serde_json::from_slice(body).ok()?;
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    let mut leading = chat.messages.iter().take(count).peekable();
    leading.peek()?;
    for message in leading {
        hash.update(&(message.get().len() as u64).to_le_bytes());
        hash.update(message.get().as_bytes());
    }
    Some(format!("m{:016x}", hash.digest()).into_bytes())
}

// === the body's fields ===

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Model,
    PromptCacheKey,
    /// Those whose text an engine reads as input, over all APIs served here.
    #[serde(
        alias = "prompt",
        alias = "input",
        alias = "system",
        alias = "instructions",
        alias = "tools",
        alias = "query",
        alias = "documents"
    )]
    Messages,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for FromBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = FromBody;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FromBody, A::Error> {
                let mut from_body = FromBody::default();
                // Of a field that comes twice the last counts, as in the engines' own parsers.
                while let Some(field) = map.next_key()? {
                    match field {
                        Field::Model => from_body.model = filled_text(map.next_value()?),
                        Field::PromptCacheKey => {
                            from_body.prompt_cache_key = filled_text(map.next_value()?);
                        }
                        Field::Messages => {
                            let TextBytes(bytes) = map.next_value()?;
                            from_body.text_bytes = from_body.text_bytes.saturating_add(bytes);
                        }
                        Field::Other => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(from_body)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// A string that is not empty; `None` for anything else.
fn filled_text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok().filter(|text: &String| !text.is_empty())
}

/// Bytes of text in a value of any depth. A number counts as a token id.
struct TextBytes(u64);

/// Members that are no text: labels, and media in base64.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Member {
    #[serde(
        alias = "type",
        alias = "id",
        alias = "tool_call_id",
        alias = "cache_control",
        alias = "image_url",
        alias = "image",
        alias = "input_audio",
        alias = "audio",
        alias = "video_url",
        alias = "file",
        alias = "file_data",
        alias = "source"
    )]
    Role,
    #[serde(other)]
    Text,
}

impl<'de> Deserialize<'de> for TextBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Length;

        impl<'de> Visitor<'de> for Length {
            type Value = TextBytes;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("any value")
            }

            fn visit_str<E>(self, text: &str) -> Result<TextBytes, E> {
                Ok(TextBytes(text.len() as u64))
            }

            fn visit_u64<E>(self, _: u64) -> Result<TextBytes, E> {
                Ok(TextBytes(BYTES_PER_TOKEN))
            }

            fn visit_i64<E>(self, _: i64) -> Result<TextBytes, E> {
                Ok(TextBytes(0))
            }

            fn visit_f64<E>(self, _: f64) -> Result<TextBytes, E> {
                Ok(TextBytes(0))
            }

            fn visit_bool<E>(self, _: bool) -> Result<TextBytes, E> {
                Ok(TextBytes(0))
            }

            fn visit_unit<E>(self) -> Result<TextBytes, E> {
                Ok(TextBytes(0))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TextBytes, A::Error> {
                let mut total = 0_u64;
                while let Some(TextBytes(bytes)) = seq.next_element()? {
                    total = total.saturating_add(bytes);
                }
                Ok(TextBytes(total))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TextBytes, A::Error> {
                let mut total = 0_u64;
                while let Some(member) = map.next_key()? {
                    match member {
                        Member::Role => {
                            map.next_value::<IgnoredAny>()?;
                        }
                        Member::Text => {
                            let TextBytes(bytes) = map.next_value()?;
                            total = total.saturating_add(bytes);
                        }
                    }
                }
                Ok(TextBytes(total))
            }
        }

        deserializer.deserialize_any(Length)
    }
}
