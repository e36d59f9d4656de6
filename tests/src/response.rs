//! Responses: the three framings of a body, and whether it was complete.

use std::{borrow::BorrowMut, fmt};

use serde_json::Value;

use crate::{
    connection::Connection,
    http::{Head, Headers},
    read_error::ReadError,
    request::Request,
};

/// A whole response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status.
    pub status: u16,
    /// Interim responses (1xx) that came before it.
    pub interim: Vec<Head>,
    /// Its head.
    pub head: Head,
    /// Its body.
    pub body: Body,
    /// Trailers of a chunked body.
    pub trailers: Headers,
}

/// A body without its framing.
#[derive(Clone, PartialEq, Eq)]
pub enum Body {
    /// It ended as its framing promised.
    Complete(Vec<u8>),
    /// The connection ended first.
    Cut(Vec<u8>),
}

/// A part of a body, handed out as soon as it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes; never empty.
    Data(Vec<u8>),
    /// The body is complete.
    End(Headers),
    /// The connection ended first.
    Cut,
}

/// Reads a body piece by piece, from a connection that it borrows or owns.
#[derive(Debug)]
pub struct BodyReader<C> {
    connection: C,
    framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// This many bytes are still to come.
    Length(u64),
    /// Inside a chunk, with this many bytes and its CRLF still to come.
    Chunk(u64),
    /// Before a chunk's size line.
    ChunkSize,
    /// Until the connection ends.
    Close,
    /// Nothing more is to come.
    Ended,
}

// === impl Connection ===

impl Connection {
    /// Sends a request and reads its response.
    #[track_caller]
    pub fn exchange(&mut self, request: &Request) -> Response {
        self.try_exchange(request).unwrap_or_else(|error| panic!("no response to {request:?}: {error:?}"))
    }

    /// Sends a request and reads its response, where there may be none.
    pub fn try_exchange(&mut self, request: &Request) -> Result<Response, ReadError> {
        self.try_send(request.to_bytes())?;
        self.receive(request)
    }

    /// Reads the response to `request`, whose method decides whether there is a body.
    pub fn receive(&mut self, request: &Request) -> Result<Response, ReadError> {
        read(self, request.is_head())
    }

    /// Reads the body that belongs to `head`, piece by piece.
    #[track_caller]
    pub fn body(&mut self, head: &Head) -> BodyReader<&mut Self> {
        BodyReader::of_response(self, head, false).expect("the framing of the response is valid")
    }

    /// Reads the body that belongs to `head`, piece by piece, taking the connection along.
    #[track_caller]
    pub fn into_body(self, head: &Head) -> BodyReader<Self> {
        BodyReader::of_response(self, head, false).expect("the framing of the response is valid")
    }
}

// === impl Response ===

impl Response {
    /// A header of the response; panics when it is there more than once.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)
    }

    /// The complete body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        let body = self.body.complete();
        serde_json::from_slice(body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {:?}", String::from_utf8_lossy(body)))
    }

    /// The complete body as text.
    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8(self.body.complete().to_vec()).expect("the body is UTF-8")
    }

    /// Asserts an error of the gateway's own, in `OpenAI`'s shape, with this status and code.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.header("x-stargate-error-code")), (status, Some(code)), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let json = self.json();
        let error = &json["error"];
        assert_eq!(error["code"], code, "{json}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{json}");
        let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
        assert_eq!(error["type"], kind, "{json}");
        let fields: Vec<&str> = error.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(fields.len(), 4, "message, type, code and param: {json}");
        assert!(error["param"].is_null(), "{json}");
        assert_eq!(json.as_object().expect("an object").len(), 1, "only `error`: {json}");
    }

    /// Asserts 200 and returns the response, for chaining.
    #[track_caller]
    #[must_use]
    pub fn expect_ok(self) -> Self {
        assert_eq!(self.status, 200, "{self:?}");
        self
    }

    /// Which backend answered, by `x-inference-server-id`.
    #[track_caller]
    pub fn served_by(&self) -> &str {
        self.header("x-inference-server-id").unwrap_or_else(|| panic!("nobody is named in {self:?}"))
    }
}

// === impl Body ===

impl Body {
    /// The bytes; panics when the body was cut.
    #[track_caller]
    pub fn complete(&self) -> &[u8] {
        match self {
            Self::Complete(bytes) => bytes,
            Self::Cut(bytes) => panic!("the body was cut after {:?}", String::from_utf8_lossy(bytes)),
        }
    }

    /// The bytes that came, whether the body is complete or not.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Complete(bytes) | Self::Cut(bytes) => bytes,
        }
    }

    /// Whether it was cut.
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::Cut(_))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_cut() { "Cut" } else { "Complete" };
        write!(formatter, "{kind}({:?})", String::from_utf8_lossy(self.bytes()))
    }
}

// === impl BodyReader ===

impl<C: BorrowMut<Connection>> BodyReader<C> {
    pub(crate) fn of_response(connection: C, head: &Head, to_head_request: bool) -> Result<Self, ReadError> {
        let status = status(head)?;
        // RFC 9112, 6.3: these never have a body, whatever their headers say.
        let framing = if to_head_request || status / 100 == 1 || status == 204 || status == 304 {
            Framing::Ended
        } else if head.is_chunked()? {
            Framing::ChunkSize
        } else {
            head.content_length()?.map_or(Framing::Close, Framing::Length)
        };
        Ok(Self { connection, framing })
    }

    pub(crate) fn of_request(connection: C, head: &Head) -> Result<Self, ReadError> {
        let framing = if head.is_chunked()? {
            Framing::ChunkSize
        } else {
            Framing::Length(head.content_length()?.unwrap_or(0))
        };
        Ok(Self { connection, framing })
    }

    /// The next part, as soon as any byte of it is there.
    pub fn next_piece(&mut self) -> Result<Piece, ReadError> {
        match self.step() {
            Err(ReadError::Closed) if self.framing == Framing::Close => {
                self.framing = Framing::Ended;
                Ok(Piece::End(Headers::default()))
            }
            Err(ReadError::Closed | ReadError::Cut | ReadError::Reset) => Ok(Piece::Cut),
            other => other,
        }
    }

    /// The next bytes; panics when the body ends instead.
    #[track_caller]
    pub fn next_data(&mut self) -> Vec<u8> {
        match self.next_piece() {
            Ok(Piece::Data(data)) => data,
            other => panic!("more of the body was expected: {other:?}"),
        }
    }

    /// Everything that is left, and the trailers.
    pub fn rest(&mut self) -> Result<(Body, Headers), ReadError> {
        let mut bytes = Vec::new();
        loop {
            match self.next_piece()? {
                Piece::Data(data) => bytes.extend(data),
                Piece::End(trailers) => return Ok((Body::Complete(bytes), trailers)),
                Piece::Cut => return Ok((Body::Cut(bytes), Headers::default())),
            }
        }
    }

    fn step(&mut self) -> Result<Piece, ReadError> {
        let connection = self.connection.borrow_mut();
        loop {
            match self.framing {
                Framing::Ended | Framing::Length(0) => return Ok(Piece::End(Headers::default())),
                Framing::Close => return available(connection, u64::MAX).map(Piece::Data),
                Framing::Length(left) => {
                    let data = available(connection, left)?;
                    self.framing = Framing::Length(left - data.len() as u64);
                    return Ok(Piece::Data(data));
                }
                Framing::Chunk(0) => {
                    let line = connection.read_line()?;
                    if !line.is_empty() {
                        return Err(ReadError::Malformed(format!("{line:?} after a chunk's data")));
                    }
                    self.framing = Framing::ChunkSize;
                }
                Framing::Chunk(left) => {
                    let data = available(connection, left)?;
                    self.framing = Framing::Chunk(left - data.len() as u64);
                    return Ok(Piece::Data(data));
                }
                Framing::ChunkSize => match parse_chunk_size(&connection.read_line()?)? {
                    0 => {
                        let trailers = trailers(connection)?;
                        self.framing = Framing::Ended;
                        return Ok(Piece::End(trailers));
                    }
                    size => self.framing = Framing::Chunk(size),
                },
            }
        }
    }
}

fn available(connection: &mut Connection, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
    if connection.buffered().is_empty() && connection.fill()? == 0 {
        return Err(ReadError::Closed);
    }
    let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    Ok(connection.take(bytes_max.min(connection.buffered().len())))
}

fn trailers(connection: &mut Connection) -> Result<Headers, ReadError> {
    let mut raw = b"trailers\r\n".to_vec();
    loop {
        let line = connection.read_line()?;
        raw.extend_from_slice(&line);
        raw.extend_from_slice(b"\r\n");
        if line.is_empty() {
            return Ok(Head::parse(&raw)?.headers);
        }
    }
}

/// Reads a whole response, with the interim ones before it.
pub(crate) fn read(connection: &mut Connection, to_head_request: bool) -> Result<Response, ReadError> {
    let mut interim = Vec::new();
    loop {
        let head = connection.read_head()?;
        let status = status(&head)?;
        // 101 would end HTTP on this connection; the gateway never agrees to that.
        if status / 100 == 1 {
            interim.push(head);
            continue;
        }
        let (body, trailers) = BodyReader::of_response(connection, &head, to_head_request)?.rest()?;
        return Ok(Response { status, interim, head, body, trailers });
    }
}

/// The status of a response's head.
pub(crate) fn status(head: &Head) -> Result<u16, ReadError> {
    let malformed = || ReadError::Malformed(format!("the status line {:?}", head.start_line));
    let [version, status, _] = head.start_parts()?;
    // The gateway itself speaks HTTP/1.1, also to a client of 1.0 (RFC 9110, 2.5).
    if version != "HTTP/1.1" || status.len() != 3 {
        return Err(malformed());
    }
    status.parse().ok().filter(|status| (100..600).contains(status)).ok_or_else(malformed)
}

fn parse_chunk_size(line: &[u8]) -> Result<u64, ReadError> {
    let malformed = || ReadError::Malformed(format!("the chunk size {:?}", String::from_utf8_lossy(line)));
    // Extensions are for one hop only and mean nothing to us.
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(malformed());
    }
    let digits = std::str::from_utf8(digits).map_err(|_| malformed())?;
    u64::from_str_radix(digits, 16).map_err(|_| malformed())
}
