//! A TCP connection of a core, on the ring.
//!
//! Writes, and reads of what is expected soon, are operations of the ring: many of them are handed to the
//! kernel in one system call, which is cheaper than one each (`docs/performance.md`). Where a connection may
//! stay quiet for long, a wait holds no buffer: first readiness, then a non-blocking read, which can also be
//! given up at any time without losing bytes that the kernel had taken.
//!
//! This module exists for the three things that need `unsafe`: monoio gives a raw descriptor where the system
//! call wrappers want a borrowed one, and asks for `&mut` to start an operation although it only copies the
//! descriptor's handle; and none of the wrappers in use knows `TCP_INFO`.
#![allow(unsafe_code)]

use std::{
    cell::UnsafeCell,
    future::Future,
    io::{self, IoSlice},
    mem::size_of,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    rc::Rc,
};

use monoio::{
    buf::{IoBuf, IoBufMut},
    io::{AsyncReadRent, AsyncWriteRent},
    net::{TcpListener, TcpStream},
};
use rustix::{
    buffer::spare_capacity,
    io::Errno,
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags},
};

/// A connected TCP socket; clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Socket {
    stream: Rc<UnsafeCell<TcpStream>>,
}

/// A connection that takes what is written to it together with its buffer, as an operation of the ring does.
pub(crate) trait WriteOwned {
    /// Writes some of `buffer`, from `start` on, waiting until the kernel takes any. Dropping it leaves open
    /// what was written, and loses the buffer.
    fn write(&self, buffer: Vec<u8>, start: usize) -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;
}

/// What the kernel tells of a TCP connection, as far as it is used: `struct tcp_info` of `linux/tcp.h` to
/// `tcpi_rtt`. The kernel fills in as much as there is room for, and has never moved a field.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct TcpInfo {
    /// State, flags and options.
    _bytes: [u8; 8],
    /// Timeouts, segment sizes, counts.
    _before: [u32; 9],
    /// Time since data was last sent, in ms.
    pub(crate) last_data_sent_ms: u32,
    _between: [u32; 5],
    /// Smoothed round-trip time (RFC 6298) in µs; the handshake's own at first.
    pub(crate) rtt_us: u32,
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
    fn new(stream: TcpStream) -> io::Result<Self> {
        // A token must not wait for the acknowledgement of the one before.
        stream.set_nodelay(true)?;
        Ok(Self { stream: Rc::new(UnsafeCell::new(stream)) })
    }

    /// Connects; ends with the kernel's answer, so race it against a timeout.
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::new(TcpStream::connect_addr(address).await?)
    }

    /// Waits until bytes, an end or an error can be read.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.stream().readable(false).await
    }

    /// Waits until bytes can be written.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.stream().writable(false).await
    }

    /// Waits for bytes and appends them to `buffer`, up to its spare capacity. 0 is the end of the stream.
    /// Dropping it may lose bytes and the buffer: only when the connection is given up.
    pub(crate) async fn read(&self, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let (start, end) = (buffer.len(), buffer.capacity());
        debug_assert!(start < end, "a read into no space looks like the end");
        let (result, slice) = self.stream_mut().read(buffer.slice_mut(start..end)).await;
        (result, slice.into_inner())
    }

    /// Writes some of `buffer`, from `start` on, waiting until the kernel takes any. Dropping it leaves open
    /// what was written, and loses the buffer.
    pub(crate) async fn write(&self, buffer: Vec<u8>, start: usize) -> (io::Result<usize>, Vec<u8>) {
        let (result, slice) = self.stream_mut().write(buffer.slice(start..)).await;
        (result, slice.into_inner())
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

    /// What the kernel tells of the connection.
    pub(crate) fn tcp_info(&self) -> io::Result<TcpInfo> {
        tcp_info(self.borrow())
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

    fn stream(&self) -> &TcpStream {
        // SAFETY: see `stream_mut`.
        unsafe { &*self.stream.get() }
    }

    /// The stream as monoio's traits ask for it.
    #[expect(clippy::mut_from_ref, reason = "what is behind the reference is never changed")]
    fn stream_mut(&self) -> &mut TcpStream {
        // SAFETY: a read or write of monoio's copies the descriptor's handle out of the stream and changes
        // nothing in it, which is what lets monoio split a stream into halves by this same cast. The cell
        // stays on one thread. (Its own halves can't be used: the writing one shuts the socket down on drop.)
        unsafe { &mut *self.stream.get() }
    }

    fn borrow(&self) -> BorrowedFd<'_> {
        // SAFETY: the stream owns the descriptor and keeps it open for at least the life of this borrow.
        unsafe { BorrowedFd::borrow_raw(self.stream().as_raw_fd()) }
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
    Socket::new(TcpStream::from_std(std::net::TcpStream::from(accepted))?)
}

/// What the kernel tells of a TCP connection.
pub(crate) fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut info = TcpInfo::default();
    let mut length = size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: the descriptor is open for as long as `socket` is borrowed. The kernel writes `length` bytes at
    // most, into a struct of plain integers of just that size, any bytes of which are valid.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    match result {
        0 if length as usize == size_of::<TcpInfo>() => Ok(info),
        0 => Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel tells too little of a connection")),
        _ => Err(io::Error::last_os_error()),
    }
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test may block")]
mod tests {
    use std::{
        io::{Read, Write},
        mem::offset_of,
    };

    use super::*;

    #[test]
    fn the_fields_of_tcp_info_are_where_the_kernel_has_them() {
        // `offsetof` of tcpi_last_data_sent and tcpi_rtt.
        assert_eq!(offset_of!(TcpInfo, last_data_sent_ms), 44);
        assert_eq!(offset_of!(TcpInfo, rtt_us), 68);
        assert_eq!(size_of::<TcpInfo>(), 72);
    }

    #[test]
    fn a_connection_tells_its_round_trip_and_a_listener_none() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(b"x").unwrap();
        far.read_exact(&mut [0]).unwrap();
        let info = tcp_info(&near).unwrap();
        assert!((1..1_000_000).contains(&info.rtt_us), "{info:?}");
        assert!(info.last_data_sent_ms < 10_000, "{info:?}");
        assert_eq!(tcp_info(&listener).unwrap().rtt_us, 0);
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(tcp_info(&datagrams).is_err());
    }
}
