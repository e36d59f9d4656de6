//! Requests, built header by header, with nothing added that a test did not ask for (but `host` and the
//! body's framing).

use std::fmt;

use serde_json::{Value, json};

/// A request. Its bytes are what it says, in its order.
#[derive(Clone)]
pub struct Request {
    method: String,
    target: String,
    version: &'static str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// No body, no framing header.
    None,
    /// `content-length`.
    Length,
    /// `transfer-encoding: chunked`, in chunks of this many bytes.
    Chunked(usize),
}

// === impl Request ===

impl Request {
    /// A request without a body.
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            version: "HTTP/1.1",
            headers: vec![("host".to_owned(), "gateway.test".to_owned())],
            body: Vec::new(),
            framing: Framing::None,
        }
    }

    /// A GET.
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// A POST of JSON.
    pub fn post(target: &str, body: &Value) -> Self {
        Self::new("POST", target).header("content-type", "application/json").body(body.to_string())
    }

    /// A chat completion of one short message.
    pub fn chat(model: &str) -> Self {
        Self::post("/v1/chat/completions", &chat_body(model))
    }

    /// A streamed chat completion of one short message.
    pub fn chat_stream(model: &str) -> Self {
        let mut body = chat_body(model);
        body["stream"] = json!(true);
        Self::post("/v1/chat/completions", &body)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    /// Removes all headers of this name, `host` for example.
    #[must_use]
    pub fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    /// Sets the body, framed by `content-length`.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.framing = Framing::Length;
        self
    }

    /// Sends the body in chunks of this many bytes.
    #[must_use]
    pub fn chunked(mut self, chunk_bytes: usize) -> Self {
        self.framing = Framing::Chunked(chunk_bytes);
        self
    }

    /// Speaks HTTP/1.0.
    #[must_use]
    pub fn http_1_0(mut self) -> Self {
        self.version = "HTTP/1.0";
        self
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// The head, its empty line included.
    pub fn head_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} {}\r\n", self.method, self.target, self.version).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend(format!("{name}: {value}\r\n").into_bytes());
        }
        match self.framing {
            Framing::None => {}
            Framing::Length => bytes.extend(format!("content-length: {}\r\n", self.body.len()).into_bytes()),
            Framing::Chunked(_) => bytes.extend(b"transfer-encoding: chunked\r\n"),
        }
        bytes.extend(b"\r\n");
        bytes
    }

    /// The body with its framing.
    pub fn body_bytes(&self) -> Vec<u8> {
        let Framing::Chunked(chunk_bytes) = self.framing else { return self.body.clone() };
        let mut bytes = Vec::new();
        for chunk in self.body.chunks(chunk_bytes) {
            bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
        bytes
    }

    /// All of it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head_bytes();
        bytes.extend(self.body_bytes());
        bytes
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} with {} bytes", self.method, self.target, self.body.len())
    }
}

fn chat_body(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "What does a gateway do?" }] })
}
