//! Parses a request's head into what an engine acts on, as ranges of the buffer that it was read into.
//!
//! Strict where a proxy in front could desynchronise (two framings, two lengths), indifferent elsewhere.

use std::ops::Range;

use super::{MAX_HEAD_BYTES, MAX_HEADERS};

/// How the body of a message is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Exactly so many bytes.
    Length(u64),
    /// The chunked coding.
    Chunked,
}

/// The head of one request.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// Bytes of the head, the empty line included.
    pub bytes: usize,
    /// `GET`, `POST`, …
    pub method: Range<usize>,
    /// The target as sent, query included.
    pub target: Range<usize>,
    /// How the body is delimited.
    pub framing: Framing,
    /// Whether the connection may serve another request.
    pub keep_alive: bool,
    /// Whether the client understands the chunked coding (HTTP/1.1).
    pub takes_chunked: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// `x-request-id`.
    pub request_id: Option<Range<usize>>,
    /// `x-model`.
    pub model: Option<Range<usize>>,
    /// `x-cache-affinity-key`.
    pub affinity_key: Option<Range<usize>>,
    /// `x-input-tokens`.
    pub input_tokens: Option<u64>,
    /// `x-stargate-attempt`.
    pub attempt: Option<Range<usize>>,
    /// `x-mock-decode-tps`: the decode rate that this request wants, whatever the engine's is.
    pub decode_tps: Option<f64>,
}

/// Why a head was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRequest {
    /// 400 or 431.
    pub status: u16,
    /// What was wrong.
    pub message: &'static str,
}

impl BadRequest {
    const fn new(message: &'static str) -> Self {
        Self { status: 400, message }
    }
}

/// Parses a head at the start of `buffer`; `None` while it is incomplete.
pub fn parse(buffer: &[u8]) -> Result<Option<RequestHead>, BadRequest> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let bytes = match request.parse(buffer) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if buffer.len() < MAX_HEAD_BYTES => return Ok(None),
        Ok(httparse::Status::Partial) => {
            return Err(BadRequest { status: 431, message: "head is too large" });
        }
        Err(httparse::Error::TooManyHeaders) => {
            return Err(BadRequest { status: 431, message: "too many headers" });
        }
        Err(_) => return Err(BadRequest::new("malformed request head")),
    };
    let range = |part: &[u8]| {
        let start = part.as_ptr().addr() - buffer.as_ptr().addr();
        start..start + part.len()
    };
    let minor_version = request.version.unwrap_or(1);
    let mut head = RequestHead {
        bytes,
        method: range(request.method.unwrap_or_default().as_bytes()),
        target: range(request.path.unwrap_or_default().as_bytes()),
        framing: Framing::Length(0),
        keep_alive: minor_version >= 1,
        takes_chunked: minor_version >= 1,
        expects_continue: false,
        request_id: None,
        model: None,
        affinity_key: None,
        input_tokens: None,
        attempt: None,
        decode_tps: None,
    };
    let mut length = None;
    let mut chunked = false;
    for header in &*request.headers {
        let name = header.name;
        // The length decides first: most headers of most requests are none of these.
        match name.len() {
            6 if name.eq_ignore_ascii_case("expect") => {
                head.expects_continue = header.value.eq_ignore_ascii_case(b"100-continue");
            }
            7 if name.eq_ignore_ascii_case("x-model") => head.model = Some(range(header.value)),
            10 if name.eq_ignore_ascii_case("connection") => {
                if lists_token(header.value, b"close") {
                    head.keep_alive = false;
                } else if lists_token(header.value, b"keep-alive") {
                    head.keep_alive = true;
                }
            }
            12 if name.eq_ignore_ascii_case("x-request-id") => head.request_id = Some(range(header.value)),
            14 if name.eq_ignore_ascii_case("content-length") => {
                let value = decimal(header.value).ok_or(BadRequest::new("malformed content-length"))?;
                if length.is_some_and(|other| other != value) {
                    return Err(BadRequest::new("two different content-lengths"));
                }
                length = Some(value);
            }
            14 if name.eq_ignore_ascii_case("x-input-tokens") => {
                head.input_tokens =
                    Some(decimal(header.value).ok_or(BadRequest::new("malformed x-input-tokens"))?);
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                if chunked || !header.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(BadRequest::new("transfer-encoding is not chunked"));
                }
                chunked = true;
            }
            17 if name.eq_ignore_ascii_case("x-mock-decode-tps") => {
                let rate = str::from_utf8(header.value).ok().and_then(|text| decode_rate(text).ok());
                head.decode_tps = Some(rate.ok_or(BadRequest::new("malformed x-mock-decode-tps"))?);
            }
            18 if name.eq_ignore_ascii_case("x-stargate-attempt") => head.attempt = Some(range(header.value)),
            20 if name.eq_ignore_ascii_case("x-cache-affinity-key") => {
                head.affinity_key = Some(range(header.value)).filter(|key| !key.is_empty());
            }
            _ => {}
        }
    }
    head.framing = match (chunked, length) {
        (true, Some(_)) => return Err(BadRequest::new("both content-length and transfer-encoding")),
        (true, None) => Framing::Chunked,
        (false, length) => Framing::Length(length.unwrap_or(0)),
    };
    Ok(Some(head))
}

/// Reads a rate in tokens/s: 0, or within what timers can hold (the lower bound is one token in 11 days).
pub fn decode_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if rate == 0.0 || (1e-6..=1e12).contains(&rate) {
        Ok(rate)
    } else {
        Err("not 0 and not within 1e-6..=1e12".to_owned())
    }
}

/// Whether a comma-separated header value contains `token`.
pub fn lists_token(value: &[u8], token: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token))
}

/// Reads a number that consists of digits only, as HTTP wants it.
pub fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 18 {
        return None;
    }
    value.iter().try_fold(0_u64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_an_engine_needs() {
        let text = b"POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: a\r\nX-Request-ID: r1\r\nx-input-tokens: 12\r\n\
            X-Cache-Affinity-Key: k\r\nx-model: m\r\nX-Stargate-Attempt: 0000beef.0.1\r\nexpect: 100-Continue\r\ncontent-length: 3\r\n\r\nabc";
        let head = parse(text).unwrap().unwrap();
        assert_eq!(&text[head.method], b"POST");
        assert_eq!(&text[head.target], b"/v1/chat/completions?x=1");
        assert_eq!(&text[head.request_id.unwrap()], b"r1");
        assert_eq!(&text[head.affinity_key.unwrap()], b"k");
        assert_eq!(&text[head.model.unwrap()], b"m");
        assert_eq!(&text[head.attempt.unwrap()], b"0000beef.0.1");
        assert_eq!(head.input_tokens, Some(12));
        assert_eq!(head.framing, Framing::Length(3));
        assert_eq!(head.bytes, text.len() - 3);
        assert!(head.keep_alive && head.expects_continue);
    }

    #[test]
    fn keep_alive_follows_version_and_connection() {
        let keeps = |text: &str| parse(text.as_bytes()).unwrap().unwrap().keep_alive;
        assert!(keeps("GET / HTTP/1.1\r\n\r\n"));
        assert!(!keeps("GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n"));
        assert!(!keeps("GET / HTTP/1.0\r\n\r\n"));
        assert!(keeps("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"));
    }

    #[test]
    fn refuses_ambiguous_framing() {
        for headers in [
            "content-length: 1\r\ncontent-length: 2",
            "content-length: +1",
            "content-length: 1\r\ntransfer-encoding: chunked",
            "transfer-encoding: gzip",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        ] {
            let text = format!("POST / HTTP/1.1\r\n{headers}\r\n\r\n");
            assert_eq!(parse(text.as_bytes()).unwrap_err().status, 400, "{headers}");
        }
    }

    #[test]
    fn waits_for_the_end_but_not_for_ever() {
        assert!(parse(b"GET / HTTP/1.1\r\nhost: a\r\n").unwrap().is_none());
        let endless = [b"GET / HTTP/1.1\r\nx: ".to_vec(), vec![b'a'; MAX_HEAD_BYTES]].concat();
        assert_eq!(parse(&endless).unwrap_err().status, 431);
    }
}
