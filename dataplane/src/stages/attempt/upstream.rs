//! A connection to a backend with a request on it, and what its end proves.
//!
//! A request that was not sent whole has not run. That a kept connection turns out to be closed proves nothing by
//! itself.

use std::{io, sync::Arc};

use stargate_routing::Backend;

use super::{failure::AttemptFailure, outbound::Outbound};
use crate::{
    core::levels::Counted,
    error::ErrorCode,
    http::{Method, ResponseHead},
    io::{engine::socket::EngineSocket, socket::Peek},
    observation::AttemptResult,
};

/// A connection to a backend with a request on it.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) socket: EngineSocket,
    pub(crate) backend: Arc<Backend>,
    pub(super) is_reused: bool,
    /// The whole request was handed to the kernel.
    pub(super) is_written: bool,
    _active: Counted,
}

// === impl Upstream ===

impl Upstream {
    pub(super) fn new(
        socket: EngineSocket,
        backend: &Arc<Backend>,
        is_reused: bool,
        active: Counted,
    ) -> Self {
        Self { socket, backend: backend.clone(), is_reused, is_written: false, _active: active }
    }

    /// Whether the connection can serve another request once this response has been read to its end.
    pub(crate) fn is_reusable(&self, head: &ResponseHead) -> bool {
        self.is_written && head.keep_alive
    }

    /// What a failed write means: the engine may have answered before it closed.
    pub(super) fn send_failed(&self, error: &io::Error) -> Result<(), AttemptFailure> {
        if self.socket.peek() == Peek::Data {
            return Ok(());
        }
        Err(AttemptFailure {
            result: AttemptResult::Reset,
            code: ErrorCode::UpstreamReset,
            message: format!("the connection broke while the request was being sent: {error}"),
            is_safe_to_retry: true,
            is_stale: self.is_reused,
        })
    }

    /// The failure of a connection that ended before a response's head.
    pub(super) fn closed(
        &self,
        nothing_came: bool,
        outbound: &Outbound<'_>,
        retry_stale: bool,
        how: &str,
    ) -> AttemptFailure {
        let message = if nothing_came {
            format!("{how} without an answer")
        } else {
            format!("{how} within the head of its answer")
        };
        // A request that was not sent whole can't have run. One that was sent on a connection that turned
        // out to be closed may have, so only one without a body and an effect is sent again, or where the
        // operator knows the engines to be safe.
        let is_stale = self.is_reused && nothing_came;
        let has_no_effect = !outbound.has_body && matches!(outbound.method, Method::Get | Method::Head);
        let is_safe_to_retry = !self.is_written || (is_stale && (has_no_effect || retry_stale));
        AttemptFailure {
            result: AttemptResult::Reset,
            code: ErrorCode::UpstreamReset,
            message,
            is_safe_to_retry,
            is_stale,
        }
    }
}
