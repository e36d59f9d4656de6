//! Whole answers: status line, headers and body, assembled into one buffer; and what becomes of the connection after one.

use std::io::Write;

use serde_json::json;

/// An answer that is known in full.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// What becomes of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It serves another request.
    Keep,
    /// It is closed in order.
    Close,
    /// It is reset.
    Reset,
}

// === impl Answer ===

impl Answer {
    /// 200 with a JSON body.
    pub(crate) fn json(body: &serde_json::Value) -> Self {
        Self::with_status(200, body.to_string().into_bytes())
    }

    /// A JSON body under any status.
    pub(crate) fn with_status(status: u16, body: Vec<u8>) -> Self {
        Self { status, content_type: "application/json", headers: Vec::new(), body }
    }

    /// 200 with text.
    pub(crate) fn text(body: String) -> Self {
        Self {
            status: 200,
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            headers: Vec::new(),
            body: body.into_bytes(),
        }
    }

    /// An error in `OpenAI`'s shape.
    pub(crate) fn error(status: u16, code: &str, message: &str) -> Self {
        let kind = match status {
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        };
        let body = json!({"error": {"message": message, "type": kind, "code": code, "param": null}});
        Self::with_status(status, body.to_string().into_bytes())
    }

    /// Adds a header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Appends the answer as it goes over the wire; `HEAD` gets no body.
    pub(crate) fn append(&self, engine: &str, close: bool, is_head: bool, wire: &mut Vec<u8>) {
        append_head_start(self.status, engine, self.content_type, close, wire);
        for (name, value) in &self.headers {
            let _ = write!(wire, "{name}: {value}\r\n");
        }
        append_length(self.body.len(), wire);
        if !is_head {
            wire.extend_from_slice(&self.body);
        }
    }
}

/// Appends a head up to, and without, its framing header.
pub(crate) fn append_head_start(
    status: u16,
    engine: &str,
    content_type: &str,
    close: bool,
    wire: &mut Vec<u8>,
) {
    // Writing to a vector cannot fail, here and below.
    let _ = write!(
        wire,
        "HTTP/1.1 {status} {}\r\nx-mock-engine: {engine}\r\ncontent-type: {content_type}\r\n",
        reason(status)
    );
    if close {
        wire.extend_from_slice(b"connection: close\r\n");
    }
}

/// Ends a head with a length.
pub(crate) fn append_length(bytes: usize, wire: &mut Vec<u8>) {
    let _ = write!(wire, "content-length: {bytes}\r\n\r\n");
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
