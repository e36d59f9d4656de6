//! A client's side of a connection: bytes that have come and are not used yet, and writes that give up when
//! nobody takes them.

pub(crate) mod race;
pub(crate) mod socket;
pub(crate) mod watch;
pub(crate) mod write;

use std::{
    io,
    rc::Rc,
    time::{Duration, Instant},
};

use self::{
    socket::ClientSocket,
    watch::ClientWatch,
    write::{WriteEnd, write_all},
};
use super::{buffers::Buffers, deadlines::Deadlines};

/// How much room a read is given at least.
const MIN_READ_BYTES: usize = 4 * 1024;

/// One client connection.
pub(crate) struct Client {
    pub(crate) socket: ClientSocket,
    pub(crate) watch: ClientWatch,
    /// Received, from the start of the current request on. Without memory while nothing is there.
    pub(crate) inbound: Vec<u8>,
    /// Lends the memory for what is received, and takes back that of what was written.
    buffers: Rc<Buffers>,
    /// How long the client may take nothing of what is written.
    write_limit: Duration,
}

/// Why nothing more can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// The client has closed or reset the connection.
    Closed,
    TimedOut,
}

// === impl Client ===

impl Client {
    pub(crate) fn new(
        socket: ClientSocket,
        deadlines: Rc<Deadlines>,
        buffers: Rc<Buffers>,
        write_limit: Duration,
    ) -> Self {
        let watch = ClientWatch::new(socket.clone(), deadlines);
        Self { socket, watch, inbound: Vec::new(), buffers, write_limit }
    }

    /// Waits for the first byte of a request.
    pub(crate) async fn wait(&mut self, limit: Duration) -> Result<(), ReadEnd> {
        if self.inbound.is_empty() && !self.watch.readable(limit).await {
            return Err(ReadEnd::TimedOut);
        }
        Ok(())
    }

    /// Takes what has come, waiting for it if need be.
    pub(crate) async fn fill(&mut self, limit: Duration) -> Result<(), ReadEnd> {
        if self.inbound.capacity() == 0 {
            self.inbound = self.buffers.take();
        }
        if self.inbound.capacity() - self.inbound.len() < MIN_READ_BYTES {
            self.inbound.reserve(self.inbound.len().max(MIN_READ_BYTES));
        }
        loop {
            match self.socket.try_read(&mut self.inbound) {
                Ok(0) => return Err(ReadEnd::Closed),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.watch.readable(limit).await {
                        return Err(ReadEnd::TimedOut);
                    }
                }
                Err(_) => return Err(ReadEnd::Closed),
            }
        }
    }

    /// Forgets the first `length` bytes received: the request that they were is done with.
    pub(crate) fn consume(&mut self, length: usize) {
        if length < self.inbound.len() {
            self.inbound.drain(..length);
        } else {
            self.buffers.give(std::mem::take(&mut self.inbound));
        }
    }

    /// Writes all of `buffer` and gives it back.
    pub(crate) async fn write(&mut self, buffer: Vec<u8>) -> Result<(), WriteEnd> {
        let buffer = write_all(&self.socket, buffer, &mut self.watch, self.write_limit).await?;
        self.buffers.give(buffer);
        Ok(())
    }

    /// Ends the connection so that the client can read what was sent last even while it is still sending:
    /// closing with unread bytes would reset it and take the answer away.
    pub(crate) async fn linger(&mut self) {
        /// How much longer a client may send to a connection that was answered and closed.
        const LINGER: Duration = Duration::from_secs(2);
        /// How much of it is read.
        const LINGER_BYTES: usize = 1 << 20;

        self.socket.shutdown_write();
        let mut sink = self.buffers.take();
        let (began, mut taken) = (Instant::now(), 0);
        while taken < LINGER_BYTES && began.elapsed() < LINGER {
            sink.clear();
            match self.socket.try_read(&mut sink) {
                Ok(0) => break,
                Ok(length) => taken += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.watch.readable(LINGER).await {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        self.buffers.give(sink);
    }
}
