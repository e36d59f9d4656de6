//! The writing side of a connection: whole answers in one write, streams a chunk a write, or in drips when a fault says so.

use std::{
    io::{self, ErrorKind, Write},
    time::Duration,
};

use monoio::{
    buf::IoBuf,
    io::{AsyncWriteRent, AsyncWriteRentExt},
};
use stargate_wire::net::socket::Writer;

/// The writing half.
pub(crate) struct Output {
    pub(crate) writer: Writer,
    drip: Option<Drip>,
    wire: Vec<u8>,
}

/// A fault: pieces of this size, so far apart.
#[derive(Clone, Copy)]
pub(crate) struct Drip {
    pub(crate) bytes: usize,
    pub(crate) interval: Duration,
}

// === impl Output ===

impl Output {
    /// The writing side of a new connection.
    pub(crate) fn new(writer: Writer) -> Self {
        Self { writer, drip: None, wire: Vec::new() }
    }

    /// Writes the next answers in drips, or whole again.
    pub(crate) fn set_drip(&mut self, drip: Option<Drip>) {
        self.drip = drip;
    }

    /// The buffer to assemble the next write in, empty. Hand it to [`Output::send`].
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        let mut wire = std::mem::take(&mut self.wire);
        wire.clear();
        wire
    }

    /// Writes it all: one write, unless the socket or a fault splits it.
    pub(crate) async fn send(&mut self, wire: Vec<u8>) -> io::Result<()> {
        if let Some(drip) = self.drip {
            return self.send_in_drips(wire, drip).await;
        }
        let (result, wire) = self.writer.write_all(wire).await;
        self.wire = wire;
        result.map(|_| ())
    }

    /// Frames `payload` as one chunk of the chunked coding, or leaves it bare, and writes it.
    pub(crate) async fn send_chunk(&mut self, payload: &[u8], chunked: bool) -> io::Result<()> {
        let mut wire = self.buffer();
        append_chunk(&mut wire, payload, chunked);
        self.send(wire).await
    }

    async fn send_in_drips(&mut self, mut wire: Vec<u8>, drip: Drip) -> io::Result<()> {
        let mut at = 0;
        while at < wire.len() {
            let end = wire.len().min(at + drip.bytes);
            let (result, slice) = self.writer.write(wire.slice(at..end)).await;
            wire = slice.into_inner();
            match result? {
                0 => return Err(ErrorKind::WriteZero.into()),
                written => at += written,
            }
            if !drip.interval.is_zero() && at < wire.len() {
                monoio::time::sleep(drip.interval).await;
            }
        }
        self.wire = wire;
        Ok(())
    }
}

/// Appends `payload` as one chunk, or bare for clients that do not know the chunked coding.
pub(crate) fn append_chunk(wire: &mut Vec<u8>, payload: &[u8], chunked: bool) {
    if !chunked {
        wire.extend_from_slice(payload);
    } else if !payload.is_empty() {
        // An empty chunk would end the body. Writing to a vector cannot fail.
        let _ = write!(wire, "{:x}\r\n", payload.len());
        wire.extend_from_slice(payload);
        wire.extend_from_slice(b"\r\n");
    }
}
