//! Stage five: one try at one backend, from the connection to the response's head.
//!
//! What matters about a failure is whether the engine can have begun: only a failure with proof that it did
//! not is safe to try again elsewhere. A timeout is no proof.

use std::{
    io::{self, IoSlice},
    sync::Arc,
    time::{Duration, Instant},
};

use stargate_routing::Backend;

use crate::{
    core::{Core, levels::Counted, placing::Reserved},
    error::{ErrorCode, Refusal},
    http::{Method, RequestHead, ResponseHead, Version},
    io::{
        client::{
            race::{Raced, race},
            watch::ClientWatch,
        },
        engine::socket::EngineSocket,
        first::{First, first},
        socket::Peek,
        write::{WriteEnd, write_all},
    },
    observation::AttemptResult,
    retry::Setback,
};

/// Bodies up to this are copied behind the head, for one plain write; longer ones are written in place.
const COPIED_BODY_BYTES: usize = 8 * 1024;

/// What is sent to the backend, and what its answer depends on.
#[derive(Debug)]
pub(crate) struct Outbound<'a> {
    /// The head, and a short body behind it.
    message: Vec<u8>,
    /// A longer body, where it is.
    body: &'a [u8],
    has_body: bool,
    method: Method,
    /// Informational responses are passed on to clients of HTTP/1.1 only.
    client_version: Version,
}

/// A connection to a backend with a request on it.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) socket: EngineSocket,
    pub(crate) backend: Arc<Backend>,
    is_reused: bool,
    /// The whole request was handed to the kernel.
    is_written: bool,
    _active: Counted,
}

/// A response of which the head has been read.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) upstream: Upstream,
    pub(crate) head: ResponseHead,
    /// Status line and end-to-end headers for the client.
    pub(crate) forward: Vec<u8>,
    /// What was read behind the head.
    pub(crate) rest: Vec<u8>,
    /// From sending to the head.
    pub(crate) first_byte: Duration,
}

/// A response to relay, with the reservation that it holds.
pub(crate) struct Answered {
    pub(crate) response: Box<Response>,
    pub(crate) reserved: Reserved,
    pub(crate) cluster_id: Arc<str>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum AttemptEnd {
    Responded(Box<Response>),
    Failed(AttemptFailure),
    ClientLeft,
}

/// An attempt without a response.
#[derive(Debug)]
pub(crate) struct AttemptFailure {
    pub(crate) result: AttemptResult,
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    /// The engine can't have begun.
    pub(crate) is_safe_to_retry: bool,
    /// Only the kept connection is at fault, not the backend.
    pub(crate) is_stale: bool,
}

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

/// Sends the request. An engine that answers before it has read everything ends the sending: its answer is
/// then read, and the connection not used again.
async fn send(
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
            Err(WriteEnd::Broken(error)) => upstream.send_failed(&error),
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
            return upstream.send_failed(&error);
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

/// Reads the response's head, passing informational ones on.
async fn receive_head(
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

// === impl Upstream ===

impl Upstream {
    fn new(socket: EngineSocket, backend: &Arc<Backend>, is_reused: bool, active: Counted) -> Self {
        Self { socket, backend: backend.clone(), is_reused, is_written: false, _active: active }
    }

    /// Whether the connection can serve another request once this response has been read to its end.
    pub(crate) fn is_reusable(&self, head: &ResponseHead) -> bool {
        self.is_written && head.keep_alive
    }

    /// What a failed write means: the engine may have answered before it closed.
    fn send_failed(&self, error: &io::Error) -> Result<(), AttemptEnd> {
        if self.socket.peek() == Peek::Data {
            return Ok(());
        }
        Err(AttemptEnd::Failed(AttemptFailure {
            result: AttemptResult::Reset,
            code: ErrorCode::UpstreamReset,
            message: format!("the connection broke while the request was being sent: {error}"),
            is_safe_to_retry: true,
            is_stale: self.is_reused,
        }))
    }

    /// The failure of a connection that ended before a response's head.
    fn closed(
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

// === impl AttemptEnd ===

impl AttemptEnd {
    /// What kept it from serving its request, if that is not the client's leaving.
    pub(crate) fn setback(&self) -> Option<Setback> {
        match self {
            Self::Responded(response) if response.head.retryable => {
                Some(Setback::Rejected { is_queue_mismatch: response.head.queue_estimate_mismatch })
            }
            Self::Failed(AttemptFailure { is_safe_to_retry, is_stale, .. }) => {
                Some(Setback::Failed { is_safe_to_retry: *is_safe_to_retry, is_stale: *is_stale })
            }
            Self::Responded(_) | Self::ClientLeft => None,
        }
    }
}

// === impl AttemptFailure ===

impl AttemptFailure {
    pub(crate) fn into_refusal(self) -> Refusal {
        Refusal::new(self.code, self.message)
    }

    fn at(mut self, backend: &Backend) -> Self {
        self.message = format!("backend `{}`: {}", backend.backend_id, self.message);
        self
    }
}
