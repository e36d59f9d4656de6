//! The ways in which a request can fail, as a client sees them.

use std::fmt;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// No connection.
    Connect,
    /// The connection ended before a byte of the response.
    ResetBeforeResponse,
    /// The connection ended within the response.
    Cut,
    /// Not HTTP, or more or other bytes than the framing announced.
    Malformed,
    /// An answer other than 200.
    Status(u16),
    /// An SSE stream with an error event.
    SseError,
    /// An SSE stream that ended, well framed, without saying that it is complete.
    SseWithoutEnd,
    /// Nothing came for too long.
    Timeout,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => formatter.write_str("connect"),
            Self::ResetBeforeResponse => formatter.write_str("reset before response"),
            Self::Cut => formatter.write_str("cut response"),
            Self::Malformed => formatter.write_str("malformed response"),
            Self::Status(status) => write!(formatter, "status {status}"),
            Self::SseError => formatter.write_str("sse error event"),
            Self::SseWithoutEnd => formatter.write_str("sse without end"),
            Self::Timeout => formatter.write_str("timeout"),
        }
    }
}
