//! Answers that this gateway gives itself: errors, health, the list of models.
//!
//! What is said and in which words, as bytes; whether it is said, and on which terms, is for `refuse` and `local`.

use std::fmt::Write;

use serde::Serialize;
use stargate_routing::Snapshot;

use crate::{
    error::{ErrorCode, Refusal},
    request_id::RequestId,
};

/// An answer of our own.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    content_type: &'static str,
    headers: String,
    body: String,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: ErrorFields<'a>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    code: &'a str,
    param: (),
}

#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

#[derive(Serialize)]
struct ModelList<'a> {
    object: &'static str,
    data: Vec<Model<'a>>,
}

/// The JSON of an error, in OpenAI's shape.
pub(crate) fn error_json(code: ErrorCode, message: &str) -> String {
    let row = code.row();
    let body = ErrorBody { error: ErrorFields { message, kind: row.kind, code: row.code, param: () } };
    serde_json::to_string(&body).unwrap_or_default()
}

// === impl Answer ===

impl Answer {
    /// The error that `refusal` asks for.
    pub(crate) fn error(refusal: &Refusal) -> Self {
        let row = refusal.code.row();
        let mut headers = format!("x-stargate-error-code: {}\r\n", row.code);
        if let Some(seconds) = refusal.retry_after_s() {
            let _ = write!(headers, "retry-after: {seconds}\r\n");
        }
        Self {
            status: row.status,
            content_type: "application/json",
            headers,
            body: error_json(refusal.code, &refusal.message),
        }
    }

    /// `GET /healthz`: the process serves.
    pub(crate) fn healthy() -> Self {
        Self::text(200, "ok\n")
    }

    /// `GET /readyz`: there is something to route to.
    pub(crate) fn ready(snapshot: &Snapshot) -> Self {
        if snapshot.version == 0 {
            Self::text(503, "no snapshot from the control plane yet\n")
        } else if snapshot.is_routable() {
            Self::text(200, "ready\n")
        } else {
            Self::text(503, "no routable backend\n")
        }
    }

    /// `GET /v1/models`, of one scope; `only` filters by id.
    pub(crate) fn models(
        snapshot: &Snapshot,
        routing_key: Option<&str>,
        only: Option<&[String]>,
        created: u64,
    ) -> Self {
        let mut ids: Vec<&str> = routable(snapshot, routing_key)
            .filter(|id| only.is_none_or(|only| only.iter().any(|wanted| wanted == id)))
            .collect();
        ids.sort_unstable();
        let data = ids.into_iter().map(|id| Model::new(id, created)).collect();
        Self::json(&ModelList { object: "list", data })
    }

    /// `GET /v1/models/{id}`.
    pub(crate) fn model(
        snapshot: &Snapshot,
        routing_key: Option<&str>,
        id: &str,
        created: u64,
    ) -> Result<Self, Refusal> {
        let known = routable(snapshot, routing_key).find(|known| *known == id);
        known.map(|id| Self::json(&Model::new(id, created))).ok_or_else(|| {
            Refusal::new(ErrorCode::NoEligibleCandidates, format!("there is no model `{id}` here"))
        })
    }

    /// The whole response, with `connection` as the header of that name; `with_body` is false in answer to
    /// HEAD.
    pub(crate) fn to_bytes(
        &self,
        id: Option<&RequestId>,
        connection: Option<&str>,
        with_body: bool,
    ) -> Vec<u8> {
        let mut out = String::with_capacity(256 + self.headers.len() + self.body.len());
        let _ = write!(
            out,
            "HTTP/1.1 {} {}\r\ncontent-type: {}\r\ncontent-length: {}\r\n{}",
            self.status,
            reason(self.status),
            self.content_type,
            self.body.len(),
            self.headers
        );
        if let Some(id) = id {
            let _ = write!(out, "x-request-id: {}\r\n", id.as_str());
        }
        if let Some(connection) = connection {
            let _ = write!(out, "connection: {connection}\r\n");
        }
        out.push_str("\r\n");
        if with_body {
            out.push_str(&self.body);
        }
        out.into_bytes()
    }

    fn text(status: u16, body: &str) -> Self {
        Self { status, content_type: "text/plain", headers: String::new(), body: body.to_owned() }
    }

    fn json(body: &impl Serialize) -> Self {
        let body = serde_json::to_string(body).unwrap_or_default();
        Self { status: 200, content_type: "application/json", headers: String::new(), body }
    }
}

impl<'a> Model<'a> {
    fn new(id: &'a str, created: u64) -> Self {
        Self { id, object: "model", created, owned_by: "stargate" }
    }
}

fn routable<'a>(snapshot: &'a Snapshot, routing_key: Option<&'a str>) -> impl Iterator<Item = &'a str> {
    snapshot
        .targets()
        .iter()
        .filter(move |target| {
            target.name.routing_key.as_deref() == routing_key && !target.clusters.is_empty()
        })
        .map(|target| &*target.name.model)
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}
