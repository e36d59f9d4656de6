//! Parses a response's head: status, framing, and whether the connection survives it.

use super::{
    MAX_HEAD_BYTES, MAX_HEADERS,
    request::{decimal, lists_token},
};

/// How the body of a response is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Exactly so many bytes.
    Length(u64),
    /// The chunked coding.
    Chunked,
    /// Everything up to the close of the connection, which tells nobody whether it is complete.
    UntilClose,
}

/// The head of one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// Bytes of the head, the empty line included.
    pub bytes: usize,
    /// The status code; 1xx are heads of their own, with the real one behind.
    pub status: u16,
    /// How the body is delimited.
    pub framing: Framing,
    /// Whether the connection may carry another request.
    pub keep_alive: bool,
    /// Whether the body is `text/event-stream`.
    pub event_stream: bool,
}

/// What came is not an HTTP/1.1 response with a single framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Parses a head at the start of `buffer`; `None` while it is incomplete.
pub fn parse(buffer: &[u8]) -> Result<Option<ResponseHead>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let bytes = match response.parse(buffer) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if buffer.len() < MAX_HEAD_BYTES => return Ok(None),
        _ => return Err(Malformed),
    };
    let status = response.code.unwrap_or_default();
    let mut keep_alive = response.version == Some(1);
    let mut event_stream = false;
    let mut length = None;
    let mut chunked = false;
    for header in &*response.headers {
        let name = header.name;
        match name.len() {
            10 if name.eq_ignore_ascii_case("connection") => {
                keep_alive = keep_alive && !lists_token(header.value, b"close");
            }
            12 if name.eq_ignore_ascii_case("content-type") => {
                event_stream = header.value.starts_with(b"text/event-stream");
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                let value = decimal(header.value).ok_or(Malformed)?;
                if length.is_some_and(|other| other != value) {
                    return Err(Malformed);
                }
                length = Some(value);
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                if chunked || !header.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Malformed);
                }
                chunked = true;
            }
            _ => {}
        }
    }
    let framing = match (chunked, length) {
        _ if status < 200 || status == 204 || status == 304 => Framing::Length(0),
        (true, Some(_)) => return Err(Malformed),
        (true, None) => Framing::Chunked,
        (false, Some(length)) => Framing::Length(length),
        (false, None) => Framing::UntilClose,
    };
    if framing == Framing::UntilClose {
        keep_alive = false;
    }
    Ok(Some(ResponseHead { bytes, status, framing, keep_alive, event_stream }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(headers: &str) -> Result<Option<ResponseHead>, Malformed> {
        parse(format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\n").as_bytes())
    }

    #[test]
    fn tells_framing_and_reuse() {
        let head = parsed("content-type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked");
        let head = head.unwrap().unwrap();
        assert_eq!((head.framing, head.keep_alive, head.event_stream), (Framing::Chunked, true, true));
        let head = parsed("content-length: 5\r\nconnection: close").unwrap().unwrap();
        assert_eq!((head.framing, head.keep_alive), (Framing::Length(5), false));
        let head = parsed("server: x").unwrap().unwrap();
        assert_eq!((head.framing, head.keep_alive), (Framing::UntilClose, false));
        let head = parse(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().unwrap();
        assert_eq!((head.framing, head.keep_alive), (Framing::Length(0), true));
    }

    #[test]
    fn refuses_ambiguous_framing_and_garbage() {
        assert_eq!(parsed("content-length: 5\r\ntransfer-encoding: chunked"), Err(Malformed));
        assert_eq!(parsed("content-length: 5\r\ncontent-length: 6"), Err(Malformed));
        assert_eq!(parse(b"\x00\x01 not http"), Err(Malformed));
    }
}
