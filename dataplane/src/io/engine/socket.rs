//! A connection to an engine: what can be read from it and written to it, how it ends, and what it tells of its path.
//!
//! The one file that knows it to be plain TCP: what is ever to lie between the two, such as TLS, goes in here, and
//! nobody above need learn of it. Each operation is the socket's own future, so that the border costs nothing.

use std::{
    future::Future,
    io::{self, IoSlice},
    net::SocketAddr,
};

use crate::io::socket::{Peek, Socket, TcpInfo, WriteOwned};

/// A connection to an engine; clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct EngineSocket(Socket);

// === impl EngineSocket ===

impl EngineSocket {
    /// Connects; ends with the kernel's answer, so race it against a timeout.
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Self> {
        Socket::connect(address).await.map(Self)
    }

    /// Waits until bytes, an end or an error can be read.
    pub(crate) fn readable(&self) -> impl Future<Output = io::Result<()>> {
        self.0.readable()
    }

    /// Waits until bytes can be written.
    pub(crate) fn writable(&self) -> impl Future<Output = io::Result<()>> {
        self.0.writable()
    }

    /// Waits for bytes and appends them to `buffer`, up to its spare capacity. 0 is the end of the stream.
    /// Dropping it may lose bytes and the buffer: only when the connection is given up.
    pub(crate) fn read(&self, buffer: Vec<u8>) -> impl Future<Output = (io::Result<usize>, Vec<u8>)> {
        self.0.read(buffer)
    }

    /// Appends what has arrived to `buffer`, up to its spare capacity. 0 is the end of the stream;
    /// `WouldBlock` means that nothing has arrived.
    pub(crate) fn try_read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.0.try_read(buffer)
    }

    /// Writes as much of `parts`, in order, as the kernel takes now.
    pub(crate) fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write(parts)
    }

    /// Looks without taking anything.
    pub(crate) fn peek(&self) -> Peek {
        self.0.peek()
    }

    /// Ends the connection in both directions now, in order.
    pub(crate) fn shutdown(&self) {
        self.0.shutdown();
    }

    /// What the kernel tells of the path.
    pub(crate) fn tcp_info(&self) -> io::Result<TcpInfo> {
        self.0.tcp_info()
    }
}

impl WriteOwned for EngineSocket {
    fn write(&self, buffer: Vec<u8>, start: usize) -> impl Future<Output = (io::Result<usize>, Vec<u8>)> {
        self.0.write(buffer, start)
    }
}
