//! Stage three: what a request is routed by: from its headers, and where they are silent from its body.
//!
//! A body is only looked into for what no header gave. Nothing here knows where the request goes, or a connection.

mod body;
mod headers;

use std::time::Duration;

use stargate_routing::{Millis, RoutingRequest, Snapshot, Tokens, Waiting};

use self::body::FromBody;
pub(crate) use self::headers::FromHeaders;
use crate::error::{ErrorCode, Refusal};

/// What a request is routed by, complete.
#[derive(Debug)]
pub(crate) struct Derived {
    pub(crate) headers: Box<FromHeaders>,
    pub(crate) model: String,
    pub(crate) input_tokens: Tokens,
    pub(crate) affinity_key: Option<Vec<u8>>,
}

/// Finds out what `body` is to be routed by, as far as `headers` did not say, and they have to say all when they
/// are `strict`. `leading_messages` tells how many messages make the affinity key for a routing key and a model.
pub(crate) fn derive(
    strict: bool,
    leading_messages: impl FnOnce(Option<&str>, &str) -> usize,
    mut headers: Box<FromHeaders>,
    body: &[u8],
) -> Result<Derived, Refusal> {
    if strict || headers.is_complete() {
        let model = headers.model.take().unwrap_or_default();
        let input_tokens = headers.input_tokens.unwrap_or_default();
        let affinity_key = headers.affinity_key.take();
        return Ok(Derived { headers, model, input_tokens, affinity_key });
    }
    let from_body = FromBody::read(body);
    let (model, unread) = match (headers.model.take(), &from_body) {
        (Some(model), body) => (model, body.is_err()),
        (None, Ok(FromBody { model: Some(model), .. })) => (model.clone(), false),
        (None, Ok(_)) => {
            let message = "no model is named: neither by the body's `model` nor by a header `x-model`";
            return Err(Refusal::new(ErrorCode::MissingModel, message));
        }
        (None, Err(error)) => {
            let message = format!(
                "no model is named: the body is not a JSON object ({error}), and there is no header `x-model`"
            );
            return Err(Refusal::new(ErrorCode::MissingModel, message));
        }
    };
    let from_body = from_body.unwrap_or_default();
    let estimate = if unread { body::tokens_of_unread_body(body.len()) } else { from_body.input_tokens() };
    let affinity_key =
        headers.affinity_key.take().or_else(|| from_body.prompt_cache_key.map(String::into_bytes)).or_else(
            || match leading_messages(headers.routing_key.as_deref(), &model) {
                0 => None,
                count => body::affinity_of_leading_messages(body, count),
            },
        );
    let input_tokens = headers.input_tokens.unwrap_or(estimate);
    Ok(Derived { headers, model, input_tokens, affinity_key })
}

/// How many leading messages make the affinity key of a request that brings none; 0 turns that off.
pub(crate) fn leading_messages(snapshot: &Snapshot, routing_key: Option<&str>, model: &str) -> usize {
    snapshot.target(routing_key, model).map_or(0, |target| target.policy.affinity_from_leading_messages)
}

// === impl Derived ===

impl Derived {
    /// The time to first token that it wants, or its model does where it does not say; an SLO of 0 is none.
    pub(crate) fn slo(&self, waiting: &Waiting) -> Option<Millis> {
        self.headers.slo.or(waiting.slo).filter(|slo| slo.0 > 0)
    }

    /// What it is routed by, with this SLO, at its arrival.
    pub(crate) fn request(&self, slo: Option<Millis>) -> RoutingRequest<'_> {
        RoutingRequest {
            input_tokens: self.input_tokens,
            input_tokens_given: self.headers.input_tokens.is_some(),
            affinity_key: self.affinity_key.as_deref(),
            priority: self.headers.priority.unwrap_or_default(),
            slo,
            elapsed: Duration::ZERO,
            is_waiting: false,
        }
    }
}

#[cfg(test)]
mod tests;
