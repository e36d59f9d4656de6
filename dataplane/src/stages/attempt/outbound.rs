//! What an attempt sends, and what its answer depends on.
//!
//! A short body is copied behind the head, which costs less than writing the two apart.

use crate::http::{Method, RequestHead, Version};

/// Bodies up to this are copied behind the head, for one plain write; longer ones are written in place.
const COPIED_BODY_BYTES: usize = 8 * 1024;

/// What is sent to the backend, and what its answer depends on.
#[derive(Debug)]
pub(crate) struct Outbound<'a> {
    /// The head, and a short body behind it.
    pub(super) message: Vec<u8>,
    /// A longer body, where it is.
    pub(super) body: &'a [u8],
    pub(super) has_body: bool,
    pub(super) method: Method,
    /// Informational responses are passed on to clients of HTTP/1.1 only.
    pub(super) client_version: Version,
}

// === impl Outbound ===

impl<'a> Outbound<'a> {
    /// Puts a short body behind the head, so that one plain write sends both.
    pub(crate) fn new(mut head: Vec<u8>, body: &'a [u8], request: &RequestHead) -> Self {
        let in_place = if body.len() <= COPIED_BODY_BYTES {
            head.extend_from_slice(body);
            &[]
        } else {
            body
        };
        Self {
            message: head,
            body: in_place,
            has_body: !body.is_empty(),
            method: request.method,
            client_version: request.version,
        }
    }
}
