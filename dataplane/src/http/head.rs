//! What request and response heads have in common: where a head ends, which line breaks it may have, how
//! `Connection`, `Content-Length` and `Transfer-Encoding` are read (RFC 9110 section 7.6.1, RFC 9112 section 6).

use smallvec::SmallVec;

use super::version::Version;

/// The offset just behind the head's empty line, or `None` while it is incomplete. Refuses bare LF, which
/// httparse accepts and other parsers read differently.
pub(super) fn end(bytes: &[u8]) -> Result<Option<usize>, BareLineFeed> {
    for position in memchr::memchr_iter(b'\n', bytes) {
        if position == 0 || bytes[position - 1] != b'\r' {
            return Err(BareLineFeed);
        }
        // An empty line ends the head, unless nothing came before it: leading empty lines are skipped.
        if position >= 3 && &bytes[position - 3..=position] == b"\r\n\r\n" {
            let first = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
            if first.is_some_and(|first| first < position) {
                return Ok(Some(position + 1));
            }
        }
    }
    Ok(None)
}

/// Appends one header line.
pub(crate) fn push_header(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// A line feed without a carriage return before it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BareLineFeed;

/// The options of all `Connection` headers of one head.
#[derive(Debug, Default)]
pub(super) struct ConnectionOptions<'a> {
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    named: SmallVec<[&'a [u8]; 4]>,
}

/// Length and transfer coding as all headers of one head give them.
#[derive(Debug, Default)]
pub(super) struct FramingHeaders {
    pub(super) length: Option<u64>,
    pub(super) chunked: bool,
}

/// Why the framing of a message cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FramingError {
    #[error("content-length is not a decimal number")]
    LengthNotANumber,
    #[error("there are two different content-length values")]
    LengthsDiffer,
    #[error("transfer-encoding is not exactly `chunked`")]
    NotChunked,
    #[error("there are both content-length and transfer-encoding")]
    LengthAndChunked,
    #[error("transfer-encoding is not defined for HTTP/1.0")]
    ChunkedInHttp10,
}

// === impl ConnectionOptions ===

impl<'a> ConnectionOptions<'a> {
    pub(super) fn add(&mut self, value: &'a [u8]) {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if !option.is_empty() {
                self.named.push(option);
            }
        }
    }

    /// Whether the header is for this hop only, by its nature or because `Connection` names it.
    pub(super) fn is_hop_by_hop(&self, name: &str) -> bool {
        const ALWAYS: [&str; 8] = [
            "connection",
            "keep-alive",
            "proxy-connection",
            "proxy-authenticate",
            "proxy-authorization",
            "te",
            "transfer-encoding",
            "upgrade",
        ];
        // The length of a name rules out nearly all comparisons.
        ALWAYS.iter().any(|always| always.eq_ignore_ascii_case(name))
            || self.named.iter().any(|named| named.eq_ignore_ascii_case(name.as_bytes()))
    }
}

// === impl FramingHeaders ===

impl FramingHeaders {
    pub(super) fn add_length(&mut self, value: &[u8]) -> Result<(), FramingError> {
        // `u64::from_str` would accept a plus sign.
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(FramingError::LengthNotANumber);
        }
        let length = std::str::from_utf8(value)
            .ok()
            .and_then(|digits| digits.parse::<u64>().ok())
            .ok_or(FramingError::LengthNotANumber)?;
        if self.length.is_some_and(|earlier| earlier != length) {
            return Err(FramingError::LengthsDiffer);
        }
        self.length = Some(length);
        Ok(())
    }

    pub(super) fn add_transfer_encoding(&mut self, value: &[u8]) -> Result<(), FramingError> {
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(FramingError::NotChunked);
        }
        self.chunked = true;
        Ok(())
    }

    pub(super) fn check(&self, version: Version) -> Result<(), FramingError> {
        if self.chunked && version == Version::Http10 {
            return Err(FramingError::ChunkedInHttp10);
        }
        if self.chunked && self.length.is_some() {
            return Err(FramingError::LengthAndChunked);
        }
        Ok(())
    }
}
