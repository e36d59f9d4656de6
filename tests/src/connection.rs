//! One TCP connection, read through a buffer: the ground that both sides of the harness stand on.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

use crate::{http::Head, poll::DEADLINE, read_error::ReadError, request::Request};

/// Bytes of one read.
const READ_BYTES: usize = 16 * 1024;

/// Bytes of the longest head that the harness reads.
const HEAD_BYTES_MAX: usize = 1024 * 1024;

/// A connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

// === impl Connection ===

impl Connection {
    /// Connects.
    #[track_caller]
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, DEADLINE)
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        Self::of(stream)
    }

    pub(crate) fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("TCP_NODELAY");
        stream.set_read_timeout(Some(DEADLINE)).expect("a read timeout");
        stream.set_write_timeout(Some(DEADLINE)).expect("a write timeout");
        Self { stream, buffer: Vec::new() }
    }

    /// The socket, for what this type has no word for.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// How long reads wait from now on.
    pub fn set_read_timeout(&self, timeout: Duration) {
        self.stream.set_read_timeout(Some(timeout)).expect("a read timeout");
    }

    /// Sends these bytes.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the peer takes what is sent");
    }

    /// Sends these bytes, where the peer may have closed.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends FIN; the other direction stays open.
    pub fn finish_sending(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Closes with a reset instead of an orderly end.
    pub fn reset(self) {
        // Linger 0 is what makes close(2) send RST.
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("SO_LINGER");
    }

    /// Reads a response's head, passing over nothing: an interim response (1xx) is returned too.
    pub fn receive_head(&mut self) -> Result<Head, ReadError> {
        self.read_head()
    }

    /// Sends a request and reads its response's head, to read the body piece by piece with [`Self::body`].
    #[track_caller]
    pub fn begin(&mut self, request: &Request) -> Head {
        self.send(request.to_bytes());
        self.receive_head().unwrap_or_else(|error| panic!("no response to {request:?}: {error:?}"))
    }

    /// Asserts that the peer closes without another byte. A reset will do: it is what the kernel makes of a
    /// close with unread bytes.
    #[track_caller]
    pub fn expect_closed(&mut self) {
        match self.fill() {
            Ok(0) | Err(ReadError::Reset) => {}
            Ok(_) => panic!("bytes instead of a close: {:?}", String::from_utf8_lossy(&self.buffer)),
            Err(error) => panic!("not closed: {error:?}"),
        }
    }

    /// Whether the peer has closed by now; does not wait.
    pub fn is_closed(&mut self) -> bool {
        self.stream.set_nonblocking(true).expect("a non-blocking socket");
        let mut byte = [0];
        let closed = match self.stream.peek(&mut byte) {
            Ok(read) => read == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        self.stream.set_nonblocking(false).expect("a blocking socket");
        closed
    }

    /// Whether there is something to read by now, an end included; does not wait.
    pub fn has_input(&self) -> bool {
        if !self.buffer.is_empty() {
            return true;
        }
        self.stream.set_nonblocking(true).expect("a non-blocking socket");
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).expect("a blocking socket");
        !matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Reads more into the buffer; 0 is the peer's close.
    pub(crate) fn fill(&mut self) -> Result<usize, ReadError> {
        let old = self.buffer.len();
        self.buffer.resize(old + READ_BYTES, 0);
        let read = loop {
            match self.stream.read(&mut self.buffer[old..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(old + *read.as_ref().unwrap_or(&0));
        Ok(read?)
    }

    /// What has been read and not yet taken.
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer
    }

    /// Takes the first `count` bytes of the buffer.
    pub(crate) fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.buffer.split_off(count);
        std::mem::replace(&mut self.buffer, rest)
    }

    /// Reads a head, up to and with its empty line.
    pub(crate) fn read_head(&mut self) -> Result<Head, ReadError> {
        let raw = self.read_through(b"\r\n\r\n", HEAD_BYTES_MAX)?;
        Head::parse(&raw)
    }

    /// Reads a line and strips its CRLF.
    pub(crate) fn read_line(&mut self) -> Result<Vec<u8>, ReadError> {
        let mut line = self.read_through(b"\r\n", HEAD_BYTES_MAX)?;
        line.truncate(line.len() - 2);
        Ok(line)
    }

    fn read_through(&mut self, end: &[u8], bytes_max: usize) -> Result<Vec<u8>, ReadError> {
        let mut searched: usize = 0;
        loop {
            let from = searched.saturating_sub(end.len());
            if let Some(found) = self.buffer[from..].windows(end.len()).position(|window| window == end) {
                return Ok(self.take(from + found + end.len()));
            }
            searched = self.buffer.len();
            if searched > bytes_max {
                return Err(ReadError::Malformed(format!("no {end:?} in {bytes_max} bytes")));
            }
            let was_empty = self.buffer.is_empty();
            if self.fill()? == 0 {
                return Err(if was_empty { ReadError::Closed } else { ReadError::Cut });
            }
        }
    }
}
