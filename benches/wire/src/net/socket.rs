//! What monoio does not offer on a split stream: a watch for readiness beside a write, a reset, a shutdown.
//!
//! The only module here with `unsafe`: monoio's halves share their stream in an `UnsafeCell`, and it lends
//! descriptors as bare numbers.

#![expect(unsafe_code, reason = "monoio's halves share their stream in an UnsafeCell")]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use monoio::{
    buf::IoBufMut,
    io::{AsyncReadRent, OwnedReadHalf, OwnedWriteHalf, Splitable},
    net::TcpStream,
};

/// First size of a connection's buffer, and of what is read at once: a message or several SSE events.
pub const READ_BYTES: usize = 4096;

/// The half that reads.
pub type Reader = OwnedReadHalf<TcpStream>;
/// The half that writes.
pub type Writer = OwnedWriteHalf<TcpStream>;

/// Splits a stream, with Nagle's algorithm off: every write is a message that someone waits for.
pub fn split(stream: TcpStream) -> (Reader, Writer) {
    // It fails only on a socket that is already dead, which the first read will tell.
    let _ = stream.set_nodelay(true);
    stream.into_split()
}

/// Appends one read to a buffer; 0 is an end of file. Dropped in between, it leaves the buffer empty.
pub async fn read_more(stream: &mut impl AsyncReadRent, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut whole = std::mem::take(buffer);
    if whole.capacity() - whole.len() < READ_BYTES / 4 {
        whole.reserve(READ_BYTES);
    }
    let (start, end) = (whole.len(), whole.capacity());
    let (result, slice) = stream.read(whole.slice_mut(start..end)).await;
    *buffer = slice.into_inner();
    result
}

/// Waits until the peer sent something or closed; safe to drop, since it reads nothing.
pub async fn readable(reader: &Reader) -> io::Result<()> {
    // SAFETY: monoio's operations borrow the stream only while they start, within one poll on this thread, to clone
    // its descriptor. `readable` takes `&self`, keeps no reference into the stream once its operation is submitted,
    // and no `&mut TcpStream` is alive while this future is polled.
    let stream = unsafe { &*reader.0.get() };
    stream.readable(false).await
}

/// A second handle of the reading half, for whoever must end the connection from outside its task.
pub fn share(reader: &Reader) -> Reader {
    OwnedReadHalf(reader.0.clone())
}

/// Resets the connection (RST) at once.
///
/// `SO_LINGER` would not do: dropping monoio's writing half shuts it down first, and the peer would see an orderly end.
pub fn reset(reader: &Reader) {
    // Failing leaves an orderly close of a connection that is dead anyway.
    let _ = rustix::net::connect_unspec(descriptor(reader));
}

/// Ends both directions: reads in flight complete with an end of file.
pub fn shutdown(reader: &Reader) {
    // `ENOTCONN` says that the peer was faster.
    let _ = rustix::net::shutdown(descriptor(reader), rustix::net::Shutdown::Both);
}

/// Whether an idle connection is still open and has nothing to say.
pub fn is_quiet(reader: &Reader) -> bool {
    let mut byte = [0_u8];
    let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
    matches!(rustix::net::recv(descriptor(reader), &mut byte, flags), Err(rustix::io::Errno::AGAIN))
}

fn descriptor(reader: &Reader) -> BorrowedFd<'_> {
    // SAFETY: as in `readable`, no `&mut TcpStream` is alive here.
    let stream = unsafe { &*reader.0.get() };
    // SAFETY: the stream owns an open descriptor and lives as long as the borrow of its half.
    unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) }
}
