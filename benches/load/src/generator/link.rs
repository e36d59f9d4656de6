//! One connection of the generator: sends a message, reads the answer to its last byte, and verifies it.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant},
};

use monoio::{io::AsyncWriteRentExt, net::TcpStream};
use stargate_wire::{
    http::{
        chunked::ChunkedDecoder,
        response::{self, Framing, ResponseHead},
    },
    net::socket::{self, READ_BYTES, Reader, Writer},
};

use super::{failure::Failure, recorder::Recorder, sse::SseScanner};

/// A connection that idled longer is looked at before it is used: the server may have closed it in good order.
const TRUSTED_IDLE: Duration = Duration::from_millis(500);

/// Where an exchange stands, for whoever watches over its time.
pub(crate) struct Progress {
    /// The last time that something came; `None` between exchanges.
    pub(crate) last: Cell<Option<Instant>>,
    pub(crate) timed_out: Cell<bool>,
    reader: RefCell<Option<Reader>>,
}

/// A place for a connection, which it may lose and replace.
pub(crate) struct Link {
    address: SocketAddr,
    connection: Option<Connection>,
    pub(crate) progress: Rc<Progress>,
    connect_timeout: Duration,
}

struct Connection {
    reader: Reader,
    writer: Writer,
    buffer: Vec<u8>,
    last_used: Instant,
}

/// When a complete answer came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) first_byte: Instant,
    pub(crate) last_byte: Instant,
}

/// Hears of events as they come.
pub(crate) trait Observer {
    /// Bytes of the response came.
    fn bytes(&self, count: usize);
    /// SSE events came together, so long after the one before.
    fn events(&self, count: u64, gap: Option<Duration>);
}

impl Observer for RefCell<Recorder> {
    fn bytes(&self, count: usize) {
        self.borrow_mut().response_bytes += count as u64;
    }

    fn events(&self, count: u64, gap: Option<Duration>) {
        self.borrow_mut().events(count, gap);
    }
}

// === impl Progress ===

impl Progress {
    /// Ends the exchange in progress: its read sees an end of file.
    pub(crate) fn abort(&self) {
        if let Some(reader) = &*self.reader.borrow() {
            socket::shutdown(reader);
        }
    }
}

// === impl Link ===

impl Link {
    /// A place without a connection yet.
    pub(crate) fn new(address: SocketAddr, connect_timeout: Duration) -> Self {
        let progress =
            Progress { last: Cell::new(None), timed_out: Cell::new(false), reader: RefCell::new(None) };
        Self { address, connection: None, progress: Rc::new(progress), connect_timeout }
    }

    /// Connects ahead of the first exchange.
    pub(crate) async fn connect(&mut self) -> Result<(), Failure> {
        let attempt = TcpStream::connect_addr(self.address);
        let Ok(Ok(stream)) = monoio::time::timeout(self.connect_timeout, attempt).await else {
            return Err(Failure::Connect);
        };
        let (reader, writer) = socket::split(stream);
        *self.progress.reader.borrow_mut() = Some(socket::share(&reader));
        self.connection = Some(Connection {
            reader,
            writer,
            buffer: Vec::with_capacity(READ_BYTES),
            last_used: Instant::now(),
        });
        Ok(())
    }

    /// Sends `message` and reads the answer to its end. After a failure the connection is not used again.
    pub(crate) async fn exchange(
        &mut self,
        message: Rc<Vec<u8>>,
        observer: &impl Observer,
    ) -> Result<Arrival, Failure> {
        if let Some(connection) = &self.connection
            && connection.last_used.elapsed() > TRUSTED_IDLE
            && !socket::is_quiet(&connection.reader)
        {
            self.connection = None;
        }
        if self.connection.is_none() {
            self.connect().await?;
        }
        let Some(mut connection) = self.connection.take() else { return Err(Failure::Connect) };
        self.progress.timed_out.set(false);
        self.progress.last.set(Some(Instant::now()));
        let result = connection.exchange(message, &self.progress, observer).await;
        self.progress.last.set(None);
        match result {
            Ok((arrival, head)) => {
                if head.keep_alive {
                    self.connection = Some(connection);
                } else {
                    self.disconnect();
                }
                if head.status == 200 { Ok(arrival) } else { Err(Failure::Status(head.status)) }
            }
            Err(failure) => {
                self.disconnect();
                Err(if self.progress.timed_out.get() { Failure::Timeout } else { failure })
            }
        }
    }

    /// Closes the connection.
    pub(crate) fn disconnect(&mut self) {
        self.connection = None;
        self.progress.reader.borrow_mut().take();
    }
}

// === impl Connection ===

impl Connection {
    async fn exchange(
        &mut self,
        message: Rc<Vec<u8>>,
        progress: &Progress,
        observer: &impl Observer,
    ) -> Result<(Arrival, ResponseHead), Failure> {
        // An answer may come before a reset that the write runs into: the read tells which.
        let _ = self.writer.write_all(message).await.0;
        self.buffer.clear();
        let mut first_byte = None;
        let head = loop {
            let before = self.buffer.len();
            let now = self.read(progress).await.map_err(|()| {
                if first_byte.is_none() { Failure::ResetBeforeResponse } else { Failure::Cut }
            })?;
            observer.bytes(self.buffer.len() - before);
            first_byte.get_or_insert(now);
            match self.parse_head()? {
                Some(head) => break head,
                None if self.buffer.is_empty() => first_byte = None,
                None => {}
            }
        };
        let first_byte = first_byte.unwrap_or_else(Instant::now);
        let last_byte = self.body(&head, first_byte, progress, observer).await?;
        self.last_used = last_byte;
        Ok((Arrival { first_byte, last_byte }, head))
    }

    /// The final head, once it is complete; interim ones (1xx) are dropped.
    fn parse_head(&mut self) -> Result<Option<ResponseHead>, Failure> {
        loop {
            let head = response::parse(&self.buffer).map_err(|_| Failure::Malformed)?;
            match head {
                Some(interim) if interim.status < 200 => {
                    self.buffer.drain(..interim.bytes);
                    if self.buffer.is_empty() {
                        return Ok(None);
                    }
                }
                head => return Ok(head),
            }
        }
    }

    /// Reads the body to its end; returns when that came.
    async fn body(
        &mut self,
        head: &ResponseHead,
        first_byte: Instant,
        progress: &Progress,
        observer: &impl Observer,
    ) -> Result<Instant, Failure> {
        let mut body = BodyCheck::new(head);
        let mut now = first_byte;
        let mut last_event = None;
        let mut start = head.bytes;
        loop {
            let events = body.feed(&self.buffer[start..])?;
            if events > 0 {
                let gap = last_event.replace(now).map(|last| now.saturating_duration_since(last));
                observer.events(events, gap);
            }
            if body.is_complete() {
                body.verdict(head)?;
                return Ok(now);
            }
            self.buffer.clear();
            start = 0;
            match self.read(progress).await {
                Ok(at) => {
                    now = at;
                    observer.bytes(self.buffer.len());
                }
                // Only a body without any framing may end so, and nobody can say whether it is whole.
                Err(()) if head.framing == Framing::UntilClose => {
                    body.verdict(head)?;
                    return Ok(now);
                }
                Err(()) => return Err(Failure::Cut),
            }
        }
    }

    /// Appends one read to the buffer; returns when it came. An end of file is an error.
    async fn read(&mut self, progress: &Progress) -> Result<Instant, ()> {
        let result = socket::read_more(&mut self.reader, &mut self.buffer).await;
        let now = Instant::now();
        progress.last.set(Some(now));
        match result {
            Ok(count) if count > 0 => Ok(now),
            _ => Err(()),
        }
    }
}

/// Follows a body through its framing.
struct BodyCheck {
    framing: Framing,
    remaining: u64,
    chunks: ChunkedDecoder,
    scanner: Option<SseScanner>,
    last_byte: u8,
}

// === impl BodyCheck ===

impl BodyCheck {
    fn new(head: &ResponseHead) -> Self {
        let remaining = if let Framing::Length(length) = head.framing { length } else { 0 };
        Self {
            framing: head.framing,
            remaining,
            chunks: ChunkedDecoder::default(),
            scanner: head.event_stream.then(SseScanner::new),
            last_byte: 0,
        }
    }

    /// Takes what came; returns how many SSE events it completed.
    fn feed(&mut self, bytes: &[u8]) -> Result<u64, Failure> {
        let before = self.scanner.as_ref().map_or(0, |scanner| scanner.events);
        let Self { framing, remaining, chunks, scanner, last_byte } = self;
        let mut data = |data: &[u8]| {
            if let Some(scanner) = scanner {
                scanner.feed(data);
            }
            if let Some(byte) = data.last() {
                *last_byte = *byte;
            }
        };
        let used = match framing {
            Framing::Length(_) => {
                let take = (bytes.len() as u64).min(*remaining) as usize;
                data(&bytes[..take]);
                *remaining -= take as u64;
                take
            }
            Framing::Chunked => chunks.feed(bytes, data).map_err(|_| Failure::Malformed)?,
            Framing::UntilClose => {
                data(bytes);
                bytes.len()
            }
        };
        // One request is under way at a time: nothing may follow its answer.
        if used < bytes.len() {
            return Err(Failure::Malformed);
        }
        Ok(self.scanner.as_ref().map_or(0, |scanner| scanner.events) - before)
    }

    fn is_complete(&self) -> bool {
        match self.framing {
            Framing::Length(_) => self.remaining == 0,
            Framing::Chunked => self.chunks.is_done(),
            Framing::UntilClose => false,
        }
    }

    /// Whether what is complete by its framing is complete in substance.
    fn verdict(&self, head: &ResponseHead) -> Result<(), Failure> {
        match &self.scanner {
            Some(scanner) if scanner.error => Err(Failure::SseError),
            Some(scanner) if !scanner.ended => Err(Failure::SseWithoutEnd),
            None if head.status == 200 && self.last_byte != b'}' => Err(Failure::Malformed),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, body: &str, step: usize) -> Result<(bool, u64), Failure> {
        let head = response::parse(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").as_bytes());
        let head = head.unwrap().unwrap();
        let mut check = BodyCheck::new(&head);
        let mut events = 0;
        for part in body.as_bytes().chunks(step) {
            events += check.feed(part)?;
        }
        if check.is_complete() {
            check.verdict(&head)?;
        }
        Ok((check.is_complete(), events))
    }

    #[test]
    fn lengths_must_be_met_exactly() {
        assert_eq!(check("content-length: 4", "{  }", 3), Ok((true, 0)));
        assert_eq!(check("content-length: 5", "{  }", 3), Ok((false, 0)));
        assert_eq!(check("content-length: 4", "{  }x", 5), Err(Failure::Malformed));
        assert_eq!(check("content-length: 4", "{\"a\"", 4), Err(Failure::Malformed));
    }

    #[test]
    fn streams_must_say_that_they_are_complete() {
        let head = "content-type: text/event-stream\r\ntransfer-encoding: chunked";
        let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
        let token = chunk("data: 1\n\n");
        let whole = format!("{token}{token}{}0\r\n\r\n", chunk("data: [DONE]\n\n"));
        assert_eq!(check(head, &whole, 7), Ok((true, 2)));
        assert_eq!(check(head, &format!("{token}0\r\n\r\n"), 7), Err(Failure::SseWithoutEnd));
        let failed = format!("{token}{}0\r\n\r\n", chunk("event: error\ndata: {}\n\n"));
        assert_eq!(check(head, &failed, 7), Err(Failure::SseError));
        assert_eq!(check(head, &format!("{token}zz"), 3), Err(Failure::Malformed));
        assert_eq!(check(head, &token, 3), Ok((false, 1)));
    }
}
