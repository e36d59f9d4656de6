//! What a request's headers say of it; everything, where they are required to, and nothing where callers are not
//! trusted.

use std::time::Duration;

use stargate_routing::{Millis, Tokens, Waiting};

use crate::{
    error::{ErrorCode, Refusal},
    http::{RequestHead, Span},
    request_id::RequestId,
    settings::HeaderPolicy,
};

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
