//! What a request is routed by: from its headers, and where they are silent from its body.
//!
//! The body is only looked into for what no header gave. It is read leniently: a field of another shape than
//! expected is passed over, so that a new field of an API breaks nothing here.

use std::{fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use stargate_routing::{Millis, Tokens, Waiting};

use crate::{
    error::{ErrorCode, Refusal},
    http::{RequestHead, Span},
    request_id::RequestId,
    settings::HeaderPolicy,
};

/// Bytes of text that make a token, about, in English and code.
const BYTES_PER_TOKEN: u64 = 4;

/// What headers say.
#[derive(Debug, Default)]
pub(crate) struct FromHeaders {
    pub(crate) model: Option<String>,
    pub(crate) input_tokens: Option<Tokens>,
    pub(crate) routing_key: Option<String>,
    /// The routing expression as it came; it is read once the request's target is known.
    pub(crate) routing_method: Option<Box<[u8]>>,
    pub(crate) affinity_key: Option<Vec<u8>>,
    pub(crate) priority: Option<u32>,
    pub(crate) slo: Option<Millis>,
    /// At most [`Waiting::MAX_WAIT`].
    pub(crate) max_wait: Option<Duration>,
    pub(crate) retry_wait: Option<Duration>,
}

/// What the body says, where it is JSON.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FromBody {
    pub(crate) model: Option<String>,
    pub(crate) prompt_cache_key: Option<String>,
    pub(crate) text_bytes: u64,
}

// === impl FromHeaders ===

impl FromHeaders {
    /// `request_id` is what [`Self::request_id`] found.
    pub(crate) fn read(
        head: &RequestHead,
        bytes: &[u8],
        policy: &HeaderPolicy,
        request_id: Option<&RequestId>,
    ) -> Result<Box<Self>, Refusal> {
        if !policy.trusted {
            return Ok(Box::default());
        }
        let headers = &head.stargate;
        let text = |span: Option<Span>, name| {
            span.map(|span| text(span.of_bytes(bytes), name).map(str::to_owned)).transpose()
        };
        let number = |span: Option<Span>, name, max| {
            span.map(|span| number(span.of_bytes(bytes), name, max)).transpose()
        };
        if headers.request_id.is_some() && request_id.is_none() {
            return Err(invalid("x-request-id", "1 to 128 printable ASCII characters are allowed"));
        }
        let model = text(headers.model, "x-model")?;
        if model.as_deref() == Some("") {
            return Err(invalid("x-model", "it is empty"));
        }
        let affinity = [headers.cache_affinity_key, headers.session_id].into_iter().flatten();
        let affinity_key = affinity.map(|span| span.of_bytes(bytes)).find(|key| !key.is_empty());
        let from_headers = Box::new(Self {
            model,
            input_tokens: number(headers.input_tokens, "x-input-tokens", u64::MAX)?.map(Tokens),
            routing_key: text(headers.routing_key, "x-routing-key")?.filter(|key| !key.is_empty()),
            routing_method: headers.routing_method.map(|span| span.of_bytes(bytes).into()),
            affinity_key: affinity_key.map(<[u8]>::to_vec),
            priority: number(headers.priority, "x-priority", u64::from(u32::MAX))?.map(|value| value as u32),
            slo: number(headers.slo_ms, "x-request-slo-ms", u64::MAX)?.map(Millis),
            max_wait: number(headers.max_wait_ms, "x-max-wait-ms", u64::MAX)?
                .map(|wait| Duration::from_millis(wait).min(Waiting::MAX_WAIT)),
            retry_wait: number(headers.retry_wait_ms, "x-stargate-max-wait-ms", u64::MAX)?
                .map(Duration::from_millis),
        });
        if policy.strict {
            from_headers.require_all(request_id.is_some())?;
        }
        Ok(from_headers)
    }

    /// The caller's id for the request, if it gave a valid one: also where another header is refused.
    pub(crate) fn request_id(head: &RequestHead, bytes: &[u8], policy: &HeaderPolicy) -> Option<RequestId> {
        let span = head.stargate.request_id.filter(|_| policy.trusted)?;
        RequestId::from_caller(span.of_bytes(bytes))
    }

    fn require_all(&self, has_request_id: bool) -> Result<(), Refusal> {
        let missing = if self.model.is_none() {
            "x-model"
        } else if !has_request_id {
            "x-request-id"
        } else if self.input_tokens.is_none() {
            "x-input-tokens"
        } else {
            return Ok(());
        };
        let message =
            format!("header `{missing}` is missing; this gateway runs with `headers.mode = \"strict\"`");
        Err(Refusal::new(ErrorCode::MissingHeader, message))
    }

    /// Whether nothing is left to look for in the body.
    pub(crate) fn is_complete(&self) -> bool {
        self.model.is_some() && self.input_tokens.is_some() && self.affinity_key.is_some()
    }
}

fn invalid(name: &str, why: &str) -> Refusal {
    Refusal::new(ErrorCode::InvalidHeader, format!("header `{name}`: {why}"))
}

fn text<'a>(value: &'a [u8], name: &str) -> Result<&'a str, Refusal> {
    std::str::from_utf8(value).map_err(|_| invalid(name, "it is not UTF-8"))
}

fn number(value: &[u8], name: &str, max: u64) -> Result<u64, Refusal> {
    std::str::from_utf8(value)
        .ok()
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .filter(|number| *number <= max)
        .ok_or_else(|| {
            let found = String::from_utf8_lossy(&value[..value.len().min(40)]).into_owned();
            invalid(name, &format!("`{found}` is not a whole number from 0 to {max}"))
        })
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

#[cfg(test)]
mod tests;
