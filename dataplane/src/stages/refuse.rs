//! Answering a request with an error of ours, and accounting for it.

use crate::{
    core::Core,
    error::Refusal,
    http::{BodyFraming, Method, RequestHead, Version},
    io::client::Client,
    stages::{
        account::{Ended, Exchange},
        answer::Answer,
        relay::{After, ClientTerms},
    },
};

/// Answers with the error. The connection can go on when the request was read to its end.
pub(crate) async fn refuse(
    core: &Core,
    client: &mut Client,
    exchange: Box<Exchange>,
    refusal: Refusal,
    terms: ClientTerms,
) -> After {
    let id = core.settings.headers.response_request_id.then_some(&exchange.id);
    let keep_alive = terms.keep_alive && !core.is_draining();
    let bytes = Answer::error(&refusal).to_bytes(id, terms.connection(keep_alive), terms.with_body);
    let written = client.write(bytes).await;
    exchange.end(core, if written.is_ok() { Ended::refused(refusal) } else { Ended::client_left() });
    match written {
        Ok(()) if keep_alive => After::KeepAlive,
        Ok(()) => After::Linger,
        Err(_) => After::Close,
    }
}

// === impl ClientTerms ===

impl ClientTerms {
    /// Of a request whose head was read.
    pub(crate) fn of(head: &RequestHead) -> Self {
        Self { version: head.version, keep_alive: head.keep_alive, with_body: head.method != Method::Head }
    }

    /// Of a request whose body, if it has one, was not read.
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
