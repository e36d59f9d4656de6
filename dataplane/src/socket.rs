//! A TCP connection of a core: readiness comes from the ring, bytes move by non-blocking system calls.
//!
//! A wait holds no buffer (10 000 idle streams cost no memory) and can be dropped at any time without losing
//! bytes that the kernel had taken. The other way, owned buffers inside pending ring operations, has neither
//! property, and measured no cheaper here (`docs/performance.md`).
//!
//! This module exists for the one thing that needs `unsafe`: monoio gives a raw descriptor where the system
//! call wrappers want a borrowed one.
#![allow(unsafe_code)]

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    os::fd::{AsRawFd, BorrowedFd},
};

use monoio::net::{TcpListener, TcpStream};
use rustix::{
    buffer::spare_capacity,
    io::Errno,
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags},
};

/// A connected TCP socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
}

/// What a look at an idle connection shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peek {
    /// Nothing has arrived.
    Quiet,
    /// Bytes are waiting.
    Data,
    /// The peer has closed or reset it.
    Closed,
}

// === impl Socket ===

impl Socket {
    /// Connects; ends with the kernel's answer, so race it against a timeout.
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_addr(address).await?;
        // A token must not wait for the acknowledgement of the one before.
        stream.set_nodelay(true)?;
        Ok(Self { stream })
    }

    /// Waits until bytes, an end or an error can be read.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.stream.readable(false).await
    }

    /// Waits until bytes can be written.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.stream.writable(false).await
    }

    /// Appends what has arrived to `buffer`, up to its spare capacity. 0 is the end of the stream;
    /// `WouldBlock` means that nothing has arrived.
    pub(crate) fn try_read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        debug_assert!(buffer.capacity() > buffer.len(), "a read into no space looks like the end");
        retry(|| {
            rustix::net::recv(self.borrow(), spare_capacity(buffer), RecvFlags::DONTWAIT)
                .map(|(_, length)| length)
        })
    }

    /// Writes as much of `parts`, in order, as the kernel takes now.
    pub(crate) fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match parts {
            [part] => retry(|| rustix::net::send(self.borrow(), part, flags)),
            _ => retry(|| {
                rustix::net::sendmsg(self.borrow(), parts, &mut SendAncillaryBuffer::default(), flags)
            }),
        }
    }

    /// Looks without taking anything.
    pub(crate) fn peek(&self) -> Peek {
        let mut byte = [0_u8; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match retry(|| rustix::net::recv(self.borrow(), &mut byte, flags).map(|(_, length)| length)) {
            Ok(0) => Peek::Closed,
            Ok(_) => Peek::Data,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Peek::Quiet,
            Err(_) => Peek::Closed,
        }
    }

    /// Ends the connection in both directions now, though operations on it may still be pending. The peer
    /// sees an orderly end.
    pub(crate) fn shutdown(&self) {
        // Not connected any more is as good.
        let _ = rustix::net::shutdown(self.borrow(), Shutdown::Both);
    }

    /// Tells the peer that nothing more will be sent; it can still be read from.
    pub(crate) fn shutdown_write(&self) {
        let _ = rustix::net::shutdown(self.borrow(), Shutdown::Write);
    }

    /// Makes the coming close a reset: the peer can't take what it got for complete.
    pub(crate) fn reset_on_close(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(self.borrow(), Some(std::time::Duration::ZERO));
    }

    fn borrow(&self) -> BorrowedFd<'_> {
        // SAFETY: `stream` owns the descriptor and keeps it open for at least the life of this borrow.
        unsafe { BorrowedFd::borrow_raw(self.stream.as_raw_fd()) }
    }
}

/// Takes one waiting connection off the backlog. `WouldBlock` when there is none.
///
/// Not an operation of the ring: an accept that is cancelled there leaks the connection it took.
pub(crate) fn try_accept(listener: &TcpListener) -> io::Result<Socket> {
    // SAFETY: `listener` owns the descriptor and is borrowed for the whole call.
    let descriptor = unsafe { BorrowedFd::borrow_raw(listener.as_raw_fd()) };
    let accepted =
        retry(|| rustix::net::accept_with(descriptor, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK))?;
    let stream = TcpStream::from_std(std::net::TcpStream::from(accepted))?;
    stream.set_nodelay(true)?;
    Ok(Socket { stream })
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}
