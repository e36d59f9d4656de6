//! The wait for the head of the engine's response, which is most of a request's life before its first token.
//!
//! Informational responses are passed on as they come. What follows the head is left to `relay`.

use std::time::Instant;

use super::{
    end::{AttemptEnd, Response},
    failure::AttemptFailure,
    outbound::Outbound,
    upstream::Upstream,
};
use crate::{
    core::Core,
    error::ErrorCode,
    http::{ResponseHead, Version},
    io::client::{
        race::{Raced, race},
        watch::ClientWatch,
        write::write_all,
    },
    observation::AttemptResult,
};

/// Reads the response's head, passing informational ones on.
pub(super) async fn receive_head(
    core: &Core,
    client: &mut ClientWatch,
    upstream: Upstream,
    outbound: &Outbound<'_>,
    sent: Instant,
) -> AttemptEnd {
    let limits = &core.settings.limits;
    let limit = core.settings.timeouts.first_byte;
    let retry_stale = core.settings.retry.retry_on_stale_connection;
    let mut left = limit;
    let mut received = core.buffers.take();
    loop {
        received.reserve(1);
        match race(upstream.socket.read(received), client, left).await {
            Raced::Done((Ok(0), received)) => {
                let how = "it closed the connection";
                return AttemptEnd::Failed(upstream.closed(received.is_empty(), outbound, retry_stale, how));
            }
            Raced::Done((Ok(_), buffer)) => received = buffer,
            Raced::Done((Err(error), received)) => {
                let how = error.to_string();
                return AttemptEnd::Failed(upstream.closed(received.is_empty(), outbound, retry_stale, &how));
            }
            Raced::ClientLeft => {
                upstream.socket.shutdown();
                return AttemptEnd::ClientLeft;
            }
            Raced::TimedOut => {
                upstream.socket.shutdown();
                return AttemptEnd::Failed(AttemptFailure {
                    result: AttemptResult::Timeout,
                    code: ErrorCode::UpstreamTimeout,
                    message: format!("it did not answer within {limit:?} (timeouts.first_byte_ms)"),
                    is_safe_to_retry: false,
                    is_stale: false,
                });
            }
        }
        loop {
            let mut forward = core.buffers.take();
            let parsed = ResponseHead::parse(
                &received,
                outbound.method,
                limits.max_head_bytes,
                limits.max_headers,
                &mut forward,
            );
            let head = match parsed {
                Ok(Some(head)) => head,
                Ok(None) => {
                    core.buffers.give(forward);
                    break;
                }
                Err(refused) => {
                    upstream.socket.shutdown();
                    return AttemptEnd::Failed(AttemptFailure {
                        result: AttemptResult::ProtocolError,
                        code: ErrorCode::UpstreamProtocolError,
                        message: format!("its answer cannot be used: {refused}"),
                        is_safe_to_retry: false,
                        is_stale: false,
                    });
                }
            };
            received.drain(..head.length);
            if head.status >= 200 {
                return AttemptEnd::Responded(Box::new(Response {
                    upstream,
                    head,
                    forward,
                    rest: received,
                    first_byte: sent.elapsed(),
                }));
            }
            // The 100 was given by this gateway already.
            if head.status != 100 && outbound.client_version == Version::Http11 {
                forward.extend_from_slice(b"\r\n");
                let (socket, limit) = (client.socket.clone(), core.settings.timeouts.write);
                let Ok(written) = write_all(&socket, forward, client, limit).await else {
                    upstream.socket.shutdown();
                    return AttemptEnd::ClientLeft;
                };
                forward = written;
            }
            core.buffers.give(forward);
        }
        left = limit.saturating_sub(sent.elapsed());
    }
}
