//! A request's head, read strictly, with everything that this gateway acts on found once.
//!
//! Values are spans into the bytes that were read, so that a head costs no allocation; those bytes must stay
//! as they are while the head is used.

use smallvec::SmallVec;

use super::{
    head::{self, ConnectionOptions, FramingError, FramingHeaders},
    version::Version,
};

/// A range of the bytes that a head was read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

/// Request methods that are told apart here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Post,
    Connect,
    Other,
}

/// How the end of a request's body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    None,
    Length(u64),
    Chunked,
}

/// A request's head.
#[derive(Debug)]
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    pub(crate) method_text: Span,
    /// Path and query in origin form.
    pub(crate) target: Span,
    pub(crate) version: Version,
    /// Whether the client allows another request on this connection.
    pub(crate) keep_alive: bool,
    pub(crate) body: BodyFraming,
    pub(crate) expects_continue: bool,
    /// Headers that Stargate reads; those of one kind that come twice are refused.
    pub(crate) stargate: StargateHeaders,
    /// Header lines for the next hop, in order, repeats included, without line breaks.
    pub(crate) forward: SmallVec<[Span; 24]>,
    /// Bytes that the head takes.
    pub(crate) length: usize,
}

/// Values of the headers that Stargate reads; what each says, `docs/api.md` tells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StargateHeaders {
    pub(crate) request_id: Option<Span>,
    pub(crate) model: Option<Span>,
    pub(crate) input_tokens: Option<Span>,
    pub(crate) routing_key: Option<Span>,
    pub(crate) routing_method: Option<Span>,
    pub(crate) cache_affinity_key: Option<Span>,
    /// Forwarded all the same: it is the application's own header.
    pub(crate) session_id: Option<Span>,
    pub(crate) priority: Option<Span>,
    pub(crate) slo_ms: Option<Span>,
    pub(crate) max_wait_ms: Option<Span>,
    pub(crate) retry_wait_ms: Option<Span>,
}

/// Why a request's head is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestRefused {
    #[error("the request line or a header is not valid HTTP/1.1: {0}")]
    Syntax(&'static str),
    #[error("{0}")]
    Framing(#[from] FramingError),
    #[error("the head has more than {0} headers")]
    TooManyHeaders(usize),
    #[error("the head is longer than {0} bytes")]
    TooLong(usize),
    #[error("the only expectation met is `100-continue`")]
    Expectation,
    #[error("header `{0}` comes more than once")]
    Repeated(&'static str),
}

/// Most headers that any setting allows; the parser's table lives on the stack.
pub(crate) const MAX_HEADERS: usize = 256;

// === impl Span ===

impl Span {
    fn of(part: &[u8], whole: &[u8]) -> Self {
        let start = part.as_ptr() as usize - whole.as_ptr() as usize;
        Self { start: start as u32, end: (start + part.len()) as u32 }
    }

    /// The bytes, out of those that the head was read from.
    pub(crate) fn of_bytes(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }

    /// Those bytes as text; empty if it is not UTF-8, which a parsed method or target always is.
    pub(crate) fn of_text(self, bytes: &[u8]) -> &str {
        std::str::from_utf8(self.of_bytes(bytes)).unwrap_or_default()
    }
}

// === impl RequestHead ===

impl RequestHead {
    /// Reads the head that `bytes` starts with; `None` while it is incomplete.
    pub(crate) fn parse(
        bytes: &[u8],
        max_bytes: usize,
        max_headers: usize,
    ) -> Result<Option<Self>, RequestRefused> {
        let Some(length) =
            head::end(bytes).map_err(|_| RequestRefused::Syntax("a line ends in a bare LF"))?
        else {
            return if bytes.len() > max_bytes { Err(RequestRefused::TooLong(max_bytes)) } else { Ok(None) };
        };
        if length > max_bytes {
            return Err(RequestRefused::TooLong(max_bytes));
        }
        let bytes = &bytes[..length];
        let mut table = [const { std::mem::MaybeUninit::uninit() }; MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut []);
        let limit = max_headers.min(MAX_HEADERS);
        match parsed.parse_with_uninit_headers(bytes, &mut table[..limit]) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return Err(RequestRefused::Syntax("the head ends early")),
            Err(httparse::Error::TooManyHeaders) => return Err(RequestRefused::TooManyHeaders(limit)),
            Err(error) => return Err(RequestRefused::Syntax(describe(error))),
        }
        Self::from_parsed(&parsed, bytes).map(Some)
    }

    fn from_parsed(parsed: &httparse::Request<'_, '_>, bytes: &[u8]) -> Result<Self, RequestRefused> {
        let version = if parsed.version == Some(0) { Version::Http10 } else { Version::Http11 };
        let method_text = parsed.method.unwrap_or_default();
        let target = parsed.path.unwrap_or_default();
        let mut request = Self {
            method: match method_text {
                "GET" => Method::Get,
                "HEAD" => Method::Head,
                "POST" => Method::Post,
                "CONNECT" => Method::Connect,
                _ => Method::Other,
            },
            method_text: Span::of(method_text.as_bytes(), bytes),
            target: Span::of(origin_form(target).as_bytes(), bytes),
            version,
            keep_alive: false,
            body: BodyFraming::None,
            expects_continue: false,
            stargate: StargateHeaders::default(),
            forward: SmallVec::new(),
            length: bytes.len(),
        };
        let mut connection = ConnectionOptions::default();
        for header in parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("connection")) {
            connection.add(header.value);
        }
        let (mut framing, mut hosts) = (FramingHeaders::default(), 0);
        for header in parsed.headers.iter() {
            match Known::of(header.name) {
                Some(Known::Host) => hosts += 1,
                Some(Known::ContentLength) => framing.add_length(header.value)?,
                Some(Known::TransferEncoding) => framing.add_transfer_encoding(header.value)?,
                Some(Known::Expect) if version == Version::Http10 => {}
                Some(Known::Expect) if header.value.eq_ignore_ascii_case(b"100-continue") => {
                    request.expects_continue = true;
                }
                Some(Known::Expect) => return Err(RequestRefused::Expectation),
                // Trailers of requests are not passed on, so announcing them would be wrong.
                Some(Known::Trailer) => {}
                Some(Known::Stargate(field)) => {
                    let slot = field.slot(&mut request.stargate);
                    if slot.is_some() {
                        return Err(RequestRefused::Repeated(field.name()));
                    }
                    *slot = Some(Span::of(header.value, bytes));
                    if field == Field::SessionId && !connection.is_hop_by_hop(header.name) {
                        request.forward.push(line(header, bytes));
                    }
                }
                // Of Stargate's namespace nothing that is not listed may reach an engine, or a caller
                // could speak for the gateway.
                Some(Known::Internal) => {}
                None if connection.is_hop_by_hop(header.name) => {}
                None => request.forward.push(line(header, bytes)),
            }
        }
        framing.check(version)?;
        if hosts > 1 || (hosts == 0 && version == Version::Http11) {
            return Err(RequestRefused::Syntax("exactly one host header is needed"));
        }
        request.body = match (framing.chunked, framing.length) {
            (true, _) => BodyFraming::Chunked,
            (false, Some(0) | None) => BodyFraming::None,
            (false, Some(length)) => BodyFraming::Length(length),
        };
        request.keep_alive = match version {
            Version::Http11 => !connection.close,
            Version::Http10 => connection.keep_alive && !connection.close,
        };
        Ok(request)
    }

    /// The path, without the query.
    pub(crate) fn path<'a>(&self, bytes: &'a [u8]) -> &'a str {
        let target = self.target.of_text(bytes);
        target.split_once('?').map_or(target, |(path, _)| path)
    }

    /// Method and path, for log lines: a query may hold secrets.
    pub(crate) fn line(&self, bytes: &[u8]) -> String {
        let (method, path) = (self.method_text.of_text(bytes), self.path(bytes));
        let mut line = String::with_capacity(method.len() + 1 + path.len());
        line.push_str(method);
        line.push(' ');
        line.push_str(path);
        line
    }

    /// The query, without the question mark; empty when there is none.
    pub(crate) fn query<'a>(&self, bytes: &'a [u8]) -> &'a str {
        self.target.of_text(bytes).split_once('?').map_or("", |(_, query)| query)
    }
}

/// The path of an absolute-form target (RFC 9112 section 3.2.2), empty when it has none; other forms are
/// returned as they are.
fn origin_form(target: &str) -> &str {
    let Some(scheme_end) = target.find("://").filter(|_| !target.starts_with('/')) else { return target };
    let rest = &target[scheme_end + 3..];
    rest.find('/').map_or(&rest[rest.len()..], |path| &rest[path..])
}

/// A header's line as it came, name to value.
fn line(header: &httparse::Header<'_>, bytes: &[u8]) -> Span {
    Span { start: Span::of(header.name.as_bytes(), bytes).start, end: Span::of(header.value, bytes).end }
}

pub(super) fn describe(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName => "a header name has a character that is not allowed",
        httparse::Error::HeaderValue => "a header value has a character that is not allowed",
        httparse::Error::NewLine => "a line break is not CR LF",
        httparse::Error::Status => "the status line is malformed",
        httparse::Error::Token => "the method or target has a character that is not allowed",
        httparse::Error::TooManyHeaders => "there are too many headers",
        httparse::Error::Version => "the version is not HTTP/1.0 or HTTP/1.1",
    }
}

// === header names ===

/// Headers that are not simply passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Host,
    ContentLength,
    TransferEncoding,
    Expect,
    Trailer,
    Stargate(Field),
    Internal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    RequestId,
    Model,
    InputTokens,
    RoutingKey,
    RoutingMethod,
    CacheAffinityKey,
    SessionId,
    Priority,
    SloMs,
    MaxWaitMs,
    RetryWaitMs,
}

const KNOWN: [(&str, Known); 16] = [
    ("host", Known::Host),
    ("content-length", Known::ContentLength),
    ("transfer-encoding", Known::TransferEncoding),
    ("expect", Known::Expect),
    ("trailer", Known::Trailer),
    ("x-request-id", Known::Stargate(Field::RequestId)),
    ("x-model", Known::Stargate(Field::Model)),
    ("x-input-tokens", Known::Stargate(Field::InputTokens)),
    ("x-routing-key", Known::Stargate(Field::RoutingKey)),
    ("x-routing-method", Known::Stargate(Field::RoutingMethod)),
    ("x-cache-affinity-key", Known::Stargate(Field::CacheAffinityKey)),
    ("x-multi-turn-session-id", Known::Stargate(Field::SessionId)),
    ("x-priority", Known::Stargate(Field::Priority)),
    ("x-request-slo-ms", Known::Stargate(Field::SloMs)),
    ("x-max-wait-ms", Known::Stargate(Field::MaxWaitMs)),
    ("x-stargate-max-wait-ms", Known::Stargate(Field::RetryWaitMs)),
];

impl Known {
    fn of(name: &str) -> Option<Self> {
        // Most headers of a request are none of these, and most of those end at the first letter.
        match name.as_bytes().first()? | 0x20 {
            b'h' | b'c' | b't' | b'e' | b'x' => {}
            _ => return None,
        }
        let known = KNOWN.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, known)| *known);
        known.or_else(|| {
            let prefix = name.as_bytes().get(..11)?;
            prefix.eq_ignore_ascii_case(b"x-stargate-").then_some(Self::Internal)
        })
    }
}

impl Field {
    fn name(self) -> &'static str {
        KNOWN.iter().find(|(_, known)| *known == Known::Stargate(self)).map_or("", |(name, _)| name)
    }

    fn slot(self, headers: &mut StargateHeaders) -> &mut Option<Span> {
        match self {
            Self::RequestId => &mut headers.request_id,
            Self::Model => &mut headers.model,
            Self::InputTokens => &mut headers.input_tokens,
            Self::RoutingKey => &mut headers.routing_key,
            Self::RoutingMethod => &mut headers.routing_method,
            Self::CacheAffinityKey => &mut headers.cache_affinity_key,
            Self::SessionId => &mut headers.session_id,
            Self::Priority => &mut headers.priority,
            Self::SloMs => &mut headers.slo_ms,
            Self::MaxWaitMs => &mut headers.max_wait_ms,
            Self::RetryWaitMs => &mut headers.retry_wait_ms,
        }
    }
}

#[cfg(test)]
mod tests;
