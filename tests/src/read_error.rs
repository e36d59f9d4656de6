//! Why a message could not be read: what a test asserts when a peer ends a connection, or sends what is no HTTP.

use std::io::{self, ErrorKind};

/// Why nothing more could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The peer closed the connection between two messages.
    Closed,
    /// The peer closed the connection inside a message.
    Cut,
    /// The peer reset the connection.
    Reset,
    /// Nothing came for [`DEADLINE`](crate::DEADLINE).
    TimedOut,
    /// What came is not HTTP/1.1.
    Malformed(String),
}

// === impl ReadError ===

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => Self::Reset,
            kind => Self::Malformed(format!("{kind}: {error}")),
        }
    }
}
