//! Stage six: the response on its way to the client, each piece as soon as it comes, with bounded memory.
//!
//! Nothing is read from the engine while the client takes nothing, and no buffer is held while the engine
//! says nothing. What broke off is told as broken, never as complete.

use std::{
    io,
    time::{Duration, Instant},
};

use stargate_routing::Backend;

use crate::{
    core::Core,
    error::{ErrorCode, Refusal},
    http::{ChunkedError, Outgoing, RelayBody, ResponseHead, Version, push_header},
    io::{
        client::{
            Client,
            race::{Raced, race},
            write::WriteEnd,
        },
        engine::socket::EngineSocket,
    },
    observation::AttemptResult,
    stages::{
        account::{Ended, Exchange},
        answer::error_json,
        attempt::{Answered, Response},
        refuse::refuse,
        terms::{After, ClientTerms},
    },
};

/// Why a response ended before its end.
enum Cut {
    ClientLeft,
    ClientStalled,
    Upstream(ErrorCode, String),
}

/// How far a body has come.
struct Progress {
    is_done: bool,
    /// The engine sent more than its response.
    is_excess: bool,
}

/// Relays a response to its end and accounts for the request.
pub(crate) async fn relay(
    core: &Core,
    client: &mut Client,
    mut exchange: Box<Exchange>,
    answered: Answered,
    terms: ClientTerms,
) -> After {
    let Answered { response, mut reserved, cluster_id } = answered;
    let Response { upstream, head, mut forward, rest, first_byte } = *response;
    reserved.first_byte();
    let status = head.status;
    let mut body = RelayBody::new(head.body, terms.version == Version::Http11);
    let keep_alive = terms.keep_alive && body.outgoing() != Outgoing::UntilClose && !core.is_draining();
    write_head(&mut forward, core, &exchange, &upstream.backend, &cluster_id, &head, body.outgoing());
    if let Some(connection) = terms.connection(keep_alive) {
        push_header(&mut forward, "connection", connection.as_bytes());
    }
    forward.extend_from_slice(b"\r\n");
    exchange.first_byte = Some(exchange.started.elapsed());
    let mut progress = Progress { is_done: body.is_done(), is_excess: body.is_done() && !rest.is_empty() };
    if !progress.is_done && !rest.is_empty() {
        match progress.append(&mut body, &rest, &mut forward) {
            Ok(()) => {}
            // Nothing has been sent yet: this can still be told properly.
            Err(error) => {
                upstream.socket.shutdown();
                drop(reserved);
                exchange.first_byte = None;
                exchange.attempt_ended(core, AttemptResult::ProtocolError, Some(first_byte));
                let message =
                    format!("backend `{}`: its answer is malformed: {error}", upstream.backend.backend_id);
                let refusal = Refusal::new(ErrorCode::UpstreamProtocolError, message);
                return refuse(core, client, exchange, refusal, terms).await;
            }
        }
    }
    core.buffers.give(rest);
    let sent = relay_body(core, client, &upstream.socket, &mut body, forward, &mut progress).await;
    let (result, ended, after) = match sent {
        Ok(()) => {
            if upstream.is_reusable(&head) && !progress.is_excess {
                core.shared.tcp_info.answered(&upstream.backend, &upstream.socket);
                let mut pool = core.pool.borrow_mut();
                pool.give(upstream.backend.uid, upstream.socket, head.keep_alive_timeout, Instant::now());
                core.levels.upstream_idle.set(pool.count());
            }
            let result = if head.retryable { AttemptResult::Rejected } else { AttemptResult::Completed };
            let after = if keep_alive { After::KeepAlive } else { After::Close };
            (result, Ended { status, fault: None }, after)
        }
        Err(cut) => {
            // The engine must stop generating now, not when the last reference to its connection is gone.
            upstream.socket.shutdown();
            let ended = tell_cut(core, client, &body, &head, cut).await;
            let result = match ended.fault {
                Some(ref fault) if fault.code != ErrorCode::ClientStalled => AttemptResult::Cut,
                _ => AttemptResult::Cancelled,
            };
            (result, ended, After::Cut)
        }
    };
    drop(reserved);
    exchange.attempt_ended(core, result, Some(first_byte));
    exchange.end(core, ended);
    after
}

fn write_head(
    out: &mut Vec<u8>,
    core: &Core,
    exchange: &Exchange,
    backend: &Backend,
    cluster_id: &str,
    head: &ResponseHead,
    outgoing: Outgoing,
) {
    let policy = &core.settings.headers;
    let mut header = |name, value: &str| push_header(out, name, value.as_bytes());
    if policy.response_request_id {
        header("x-request-id", exchange.id.as_str());
    }
    if policy.response_server_id {
        header("x-inference-server-id", &backend.backend_id);
    }
    if policy.response_cluster_id {
        header("x-stargate-cluster-id", cluster_id);
    }
    match outgoing {
        Outgoing::Chunked => header("transfer-encoding", "chunked"),
        Outgoing::UntilClose => {}
        // HEAD and 304 announce what they don't send; 1xx and 204 must not announce anything.
        Outgoing::Length => {
            if let Some(length) = head.announced_length.filter(|_| head.status != 204) {
                header("content-length", itoa::Buffer::new().format(length));
            }
        }
    }
}

/// Moves the body. `first` holds the head and what came with it.
async fn relay_body(
    core: &Core,
    client: &mut Client,
    upstream: &EngineSocket,
    body: &mut RelayBody,
    first: Vec<u8>,
    progress: &mut Progress,
) -> Result<(), Cut> {
    client.write(first).await?;
    let idle = core.settings.timeouts.stream_idle;
    while !progress.is_done {
        wait(upstream, client, idle).await?;
        let mut input = core.buffers.take();
        match upstream.try_read(&mut input) {
            Ok(0) => {
                input.clear();
                if !body.end_of_stream(&mut input) {
                    let why = "the engine closed the connection before the end of its response";
                    return Err(Cut::Upstream(ErrorCode::UpstreamReset, why.into()));
                }
                progress.is_done = true;
                client.write(input).await?;
            }
            Ok(_) => {
                let output = progress.relay(core, body, input).map_err(Cut::protocol)?;
                client.write(output).await?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => core.buffers.give(input),
            Err(error) => {
                let why = format!("the connection to the engine broke within its response: {error}");
                return Err(Cut::Upstream(ErrorCode::UpstreamReset, why));
            }
        }
    }
    Ok(())
}

async fn wait(upstream: &EngineSocket, client: &mut Client, idle: Duration) -> Result<(), Cut> {
    match race(upstream.readable(), &mut client.watch, idle).await {
        Raced::Done(_) => Ok(()),
        Raced::ClientLeft => Err(Cut::ClientLeft),
        Raced::TimedOut => {
            let why =
                format!("the engine sent nothing of its response for {idle:?} (timeouts.stream_idle_ms)");
            Err(Cut::Upstream(ErrorCode::UpstreamTimeout, why))
        }
    }
}

/// Lets the client know that its response ends here, where its framing has room for that.
async fn tell_cut(
    core: &Core,
    client: &mut Client,
    body: &RelayBody,
    head: &ResponseHead,
    cut: Cut,
) -> Ended {
    let (code, message) = match cut {
        Cut::ClientLeft => return Ended::client_left(),
        Cut::ClientStalled => {
            let limit = core.settings.timeouts.write;
            let message =
                format!("the client took nothing of its response for {limit:?} (timeouts.write_ms)");
            return Ended::cut(head.status, ErrorCode::ClientStalled, message);
        }
        Cut::Upstream(code, message) => (code, message),
    };
    if head.is_event_stream
        && let Some(event) = body.error_event(&error_json(code, &message))
    {
        // If it can't be told either, the cut connection tells it.
        let _ = client.write(event).await;
    } else if body.outgoing() == Outgoing::UntilClose {
        client.socket.reset_on_close();
    }
    Ended::cut(head.status, code, message)
}

// === impl Progress ===

impl Progress {
    /// What is to be sent for `input`: most often itself.
    fn relay(
        &mut self,
        core: &Core,
        body: &mut RelayBody,
        mut input: Vec<u8>,
    ) -> Result<Vec<u8>, ChunkedError> {
        let mut reframed = Vec::new();
        let relayed = body.relay(&input, &mut reframed)?;
        (self.is_done, self.is_excess) = (relayed.done, relayed.excess);
        if let Some(length) = relayed.verbatim {
            input.truncate(length);
            return Ok(input);
        }
        core.buffers.give(input);
        Ok(reframed)
    }

    /// Appends to `out` what is to be sent for `input`.
    fn append(&mut self, body: &mut RelayBody, input: &[u8], out: &mut Vec<u8>) -> Result<(), ChunkedError> {
        let relayed = body.relay(input, out)?;
        (self.is_done, self.is_excess) = (relayed.done, relayed.excess);
        out.extend_from_slice(&input[..relayed.verbatim.unwrap_or(0)]);
        Ok(())
    }
}

// === impl Cut ===

impl Cut {
    fn protocol(error: ChunkedError) -> Self {
        Self::Upstream(
            ErrorCode::UpstreamProtocolError,
            format!("the engine's response is malformed: {error}"),
        )
    }
}

impl From<WriteEnd> for Cut {
    fn from(end: WriteEnd) -> Self {
        match end {
            WriteEnd::Broken(_) | WriteEnd::ClientLeft => Self::ClientLeft,
            WriteEnd::Stalled => Self::ClientStalled,
        }
    }
}
