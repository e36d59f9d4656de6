//! The terms on which a request is answered, and what is to become of its connection afterwards.
//!
//! How far a request was read decides whether another can follow it: bytes of a body that nobody has read would be
//! taken for the next request.

use crate::http::{BodyFraming, Method, RequestHead, Version};

/// What the client's side asks of the response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientTerms {
    pub(crate) version: Version,
    pub(crate) keep_alive: bool,
    /// False in answer to HEAD.
    pub(crate) with_body: bool,
}

/// What is to become of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It may bring another request.
    KeepAlive,
    /// It ends in order, once the client has had time to read the answer to a request that it may still be
    /// sending.
    Linger,
    /// It ends in order.
    Close,
    /// It ends, and the client is to know that its response is not complete.
    Cut,
}

// === impl ClientTerms ===

impl ClientTerms {
    /// Of a request that was read to its end.
    pub(crate) fn of(head: &RequestHead) -> Self {
        Self { version: head.version, keep_alive: head.keep_alive, with_body: head.method != Method::Head }
    }

    /// Of a request whose body, if it has one, was not read to its end.
    pub(crate) fn unread(head: &RequestHead) -> Self {
        if head.body == BodyFraming::None { Self::of(head) } else { Self::closing() }
    }

    /// Of a request that was not read to its end, so that nothing can follow it.
    pub(crate) fn closing() -> Self {
        Self { version: Version::Http11, keep_alive: false, with_body: true }
    }

    /// What the `connection` header says, if there is to be one.
    pub(crate) fn connection(self, keep_alive: bool) -> Option<&'static str> {
        match (self.version, keep_alive) {
            (Version::Http11, true) => None,
            (Version::Http10, true) => Some("keep-alive"),
            (_, false) => Some("close"),
        }
    }
}
