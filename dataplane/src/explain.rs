//! What a request would be routed by, for `explain`: found out by the code that serves requests, from headers
//! and a body that never were on a connection.

use std::{fmt::Write, time::Duration};

use stargate_routing::{Method, Millis, RoutingRequest, Snapshot, Target, Tokens};

use crate::{
    core::placing::unknown_target,
    error::{ErrorCode, Refusal},
    http::RequestHead,
    routing_expression::method_of,
    settings::Settings,
    stages::derive::{Derived, FromHeaders, derive, leading_messages},
};

/// A request that has been read, with what it would be routed by.
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// The target that serves it.
    pub target: &'a Target,
    /// The model's method, or the one that it selects.
    pub method: Method,
    /// Its own time to first token, or the model's.
    pub slo: Option<Millis>,
    derived: Derived,
}

/// Why a request would be refused before anything is decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestRefusal {
    /// What it would be answered with.
    pub code: ErrorCode,
    /// What was wrong and what is allowed.
    pub message: String,
}

/// Reads a request as a core would: `headers` are names and values in order, `body` may be empty.
///
/// # Errors
/// With what the request would be refused with before it is decided where it goes; also for a name or value that
/// no HTTP header can have.
pub fn read_request<'a>(
    settings: &Settings,
    snapshot: &'a Snapshot,
    headers: &[(String, String)],
    body: &[u8],
) -> Result<ReadRequest<'a>, RequestRefusal> {
    let bytes = head_bytes(headers)?;
    let invalid = |why: String| RequestRefusal { code: ErrorCode::InvalidRequest, message: why };
    let head = RequestHead::parse(&bytes, settings.limits.max_head_bytes, settings.limits.max_headers)
        .map_err(|error| invalid(error.to_string()))?
        .ok_or_else(|| invalid("the headers do not make a request".to_owned()))?;
    let policy = &settings.headers;
    let request_id = FromHeaders::request_id(&head, &bytes, policy);
    let headers = FromHeaders::read(&head, &bytes, policy, request_id.as_ref())?;
    let leading_messages =
        |routing_key: Option<&str>, model: &str| leading_messages(snapshot, routing_key, model);
    let derived = derive(policy.strict, leading_messages, headers, body)?;
    let routing_key = derived.headers.routing_key.as_deref();
    let target = snapshot
        .target(routing_key, &derived.model)
        .ok_or_else(|| unknown_target(routing_key, &derived.model))?;
    let method = match &derived.headers.routing_method {
        None => target.policy.method.clone(),
        Some(expression) => method_of(&target.policy, expression).map_err(Refusal::from)?,
    };
    let slo = derived.slo(&target.policy.waiting);
    Ok(ReadRequest { target, method, slo, derived })
}

/// The head of a request with these headers. What would end a line early is no header.
fn head_bytes(headers: &[(String, String)]) -> Result<Vec<u8>, RequestRefusal> {
    let mut head = "POST /v1/chat/completions HTTP/1.1\r\nhost: explain\r\n".to_owned();
    for (name, value) in headers {
        if name.contains(['\r', '\n', ':']) || value.contains(['\r', '\n']) {
            let message =
                format!("header {name:?}: a line break, or a colon in a name, is no part of a header");
            return Err(RequestRefusal { code: ErrorCode::InvalidHeader, message });
        }
        // What frames a body has nothing to say here: the body is at hand.
        if !["host", "content-length", "transfer-encoding"].iter().any(|own| name.eq_ignore_ascii_case(own)) {
            // Writing to a string cannot fail.
            let _ = write!(head, "{name}: {value}\r\n");
        }
    }
    head.push_str("\r\n");
    Ok(head.into_bytes())
}

// === impl ReadRequest ===

impl ReadRequest<'_> {
    /// What is decided on, so long after the request's arrival: it has waited since.
    pub fn routing_request(&self, elapsed: Duration) -> RoutingRequest<'_> {
        RoutingRequest { elapsed, is_waiting: elapsed > Duration::ZERO, ..self.derived.request(self.slo) }
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.derived.model
    }

    /// Input tokens, and whether the caller gave them.
    pub fn input_tokens(&self) -> (Tokens, bool) {
        (self.derived.input_tokens, self.derived.headers.input_tokens.is_some())
    }

    /// The affinity key, if it has one.
    pub fn affinity_key(&self) -> Option<&[u8]> {
        self.derived.affinity_key.as_deref()
    }
}

// === impl RequestRefusal ===

impl From<Refusal> for RequestRefusal {
    fn from(refusal: Refusal) -> Self {
        Self { code: refusal.code, message: refusal.message.into_owned() }
    }
}

#[cfg(test)]
mod tests;
