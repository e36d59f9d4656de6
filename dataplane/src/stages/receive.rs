//! Stages one and two: reading a request's head and body, within their limits of size and time.
//!
//! A body is held whole: the decision needs what is in it, and a retry needs all of it again. So its size is
//! checked before it is read, and what all bodies take together is bounded.

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use crate::{
    core::{Core, levels::Counted, shared::Shared},
    error::{ErrorCode, Refusal, Unserved},
    http::{BodyFraming, ChunkedDecoder, RequestHead, RequestRefused, Version},
    io::client::{Client, ReadEnd},
};

/// Bodies below this are not charged to the memory budget one by one: the limit on connections bounds them.
const UNCHARGED_BYTES: u64 = 16 * 1024;

/// A request's body, held for replay.
#[derive(Debug)]
pub(crate) struct Body {
    place: Place,
    _charge: Option<ReplayCharge>,
}

#[derive(Debug)]
enum Place {
    /// Within the client's inbound bytes.
    Inbound(Range<usize>),
    /// Decoded from chunks.
    Decoded(Vec<u8>),
}

/// A share of the memory for replay, given back when dropped.
#[derive(Debug)]
struct ReplayCharge {
    shared: Arc<Shared>,
    bytes: u64,
    level: Counted,
}

/// Reads a head; the client's inbound bytes then start with it.
pub(crate) async fn head(client: &mut Client, core: &Core, began: Instant) -> Result<RequestHead, Unserved> {
    let limits = &core.settings.limits;
    let limit = core.settings.timeouts.header;
    loop {
        if !client.inbound.is_empty() {
            match RequestHead::parse(&client.inbound, limits.max_head_bytes, limits.max_headers) {
                Ok(Some(head)) => return Ok(head),
                Ok(None) => {}
                Err(error) => return Err(refusal_of(&error).into()),
            }
        }
        match client.fill(limit.saturating_sub(began.elapsed())).await {
            Ok(()) => {}
            Err(ReadEnd::TimedOut) if !client.inbound.is_empty() => {
                let message = format!("the request's head did not arrive within {limit:?}");
                return Err(Refusal::new(ErrorCode::RequestTimeout, message).into());
            }
            Err(ReadEnd::TimedOut | ReadEnd::Closed) => return Err(Unserved::ClientLeft),
        }
    }
}

fn refusal_of(error: &RequestRefused) -> Refusal {
    let code = match error {
        RequestRefused::Syntax(_) | RequestRefused::Framing(_) => ErrorCode::InvalidRequest,
        RequestRefused::Repeated(_) => ErrorCode::InvalidHeader,
        RequestRefused::TooManyHeaders(_) | RequestRefused::TooLong(_) => ErrorCode::HeadersTooLarge,
        RequestRefused::Expectation => ErrorCode::ExpectationFailed,
    };
    Refusal::new(code, error.to_string())
}

/// Reads the body that `head` announces.
pub(crate) async fn body(client: &mut Client, core: &Core, head: &RequestHead) -> Result<Body, Unserved> {
    match head.body {
        BodyFraming::None => Ok(Body::inbound(head.length..head.length, None)),
        BodyFraming::Length(length) => with_length(client, core, head, length).await,
        BodyFraming::Chunked => chunked(client, core, head).await,
    }
}

async fn with_length(
    client: &mut Client,
    core: &Core,
    head: &RequestHead,
    length: u64,
) -> Result<Body, Unserved> {
    if length > core.settings.limits.max_body_bytes {
        return Err(too_large(core).into());
    }
    let charge = (length >= UNCHARGED_BYTES).then(|| ReplayCharge::new(core, length)).transpose()?;
    // The limit on bodies keeps this within the address space.
    let end = head.length + length as usize;
    if client.inbound.len() < end {
        send_continue(client, head).await?;
    }
    while client.inbound.len() < end {
        fill_body(client, core).await?;
    }
    Ok(Body::inbound(head.length..end, charge))
}

async fn chunked(client: &mut Client, core: &Core, head: &RequestHead) -> Result<Body, Unserved> {
    let mut decoder = ChunkedDecoder::default();
    let mut decoded = Vec::new();
    let mut charge = ReplayCharge::new(core, 0)?;
    if client.inbound.len() == head.length {
        send_continue(client, head).await?;
    }
    loop {
        let before = decoded.len() as u64;
        let taken = decoder
            .decode(&client.inbound[head.length..], |payload| decoded.extend_from_slice(payload))
            .map_err(|error| Refusal::new(ErrorCode::InvalidRequest, error.to_string()))?;
        client.inbound.drain(head.length..head.length + taken);
        charge.grow(core, decoded.len() as u64 - before)?;
        if decoded.len() as u64 > core.settings.limits.max_body_bytes {
            return Err(too_large(core).into());
        }
        if decoder.is_done() {
            return Ok(Body { place: Place::Decoded(decoded), _charge: Some(charge) });
        }
        fill_body(client, core).await?;
    }
}

/// Asks a client that waits for it to send the body.
async fn send_continue(client: &mut Client, head: &RequestHead) -> Result<(), Unserved> {
    if head.expects_continue && head.version == Version::Http11 {
        client.write(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()).await.map_err(|_| Unserved::ClientLeft)?;
    }
    Ok(())
}

async fn fill_body(client: &mut Client, core: &Core) -> Result<(), Unserved> {
    let limit = core.settings.timeouts.body_idle;
    client.fill(limit).await.map_err(|end| match end {
        ReadEnd::Closed => Unserved::ClientLeft,
        ReadEnd::TimedOut => {
            let message = format!("nothing of the request's body arrived for {limit:?}");
            Refusal::new(ErrorCode::RequestTimeout, message).into()
        }
    })
}

fn too_large(core: &Core) -> Refusal {
    let limit = core.settings.limits.max_body_bytes;
    let message = format!("the request's body is over the limit of {limit} bytes (limits.max_body_bytes)");
    Refusal::new(ErrorCode::PayloadTooLarge, message)
}

// === impl Body ===

impl Body {
    fn inbound(range: Range<usize>, charge: Option<ReplayCharge>) -> Self {
        Self { place: Place::Inbound(range), _charge: charge }
    }

    /// The bytes, out of the client's inbound ones where they still are.
    pub(crate) fn bytes<'a>(&'a self, inbound: &'a [u8]) -> &'a [u8] {
        match &self.place {
            Place::Inbound(range) => &inbound[range.clone()],
            Place::Decoded(decoded) => decoded,
        }
    }

    /// How much of the client's inbound bytes head and body take, for a head of `head_length` bytes.
    pub(crate) fn inbound_length(&self, head_length: usize) -> usize {
        match &self.place {
            Place::Inbound(range) => range.end,
            Place::Decoded(_) => head_length,
        }
    }
}

// === impl ReplayCharge ===

impl ReplayCharge {
    fn new(core: &Core, bytes: u64) -> Result<Self, Refusal> {
        let level = Counted::new(&core.levels, |values| &values.replay_bytes, 0);
        let mut charge = Self { shared: core.shared.clone(), bytes: 0, level };
        charge.grow(core, bytes)?;
        Ok(charge)
    }

    fn grow(&mut self, core: &Core, bytes: u64) -> Result<(), Refusal> {
        let limit = core.settings.limits.max_replay_bytes;
        // Charged before the check, so that two cores can't both take the last piece.
        let total = self.shared.replay_bytes.fetch_add(bytes, Relaxed) + bytes;
        self.bytes += bytes;
        self.level.grow(bytes);
        if total > limit {
            let message = format!(
                "the bodies of all requests under way are over the limit of {limit} bytes (limits.max_replay_bytes)"
            );
            return Err(Refusal::new(ErrorCode::NoCapacity, message));
        }
        Ok(())
    }
}

impl Drop for ReplayCharge {
    fn drop(&mut self) {
        self.shared.replay_bytes.fetch_sub(self.bytes, Relaxed);
    }
}
