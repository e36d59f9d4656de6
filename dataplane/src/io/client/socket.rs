//! A client's connection: what can be read from it and written to it, and how it ends.
//!
//! The one file that knows it to be plain TCP: what is ever to lie between the two, such as TLS, goes in here, and
//! nobody above need learn of it. Each operation is the socket's own future, so that the border costs nothing.

use std::{future::Future, io};

use monoio::net::TcpListener;

use crate::io::socket::{Peek, Socket, WriteOwned, try_accept};

/// A client's connection; clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct ClientSocket(Socket);

// === impl ClientSocket ===

impl ClientSocket {
    /// Takes one waiting connection off the backlog. `WouldBlock` when there is none.
    pub(crate) fn accept(listener: &TcpListener) -> io::Result<Self> {
        try_accept(listener).map(Self)
    }

    /// Waits until bytes, an end or an error can be read.
    pub(crate) fn readable(&self) -> impl Future<Output = io::Result<()>> {
        self.0.readable()
    }

    /// Appends what has arrived to `buffer`, up to its spare capacity. 0 is the end of the stream;
    /// `WouldBlock` means that nothing has arrived.
    pub(crate) fn try_read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.0.try_read(buffer)
    }

    /// Looks without taking anything.
    pub(crate) fn peek(&self) -> Peek {
        self.0.peek()
    }

    /// Ends the connection in both directions now, in order.
    pub(crate) fn shutdown(&self) {
        self.0.shutdown();
    }

    /// Tells the client that nothing more will be sent; it can still be read from.
    pub(crate) fn shutdown_write(&self) {
        self.0.shutdown_write();
    }

    /// Makes the coming close a reset: the client can't take what it got for complete.
    pub(crate) fn reset_on_close(&self) {
        self.0.reset_on_close();
    }
}

impl WriteOwned for ClientSocket {
    fn write(&self, buffer: Vec<u8>, start: usize) -> impl Future<Output = (io::Result<usize>, Vec<u8>)> {
        self.0.write(buffer, start)
    }
}
