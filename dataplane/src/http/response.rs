//! A response's head from an engine, read as strictly as a request's: an engine that violates the protocol
//! must not desynchronise a pooled connection.

use std::time::Duration;

use super::{
    head::{self, ConnectionOptions, FramingError, FramingHeaders},
    request::{MAX_HEADERS, Method, describe},
    version::Version,
};

/// How the end of a response's body is found (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseBody {
    None,
    Length(u64),
    Chunked,
    UntilClose,
}

/// A response's head; its forwardable lines are in the buffer that [`ResponseHead::parse`] was given.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) body: ResponseBody,
    /// Content length as announced, also where the response has no body (HEAD, 304).
    pub(crate) announced_length: Option<u64>,
    /// Whether the connection may serve another request after this response.
    pub(crate) keep_alive: bool,
    /// `Keep-Alive: timeout=N`: the engine closes the idle connection after this long.
    pub(crate) keep_alive_timeout: Option<Duration>,
    pub(crate) is_event_stream: bool,
    /// `x-stargate-retryable: true` on 429 or 503: nothing was executed.
    pub(crate) retryable: bool,
    /// `x-stargate-retry-reason: queue_estimate_mismatch`: only this backend is concerned.
    pub(crate) queue_estimate_mismatch: bool,
    /// Bytes that the head takes.
    pub(crate) length: usize,
}

/// Why a response's head is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResponseRefused {
    #[error("its head is not valid HTTP/1.1: {0}")]
    Syntax(&'static str),
    #[error("its framing is ambiguous: {0}")]
    Framing(#[from] FramingError),
    #[error("its head has more than {0} headers")]
    TooManyHeaders(usize),
    #[error("its head is longer than {0} bytes")]
    TooLong(usize),
    #[error("it switches protocols, which nobody asked for")]
    Upgrade,
}

/// Headers of an engine's answer that do not reach the client: replaced by this gateway's own.
const REPLACED: [&str; 3] = ["x-request-id", "x-inference-server-id", "content-length"];

// === impl ResponseHead ===

impl ResponseHead {
    /// Reads the head that `bytes` starts with, the answer to a request of `method`; `None` while it is
    /// incomplete. Appends the status line and the end-to-end header lines, each with its line break, to
    /// `forward`.
    pub(crate) fn parse(
        bytes: &[u8],
        method: Method,
        max_bytes: usize,
        max_headers: usize,
        forward: &mut Vec<u8>,
    ) -> Result<Option<Self>, ResponseRefused> {
        let Some(length) =
            head::end(bytes).map_err(|_| ResponseRefused::Syntax("a line ends in a bare LF"))?
        else {
            return if bytes.len() > max_bytes { Err(ResponseRefused::TooLong(max_bytes)) } else { Ok(None) };
        };
        if length > max_bytes {
            return Err(ResponseRefused::TooLong(max_bytes));
        }
        let mut table = [const { std::mem::MaybeUninit::uninit() }; MAX_HEADERS];
        let mut parsed = httparse::Response::new(&mut []);
        let limit = max_headers.min(MAX_HEADERS);
        match httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut parsed,
            &bytes[..length],
            &mut table[..limit],
        ) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return Err(ResponseRefused::Syntax("the head ends early")),
            Err(httparse::Error::TooManyHeaders) => return Err(ResponseRefused::TooManyHeaders(limit)),
            Err(error) => return Err(ResponseRefused::Syntax(describe(error))),
        }
        Self::from_parsed(&parsed, length, method, forward).map(Some)
    }

    fn from_parsed(
        parsed: &httparse::Response<'_, '_>,
        length: usize,
        method: Method,
        forward: &mut Vec<u8>,
    ) -> Result<Self, ResponseRefused> {
        let status = parsed.code.unwrap_or_default();
        if !(100..=999).contains(&status) {
            return Err(ResponseRefused::Syntax("the status is not a number from 100 to 999"));
        }
        if status == 101 {
            return Err(ResponseRefused::Upgrade);
        }
        let version = if parsed.version == Some(0) { Version::Http10 } else { Version::Http11 };
        let mut head = Self {
            status,
            body: ResponseBody::None,
            announced_length: None,
            keep_alive: false,
            keep_alive_timeout: None,
            is_event_stream: false,
            retryable: false,
            queue_estimate_mismatch: false,
            length,
        };
        let mut connection = ConnectionOptions::default();
        for header in parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("connection")) {
            connection.add(header.value);
        }
        push_status_line(forward, status, parsed.reason.unwrap_or_default());
        let mut framing = FramingHeaders::default();
        for header in parsed.headers.iter() {
            head.read(header, &mut framing)?;
            if is_forwarded(header.name, &connection) {
                head::push_header(forward, header.name, header.value);
            }
        }
        framing.check(version)?;
        head.announced_length = framing.length;
        head.retryable &= matches!(status, 429 | 503);
        head.body = if method == Method::Head || status < 200 || matches!(status, 204 | 304) {
            ResponseBody::None
        } else if framing.chunked {
            ResponseBody::Chunked
        } else {
            match framing.length {
                Some(0) => ResponseBody::None,
                Some(length) => ResponseBody::Length(length),
                None => ResponseBody::UntilClose,
            }
        };
        head.keep_alive = head.body != ResponseBody::UntilClose
            && match version {
                Version::Http11 => !connection.close,
                Version::Http10 => connection.keep_alive && !connection.close,
            };
        Ok(head)
    }

    /// Takes in what one header says about the message.
    fn read(
        &mut self,
        header: &httparse::Header<'_>,
        framing: &mut FramingHeaders,
    ) -> Result<(), FramingError> {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        match header.name.len() {
            10 if is("keep-alive") => self.keep_alive_timeout = keep_alive_timeout(header.value),
            12 if is("content-type") => {
                self.is_event_stream = header
                    .value
                    .get(..17)
                    .is_some_and(|start| start.eq_ignore_ascii_case(b"text/event-stream"));
            }
            14 if is("content-length") => framing.add_length(header.value)?,
            17 if is("transfer-encoding") => framing.add_transfer_encoding(header.value)?,
            20 if is("x-stargate-retryable") => {
                self.retryable = header.value.eq_ignore_ascii_case(b"true");
            }
            23 if is("x-stargate-retry-reason") => {
                self.queue_estimate_mismatch = header.value == b"queue_estimate_mismatch";
            }
            _ => {}
        }
        Ok(())
    }
}

fn push_status_line(out: &mut Vec<u8>, status: u16, reason: &str) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn is_forwarded(name: &str, connection: &ConnectionOptions<'_>) -> bool {
    let is_stargate =
        name.as_bytes().get(..11).is_some_and(|start| start.eq_ignore_ascii_case(b"x-stargate-"));
    !is_stargate
        && !REPLACED.iter().any(|replaced| replaced.eq_ignore_ascii_case(name))
        && !connection.is_hop_by_hop(name)
}

fn keep_alive_timeout(value: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?;
    let seconds = text.split(',').find_map(|part| part.trim().strip_prefix("timeout="))?;
    seconds.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, method: Method) -> Result<Option<(ResponseHead, String)>, ResponseRefused> {
        let mut forward = Vec::new();
        let head = ResponseHead::parse(text.as_bytes(), method, 4096, 100, &mut forward)?;
        Ok(head.map(|head| (head, String::from_utf8(forward).unwrap())))
    }

    #[test]
    fn the_end_of_the_body_follows_rfc_9112() {
        for (text, method, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Method::Get, ResponseBody::Length(5)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Method::Head, ResponseBody::None),
            ("HTTP/1.1 204 No Content\r\n\r\n", Method::Get, ResponseBody::None),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Method::Get, ResponseBody::None),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Method::Get, ResponseBody::Chunked),
            ("HTTP/1.1 200 OK\r\n\r\n", Method::Get, ResponseBody::UntilClose),
            ("HTTP/1.0 200 OK\r\n\r\n", Method::Get, ResponseBody::UntilClose),
        ] {
            assert_eq!(parse(text, method).unwrap().unwrap().0.body, body, "{text:?}");
        }
    }

    #[test]
    fn what_could_desynchronise_the_connection_is_refused() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\nContent-Length: 5\n\n",
            "HTTP/1.1 200 OK\r\nX : 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n\r\n",
        ] {
            assert!(parse(text, Method::Get).is_err(), "{text:?}");
        }
    }

    #[test]
    fn end_to_end_headers_survive_in_order_and_ours_are_dropped() {
        let (head, forward) = parse(
            "HTTP/1.1 503 Slow Down\r\nA: 1\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=7, max=3\r\n\
             X-Stargate-Retryable: true\r\nX-Stargate-Retry-Reason: queue_estimate_mismatch\r\nX-Request-Id: e\r\n\
             A: 2\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n",
            Method::Post,
        )
        .unwrap()
        .unwrap();
        assert_eq!(forward, "HTTP/1.1 503 Slow Down\r\nA: 1\r\nA: 2\r\nRetry-After: 3\r\n");
        assert!(head.retryable && head.queue_estimate_mismatch && head.keep_alive);
        assert_eq!(head.keep_alive_timeout, Some(Duration::from_secs(7)));
    }

    #[test]
    fn only_a_shed_request_is_retryable() {
        let text = "HTTP/1.1 500 Oops\r\nX-Stargate-Retryable: true\r\nContent-Length: 0\r\n\r\n";
        assert!(!parse(text, Method::Post).unwrap().unwrap().0.retryable);
    }
}
