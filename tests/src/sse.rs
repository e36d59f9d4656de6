//! Server-sent events, in the order and at the moment in which they arrive.

use std::borrow::BorrowMut;

use serde_json::Value;

use crate::{
    connection::Connection,
    read_error::ReadError,
    response::{BodyReader, Piece},
};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// `event:`, where there was one.
    pub name: Option<String>,
    /// `data:`, its lines joined.
    pub data: String,
}

/// What comes next in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SseItem {
    /// An event.
    Event(SseEvent),
    /// The body is complete.
    End,
    /// The connection ended first.
    Cut,
}

/// Reads events from a response's body.
#[derive(Debug)]
pub struct SseReader<C> {
    body: BodyReader<C>,
    buffer: Vec<u8>,
}

// === impl SseEvent ===

impl SseEvent {
    /// The data as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }

    /// The text that this chunk of a chat completion adds.
    #[track_caller]
    pub fn delta(&self) -> String {
        self.json()["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned()
    }

    /// Whether it is `data: [DONE]`.
    pub fn is_done(&self) -> bool {
        self.data == "[DONE]"
    }

    fn parse(text: &str) -> Self {
        let mut name = None;
        let mut data = Vec::new();
        for line in text.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => name = Some(value.to_owned()),
                "data" => data.push(value),
                _ => {}
            }
        }
        Self { name, data: data.join("\n") }
    }
}

// === impl SseReader ===

impl<C: BorrowMut<Connection>> SseReader<C> {
    /// Reads from `body`.
    pub fn new(body: BodyReader<C>) -> Self {
        Self { body, buffer: Vec::new() }
    }

    /// The next item, as soon as it is complete.
    pub fn next_item(&mut self) -> Result<SseItem, ReadError> {
        loop {
            if let Some(event) = self.take_event() {
                return Ok(SseItem::Event(event));
            }
            match self.body.next_piece()? {
                Piece::Data(data) => self.buffer.extend(data),
                Piece::End(_) => {
                    assert!(
                        self.buffer.is_empty(),
                        "half an event: {:?}",
                        String::from_utf8_lossy(&self.buffer)
                    );
                    return Ok(SseItem::End);
                }
                Piece::Cut => return Ok(SseItem::Cut),
            }
        }
    }

    /// The next event; panics when the stream ends instead.
    #[track_caller]
    pub fn next_event(&mut self) -> SseEvent {
        match self.next_item() {
            Ok(SseItem::Event(event)) => event,
            other => panic!("another event was expected: {other:?}"),
        }
    }

    /// All events that are left, and how the stream ended: `End` or `Cut`.
    pub fn rest(&mut self) -> Result<(Vec<SseEvent>, SseItem), ReadError> {
        let mut events = Vec::new();
        loop {
            match self.next_item()? {
                SseItem::Event(event) => events.push(event),
                end => return Ok((events, end)),
            }
        }
    }

    /// An event ends with an empty line; lines end with LF or CRLF.
    fn take_event(&mut self) -> Option<SseEvent> {
        let end = |pattern: &[u8]| {
            let found = self.buffer.windows(pattern.len()).position(|window| window == pattern)?;
            Some(found + pattern.len())
        };
        let end = match (end(b"\n\n"), end(b"\r\n\r\n")) {
            (Some(lf), Some(crlf)) => lf.min(crlf),
            (lf, crlf) => lf.or(crlf)?,
        };
        let rest = self.buffer.split_off(end);
        let event = std::mem::replace(&mut self.buffer, rest);
        Some(SseEvent::parse(&String::from_utf8_lossy(&event)))
    }
}
