//! HTTP/1.1 as these tools need it: request heads for the mock engine, response heads for clients, framing for both.

pub(crate) mod chunked;
pub(crate) mod client;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod url;

/// Headers of one message; more is an error.
pub(crate) const MAX_HEADERS: usize = 96;

/// Bytes of one message's head; more is an error.
pub(crate) const MAX_HEAD_BYTES: usize = 64 * 1024;
