//! The request's way to the engine, for as long as the engine takes some of it and the client is there.
//!
//! A longer body is written from where it lies; it is kept for another attempt anyway.

use std::{
    io::{self, IoSlice},
    time::Duration,
};

use super::{end::AttemptEnd, failure::AttemptFailure, outbound::Outbound, upstream::Upstream};
use crate::{
    core::Core,
    error::ErrorCode,
    io::{
        client::{
            race::{Raced, race},
            watch::ClientWatch,
            write::{WriteEnd, write_all},
        },
        first::{First, first},
    },
    observation::AttemptResult,
};

/// Sends the request. An engine that answers before it has read everything ends the sending: its answer is
/// then read, and the connection not used again.
pub(super) async fn send(
    core: &Core,
    client: &mut ClientWatch,
    upstream: &mut Upstream,
    outbound: &mut Outbound<'_>,
) -> Result<(), AttemptEnd> {
    let limit = core.settings.timeouts.write;
    let message = std::mem::take(&mut outbound.message);
    if outbound.body.is_empty() {
        // Short enough for the kernel to take it at once, but for a full socket buffer.
        return match write_all(&upstream.socket, message, client, limit).await {
            Ok(message) => {
                core.buffers.give(message);
                upstream.is_written = true;
                Ok(())
            }
            Err(WriteEnd::Broken(error)) => upstream.send_failed(&error).map_err(AttemptEnd::Failed),
            Err(WriteEnd::ClientLeft) => Err(AttemptEnd::ClientLeft),
            Err(WriteEnd::Stalled) => Err(send_stalled(limit)),
        };
    }
    let mut slices = [IoSlice::new(&message), IoSlice::new(outbound.body)];
    let mut left = &mut slices[..];
    loop {
        let error = match upstream.socket.try_write(left) {
            Ok(length) => {
                IoSlice::advance_slices(&mut left, length);
                if left.is_empty() {
                    upstream.is_written = true;
                    break;
                }
                continue;
            }
            Err(error) => error,
        };
        if error.kind() != io::ErrorKind::WouldBlock {
            return upstream.send_failed(&error).map_err(AttemptEnd::Failed);
        }
        let ready = first(upstream.socket.readable(), upstream.socket.writable());
        match race(ready, client, limit).await {
            Raced::Done(First::Right(_)) => {}
            Raced::Done(First::Left(_)) => break,
            Raced::ClientLeft => return Err(AttemptEnd::ClientLeft),
            Raced::TimedOut => return Err(send_stalled(limit)),
        }
    }
    core.buffers.give(message);
    Ok(())
}

fn send_stalled(limit: Duration) -> AttemptEnd {
    AttemptEnd::Failed(AttemptFailure {
        result: AttemptResult::Timeout,
        code: ErrorCode::UpstreamTimeout,
        message: format!("it took nothing of the request for {limit:?} (timeouts.write_ms)"),
        // An engine runs no request that it has not read to its end.
        is_safe_to_retry: true,
        is_stale: false,
    })
}
