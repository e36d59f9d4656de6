//! Heads of HTTP/1.1 messages, parsed strictly: what a lenient client would forgive is a fault of the gateway.

use std::fmt;

use crate::read_error::ReadError;

/// Headers in the order, the case and the number in which they came.
///
/// Values are kept byte for byte: a byte above 0x7f becomes the character of the same number.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

/// Start line and headers.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// The start line without its CRLF.
    pub start_line: String,
    /// The headers.
    pub headers: Headers,
    /// Every byte of the head, its empty line included.
    pub raw: Vec<u8>,
}

// === impl Headers ===

impl Headers {
    /// The value of the only header of this name (any case); panics when it is there more than once.
    #[track_caller]
    pub fn get(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() <= 1, "{name} came {} times: {all:?}", all.len());
        all.first().copied()
    }

    /// The values of all headers of this name (any case), in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    /// Whether there is a header of this name (any case).
    pub fn has(&self, name: &str) -> bool {
        !self.all(name).is_empty()
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether a comma-separated header contains this token (any case).
    pub fn has_token(&self, name: &str, token: &str) -> bool {
        self.all(name)
            .iter()
            .flat_map(|value| value.split(','))
            .any(|element| element.trim().eq_ignore_ascii_case(token))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

// === impl Head ===

impl Head {
    /// Parses a whole head, which ends with its empty line.
    pub(crate) fn parse(raw: &[u8]) -> Result<Self, ReadError> {
        let text: String = raw.iter().copied().map(char::from).collect();
        let malformed = |what: String| ReadError::Malformed(format!("{what} in {text:?}"));
        let lines = text.strip_suffix("\r\n\r\n").ok_or_else(|| malformed("no empty line".into()))?;
        if lines.replace("\r\n", "").contains(['\r', '\n', '\0']) {
            return Err(malformed("a bare CR, LF or a NUL".into()));
        }
        let mut lines = lines.split("\r\n");
        let start_line = lines.next().unwrap_or_default().to_owned();
        let mut headers = Vec::new();
        for line in lines {
            let (name, value) =
                line.split_once(':').ok_or_else(|| malformed(format!("no colon in {line:?}")))?;
            if name.is_empty() || !name.bytes().all(is_token_byte) {
                return Err(malformed(format!("the header name {name:?}")));
            }
            headers.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
        }
        Ok(Self { start_line, headers: Headers(headers), raw: raw.to_vec() })
    }

    /// The three parts of the start line; the last may contain spaces.
    pub(crate) fn start_parts(&self) -> Result<[&str; 3], ReadError> {
        let mut parts = self.start_line.splitn(3, ' ');
        let part = [parts.next(), parts.next(), parts.next()];
        match part {
            [Some(first), Some(second), Some(third)] => Ok([first, second, third]),
            // A reason phrase may be empty, but the space before it is required (RFC 9112, 4).
            _ => Err(ReadError::Malformed(format!("the start line {:?}", self.start_line))),
        }
    }

    /// The body's length: `Ok(None)` without a `content-length`.
    pub(crate) fn content_length(&self) -> Result<Option<u64>, ReadError> {
        match self.headers.all("content-length")[..] {
            [] => Ok(None),
            [value] if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                value.parse().map(Some).map_err(|_| ReadError::Malformed(format!("content-length {value:?}")))
            }
            ref values => Err(ReadError::Malformed(format!("content-length {values:?}"))),
        }
    }

    /// Whether the body is chunked.
    pub(crate) fn is_chunked(&self) -> Result<bool, ReadError> {
        match self.headers.all("transfer-encoding")[..] {
            [] => Ok(false),
            [value] if value.eq_ignore_ascii_case("chunked") => {
                if self.headers.has("content-length") {
                    return Err(ReadError::Malformed("content-length beside transfer-encoding".into()));
                }
                Ok(true)
            }
            ref values => Err(ReadError::Malformed(format!("transfer-encoding {values:?}"))),
        }
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {:?}", self.start_line, self.headers)
    }
}

/// Bytes of a token (RFC 9110, 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
