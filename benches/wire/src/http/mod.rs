//! HTTP/1.1 as these tools need it: request heads for the mock engine, response heads for clients, framing for both.

pub mod chunked;
pub mod client;
pub mod request;
pub mod response;
pub mod url;

/// Headers of one message; more is an error.
pub const MAX_HEADERS: usize = 96;

/// Bytes of one message's head; more is an error.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;
