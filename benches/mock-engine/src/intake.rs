//! The reading side of a connection: whole requests out of a byte stream, and a watch for clients that leave.

use std::{
    future::Future,
    io::{self, ErrorKind},
    ops::Range,
    pin::pin,
};

use monoio::io::AsyncWriteRentExt;
use stargate_wire::{
    http::{
        chunked::ChunkedDecoder,
        request::{self, BadRequest, Framing, RequestHead},
    },
    net::{
        race::{First, race},
        socket::{self, Reader, Writer},
    },
};

/// Bytes of one request body.
const MAX_BODY_BYTES: u64 = 256 * 1024 * 1024;

/// Bytes of further requests that are taken in while one is served; then the client is no longer watched.
const MAX_PIPELINED_BYTES: usize = 64 * 1024;

/// The reading half and what it has delivered ahead.
pub(crate) struct Intake {
    pub(crate) reader: Reader,
    buffer: Vec<u8>,
}

/// One whole request.
pub(crate) struct Request {
    pub(crate) head: RequestHead,
    bytes: Vec<u8>,
    body: Body,
}

enum Body {
    /// A range of `bytes`.
    Plain(Range<usize>),
    /// What the chunked coding carried.
    Decoded(Vec<u8>),
}

/// Why there is no further request.
pub(crate) enum End {
    /// The client closed between requests, or in the middle of one.
    Closed,
    /// The client's fault: an answer is due, then the connection ends.
    Refused(BadRequest),
}

/// The client closed or reset the connection.
#[derive(Debug)]
pub(crate) struct ClientGone;

// === impl Intake ===

impl Intake {
    /// The reading side of a new connection.
    pub(crate) fn new(reader: Reader) -> Self {
        Self { reader, buffer: Vec::new() }
    }

    /// Reads the next request; `began` is called when its first byte is there.
    pub(crate) async fn next_request(
        &mut self,
        writer: &mut Writer,
        began: impl FnOnce(),
    ) -> Result<Request, End> {
        if self.buffer.is_empty() {
            self.fill().await?;
        }
        began();
        let head = loop {
            match request::parse(&self.buffer) {
                Ok(Some(head)) => break head,
                Ok(None) => self.fill().await?,
                Err(error) => return Err(End::Refused(error)),
            }
        };
        if head.expects_continue && self.buffer.len() == head.bytes {
            writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.0.map_err(|_| End::Closed)?;
        }
        let (body, end) = match head.framing {
            Framing::Length(length) if length > MAX_BODY_BYTES => return Err(too_large()),
            Framing::Length(length) => {
                let end = head.bytes + length as usize;
                self.buffer.reserve_exact(end.saturating_sub(self.buffer.len()));
                while self.buffer.len() < end {
                    self.fill().await?;
                }
                (Body::Plain(head.bytes..end), end)
            }
            Framing::Chunked => {
                let (decoded, end) = self.read_chunked(head.bytes).await?;
                (Body::Decoded(decoded), end)
            }
        };
        let ahead = self.buffer[end..].to_vec();
        let bytes = std::mem::replace(&mut self.buffer, ahead);
        Ok(Request { head, bytes, body })
    }

    /// Takes a served request's buffer back, for the next one.
    pub(crate) fn recycle(&mut self, request: Request) {
        if self.buffer.is_empty() && request.bytes.capacity() <= MAX_PIPELINED_BYTES {
            self.buffer = request.bytes;
            self.buffer.clear();
        }
    }

    /// Does `work` while watching the client; work that is ready at once costs no watch.
    pub(crate) async fn attended<F: Future>(&mut self, work: F) -> Result<F::Output, ClientGone> {
        let mut work = pin!(work);
        while self.buffer.len() < MAX_PIPELINED_BYTES {
            let event = race(work.as_mut(), pin!(socket::readable(&self.reader))).await;
            match event {
                First::Left(value) => return Ok(value),
                First::Right(_) => self.fill().await.map_err(|_| ClientGone)?,
            }
        }
        Ok(work.await)
    }

    async fn read_chunked(&mut self, start: usize) -> Result<(Vec<u8>, usize), End> {
        let mut decoder = ChunkedDecoder::default();
        let mut body = Vec::new();
        let mut at = start;
        loop {
            let used = decoder.feed(&self.buffer[at..], |data| body.extend_from_slice(data));
            at += used
                .map_err(|_| End::Refused(BadRequest { status: 400, message: "malformed chunked body" }))?;
            if decoder.is_done() {
                return Ok((body, at));
            }
            if body.len() as u64 > MAX_BODY_BYTES {
                return Err(too_large());
            }
            // The coded form was consumed: only the head is needed further.
            self.buffer.truncate(start);
            at = start;
            self.fill().await?;
        }
    }

    /// Appends one read; an end of file is an error.
    async fn fill(&mut self) -> Result<(), End> {
        match socket::read_more(&mut self.reader, &mut self.buffer).await {
            Ok(0) => Err(End::Closed),
            Ok(_) => Ok(()),
            Err(error) if is_spurious(&error) => Ok(()),
            Err(_) => Err(End::Closed),
        }
    }
}

fn too_large() -> End {
    End::Refused(BadRequest { status: 413, message: "body is larger than 256 MiB" })
}

fn is_spurious(error: &io::Error) -> bool {
    error.kind() == ErrorKind::Interrupted
}

// === impl Request ===

impl Request {
    /// `GET`, `POST`, …
    pub(crate) fn method(&self) -> &[u8] {
        &self.bytes[self.head.method.clone()]
    }

    /// The path without its query.
    pub(crate) fn path(&self) -> &[u8] {
        let target = &self.bytes[self.head.target.clone()];
        target.split(|byte| *byte == b'?').next().unwrap_or_default()
    }

    /// The head as it arrived.
    pub(crate) fn head_bytes(&self) -> &[u8] {
        &self.bytes[..self.head.bytes]
    }

    /// The body, without its framing.
    pub(crate) fn body(&self) -> &[u8] {
        match &self.body {
            Body::Plain(range) => &self.bytes[range.clone()],
            Body::Decoded(bytes) => bytes,
        }
    }

    /// A header's value that the head's parser noted.
    pub(crate) fn header(&self, range: Option<&Range<usize>>) -> Option<&[u8]> {
        range.map(|range| &self.bytes[range.clone()])
    }
}
