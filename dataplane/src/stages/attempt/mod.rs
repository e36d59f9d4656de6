//! Stage five: one try at one backend, from the connection to the response's head.
//!
//! What matters about a failure is whether the engine can have begun: only a failure with proof that it did
//! not is safe to try again elsewhere. A timeout is no proof. Whether it is tried again is not decided here.

mod end;
mod failure;
mod outbound;
mod receive_head;
mod send;
mod upstream;

use std::{sync::Arc, time::Instant};

use stargate_routing::Backend;

pub(crate) use self::{
    end::{Answered, AttemptEnd, Response},
    failure::AttemptFailure,
    outbound::Outbound,
};
use self::{receive_head::receive_head, send::send, upstream::Upstream};
use crate::{
    core::{Core, levels::Counted},
    error::ErrorCode,
    io::{
        client::{
            race::{Raced, race},
            watch::ClientWatch,
        },
        engine::socket::EngineSocket,
    },
    observation::AttemptResult,
};

/// Makes one attempt.
pub(crate) async fn attempt(
    core: &Core,
    client: &mut ClientWatch,
    backend: &Arc<Backend>,
    mut outbound: Outbound<'_>,
) -> AttemptEnd {
    let began = Instant::now();
    let mut upstream = match connect(core, client, backend, began).await {
        Ok(upstream) => upstream,
        Err(end) => return end,
    };
    // A kept connection costs no time worth a look at the clock.
    let sent = if upstream.is_reused { began } else { Instant::now() };
    let end = match send(core, client, &mut upstream, &mut outbound).await {
        Ok(()) => receive_head(core, client, upstream, &outbound, sent).await,
        Err(end) => {
            upstream.socket.shutdown();
            end
        }
    };
    match end {
        AttemptEnd::Failed(failure) => AttemptEnd::Failed(failure.at(backend)),
        end => end,
    }
}

/// A live connection: a kept one, or else a new one.
async fn connect(
    core: &Core,
    client: &mut ClientWatch,
    backend: &Arc<Backend>,
    now: Instant,
) -> Result<Upstream, AttemptEnd> {
    let active = Counted::new(&core.levels, |values| &values.upstream_active, 1);
    let kept = core.pool.borrow_mut().take(backend.uid, now);
    if let Some(socket) = kept {
        return Ok(Upstream::new(socket, backend, true, active));
    }
    let limit = core.settings.timeouts.connect;
    let failure = match race(EngineSocket::connect(backend.address), client, limit).await {
        Raced::Done(Ok(socket)) => {
            core.shared.tcp_info.connected(backend, &socket);
            return Ok(Upstream::new(socket, backend, false, active));
        }
        Raced::Done(Err(error)) => error.to_string(),
        Raced::TimedOut => format!("no answer within {limit:?} (timeouts.connect_ms)"),
        Raced::ClientLeft => return Err(AttemptEnd::ClientLeft),
    };
    let failure = AttemptFailure {
        result: AttemptResult::ConnectFailed,
        code: ErrorCode::UpstreamConnectFailed,
        message: format!("cannot connect: {failure}"),
        is_safe_to_retry: true,
        is_stale: false,
    };
    Err(AttemptEnd::Failed(failure.at(backend)))
}
