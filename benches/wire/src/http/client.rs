//! A small client for control messages: one keep-alive connection, one request at a time, whole bodies.

use std::{
    io::{self, ErrorKind},
    time::Duration,
};

use monoio::{io::AsyncWriteRentExt, net::TcpStream};

use super::{
    chunked::ChunkedDecoder,
    response::{self, Framing},
    url::Url,
};
use crate::net::socket::{self, READ_BYTES};

/// A control message and its answer take this long at most.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of an answer; more is an error.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// A client of one HTTP service.
pub struct Client {
    base: Url,
    idle: Option<TcpStream>,
}

/// What the service answered.
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The whole body.
    pub body: Vec<u8>,
}

// === impl Client ===

impl Client {
    /// A client that has not connected yet.
    pub fn new(base: Url) -> Self {
        Self { base, idle: None }
    }

    /// Sends one request and reads its whole answer; a connection that went stale while idle is replaced once.
    pub async fn request(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        let mut message = format!(
            "{method} {}{path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.base.path.trim_end_matches('/'),
            self.base.authority,
            body.len()
        )
        .into_bytes();
        message.extend_from_slice(body);
        let timed_out = |_| io::Error::from(ErrorKind::TimedOut);
        if let Some(stream) = self.idle.take() {
            let attempt = self.exchange(stream, message.clone());
            if let Ok(answer) = monoio::time::timeout(EXCHANGE_TIMEOUT, attempt).await.map_err(timed_out)? {
                return Ok(answer);
            }
        }
        let address = self.base.address;
        let attempt = async {
            let stream = TcpStream::connect_addr(address).await?;
            stream.set_nodelay(true)?;
            self.exchange(stream, message).await
        };
        monoio::time::timeout(EXCHANGE_TIMEOUT, attempt).await.map_err(timed_out)?
    }

    async fn exchange(&mut self, mut stream: TcpStream, message: Vec<u8>) -> io::Result<Answer> {
        stream.write_all(message).await.0?;
        let mut buffer = Vec::with_capacity(READ_BYTES);
        let head = loop {
            read_more(&mut stream, &mut buffer).await?;
            if let Some(head) = response::parse(&buffer).map_err(|_| ErrorKind::InvalidData)? {
                if head.status >= 200 {
                    break head;
                }
                buffer.drain(..head.bytes);
            }
        };
        let mut pending = buffer.split_off(head.bytes);
        let mut body = Vec::new();
        let mut decoder = ChunkedDecoder::default();
        loop {
            match head.framing {
                Framing::Length(length) => {
                    body.append(&mut pending);
                    if body.len() as u64 >= length {
                        break;
                    }
                }
                Framing::Chunked => {
                    let used = decoder.feed(&pending, |data| body.extend_from_slice(data));
                    used.map_err(|_| ErrorKind::InvalidData)?;
                    if decoder.is_done() {
                        break;
                    }
                }
                Framing::UntilClose => return Err(ErrorKind::InvalidData.into()),
            }
            if body.len() > MAX_ANSWER_BYTES {
                return Err(ErrorKind::InvalidData.into());
            }
            pending.clear();
            read_more(&mut stream, &mut pending).await?;
        }
        if head.keep_alive {
            self.idle = Some(stream);
        }
        Ok(Answer { status: head.status, body })
    }
}

/// Appends one read to `buffer`; an end of file is an error.
async fn read_more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<()> {
    match socket::read_more(stream, buffer).await? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}
