//! A response's body on its way from an engine to a client: the engine's framing in, the client's out.
//!
//! What has been sent always ends between two chunks of the client's framing, also when the engine stops in
//! the middle of one of its own: so an error event can follow, and nothing is ever presented as complete
//! that was not. Bytes that are whole chunks already go through as they are.

use super::{
    chunked::{ChunkedDecoder, ChunkedError},
    response::ResponseBody,
};

/// How the end of the body is told to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// By the announced length (also where there is no body).
    Length,
    /// By the last chunk.
    Chunked,
    /// By closing the connection: HTTP/1.0 has nothing else for a body of unknown length.
    UntilClose,
}

/// State of one body.
#[derive(Debug)]
pub(crate) struct RelayBody {
    incoming: Incoming,
    outgoing: Outgoing,
    /// The last four bytes of payload, to know whether an event was complete.
    tail: [u8; 4],
    is_empty: bool,
}

#[derive(Debug)]
enum Incoming {
    Length { left: u64 },
    Chunked(ChunkedDecoder),
    UntilClose,
}

/// What became of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relayed {
    /// So many bytes of the input are to be sent as they are; `None` when what is to be sent was appended
    /// to the output.
    pub(crate) verbatim: Option<usize>,
    /// The body is complete.
    pub(crate) done: bool,
    /// The engine sent more than its response: its connection cannot be used again.
    pub(crate) excess: bool,
}

// === impl RelayBody ===

impl RelayBody {
    /// `http_1_1` is whether the client understands chunks.
    pub(crate) fn new(body: ResponseBody, http_1_1: bool) -> Self {
        let incoming = match body {
            ResponseBody::None => Incoming::Length { left: 0 },
            ResponseBody::Length(left) => Incoming::Length { left },
            ResponseBody::Chunked => Incoming::Chunked(ChunkedDecoder::default()),
            ResponseBody::UntilClose => Incoming::UntilClose,
        };
        let outgoing = match incoming {
            Incoming::Length { .. } => Outgoing::Length,
            _ if http_1_1 => Outgoing::Chunked,
            _ => Outgoing::UntilClose,
        };
        Self { incoming, outgoing, tail: [0; 4], is_empty: true }
    }

    pub(crate) fn outgoing(&self) -> Outgoing {
        self.outgoing
    }

    /// Whether the body is complete before anything has arrived.
    pub(crate) fn is_done(&self) -> bool {
        match &self.incoming {
            Incoming::Length { left } => *left == 0,
            Incoming::Chunked(decoder) => decoder.is_done(),
            Incoming::UntilClose => false,
        }
    }

    /// Takes bytes from the engine. What is to be sent is either some of them as they are, or appended to `out`.
    pub(crate) fn relay(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Relayed, ChunkedError> {
        match &mut self.incoming {
            Incoming::Length { left } => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= take as u64;
                let (done, excess) = (*left == 0, take < input.len());
                self.remember(&input[..take]);
                Ok(Relayed { verbatim: Some(take), done, excess })
            }
            Incoming::UntilClose if self.outgoing == Outgoing::UntilClose => {
                self.remember(input);
                Ok(Relayed { verbatim: Some(input.len()), done: false, excess: false })
            }
            Incoming::UntilClose => {
                self.remember(input);
                push_chunk(out, input.len(), |out| out.extend_from_slice(input));
                Ok(Relayed { verbatim: None, done: false, excess: false })
            }
            Incoming::Chunked(_) => self.relay_chunked(input, out),
        }
    }

    fn relay_chunked(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Relayed, ChunkedError> {
        let Incoming::Chunked(decoder) = &mut self.incoming else { unreachable!("the caller matched it") };
        let was_between_chunks = decoder.is_between_chunks();
        // Decoded once, noting the payload; the copy is only made where the bytes can't go as they are.
        let mut pieces: smallvec::SmallVec<[&[u8]; 8]> = smallvec::SmallVec::new();
        let taken = decoder.decode(input, |payload| pieces.push(payload))?;
        let (done, excess) = (decoder.is_done(), taken < input.len());
        let payload_length: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.is_empty &= payload_length == 0;
        pieces.iter().for_each(|piece| shift_in(&mut self.tail, piece));
        let whole_chunks = was_between_chunks && (done || decoder.is_between_chunks());
        let verbatim = if whole_chunks && self.outgoing == Outgoing::Chunked {
            Some(taken)
        } else {
            let copy = |out: &mut Vec<u8>| pieces.iter().for_each(|piece| out.extend_from_slice(piece));
            match self.outgoing {
                Outgoing::Chunked if payload_length > 0 => push_chunk(out, payload_length, copy),
                Outgoing::Chunked => {}
                Outgoing::Length | Outgoing::UntilClose => copy(out),
            }
            if done && self.outgoing == Outgoing::Chunked {
                out.extend_from_slice(b"0\r\n");
                out.extend_from_slice(decoder.trailers());
                out.extend_from_slice(b"\r\n");
            }
            None
        };
        Ok(Relayed { verbatim, done, excess })
    }

    /// The engine has closed its connection in order. True when that ends the body; the rest of the client's
    /// framing is then appended to `out`. False when the body was cut.
    pub(crate) fn end_of_stream(&mut self, out: &mut Vec<u8>) -> bool {
        if !matches!(self.incoming, Incoming::UntilClose) {
            return false;
        }
        if self.outgoing == Outgoing::Chunked {
            out.extend_from_slice(b"0\r\n\r\n");
        }
        true
    }

    /// An error event in the client's framing, for a stream of events that was cut; `None` where the framing
    /// has no room for one.
    pub(crate) fn error_event(&self, error_json: &str) -> Option<Vec<u8>> {
        // An event that was cut is closed first, or the two would be read as one.
        let is_between_events = self.is_empty || self.tail.ends_with(b"\n\n") || self.tail == *b"\r\n\r\n";
        let separator = if is_between_events { "" } else { "\n\n" };
        let event = format!("{separator}event: error\ndata: {error_json}\n\n");
        match self.outgoing {
            Outgoing::Length => None,
            Outgoing::UntilClose => Some(event.into_bytes()),
            Outgoing::Chunked => {
                let mut out = Vec::with_capacity(event.len() + 16);
                push_chunk(&mut out, event.len(), |out| out.extend_from_slice(event.as_bytes()));
                Some(out)
            }
        }
    }

    fn remember(&mut self, payload: &[u8]) {
        self.is_empty &= payload.is_empty();
        shift_in(&mut self.tail, payload);
    }
}

fn shift_in(tail: &mut [u8; 4], payload: &[u8]) {
    let new = &payload[payload.len().saturating_sub(4)..];
    tail.rotate_left(new.len() % 4);
    let start = 4 - new.len();
    tail[start..].copy_from_slice(new);
}

fn push_chunk(out: &mut Vec<u8>, length: usize, payload: impl FnOnce(&mut Vec<u8>)) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let significant = (usize::BITS - length.leading_zeros()).div_ceil(4).max(1);
    out.reserve(length + significant as usize + 4);
    for digit in (0..significant).rev() {
        out.push(DIGITS[length >> (digit * 4) & 0xf]);
    }
    out.extend_from_slice(b"\r\n");
    payload(out);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds `input` in pieces; returns what the client gets and whether the body was complete.
    fn feed(relay: &mut RelayBody, input: &[u8], piece: usize) -> (Vec<u8>, bool) {
        let (mut sent, mut done) = (Vec::new(), relay.is_done());
        for bytes in input.chunks(piece) {
            let mut out = Vec::new();
            let relayed = relay.relay(bytes, &mut out).unwrap();
            match relayed.verbatim {
                Some(length) => sent.extend_from_slice(&bytes[..length]),
                None => sent.extend_from_slice(&out),
            }
            done = relayed.done;
        }
        (sent, done)
    }

    fn payload_of(chunked: &[u8]) -> (Vec<u8>, bool, bool) {
        let (mut decoder, mut out) = (ChunkedDecoder::default(), Vec::new());
        decoder.decode(chunked, |payload| out.extend_from_slice(payload)).unwrap();
        (out, decoder.is_between_chunks(), decoder.is_done())
    }

    #[test]
    fn whole_chunks_go_through_as_they_are() {
        let mut relay = RelayBody::new(ResponseBody::Chunked, true);
        let mut out = Vec::new();
        let input = b"3\r\nabc\r\n2\r\nde\r\n";
        let relayed = relay.relay(input, &mut out).unwrap();
        assert_eq!(relayed, Relayed { verbatim: Some(input.len()), done: false, excess: false });
        let relayed = relay.relay(b"0\r\nx: 1\r\n\r\nmore", &mut out).unwrap();
        assert_eq!(relayed, Relayed { verbatim: Some(11), done: true, excess: true });
        assert!(out.is_empty());
    }

    #[test]
    fn what_was_sent_ends_between_chunks_wherever_the_engine_stops() {
        let input = b"5\r\nhello\r\n6\r\n world\r\n0\r\nx-sum: 1\r\n\r\n";
        for stop in 0..input.len() {
            for piece in 1..8 {
                let mut relay = RelayBody::new(ResponseBody::Chunked, true);
                let (sent, done) = feed(&mut relay, &input[..stop], piece);
                let (_, between, ended) = payload_of(&sent);
                assert!(between && !ended && !done, "{stop} {piece} {:?}", String::from_utf8_lossy(&sent));
            }
        }
    }

    #[test]
    fn trailers_survive_reframing() {
        let mut relay = RelayBody::new(ResponseBody::Chunked, true);
        let (sent, done) = feed(&mut relay, b"1\r\na\r\n0\r\nx-sum: 1\r\n\r\n", 1);
        assert!(done);
        assert_eq!(String::from_utf8(sent).unwrap(), "1\r\na\r\n0\r\nx-sum: 1\r\n\r\n");
    }

    #[test]
    fn a_body_until_close_becomes_chunks_and_ends_with_the_stream() {
        let mut relay = RelayBody::new(ResponseBody::UntilClose, true);
        let (mut sent, _) = feed(&mut relay, &[b'x'; 300], 300);
        assert!(relay.end_of_stream(&mut sent));
        assert!(sent.starts_with(b"12c\r\nxxx"));
        assert_eq!(payload_of(&sent), (vec![b'x'; 300], false, true));
    }

    #[test]
    fn an_old_client_gets_bare_payload_until_close() {
        let mut relay = RelayBody::new(ResponseBody::Chunked, false);
        assert_eq!(relay.outgoing(), Outgoing::UntilClose);
        assert_eq!(feed(&mut relay, b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 4), (b"abcde".to_vec(), true));
    }

    #[test]
    fn a_length_ends_the_body_and_more_is_excess() {
        let mut relay = RelayBody::new(ResponseBody::Length(3), true);
        let relayed = relay.relay(b"abcdef", &mut Vec::new()).unwrap();
        assert_eq!(relayed, Relayed { verbatim: Some(3), done: true, excess: true });
        assert!(!RelayBody::new(ResponseBody::Length(3), true).end_of_stream(&mut Vec::new()));
    }

    #[test]
    fn an_error_event_closes_the_event_that_was_cut() {
        for (before, separated) in [
            ("data: a\n\n", false),
            ("data: a\r\n\r\n", false),
            ("data: a\n", true),
            ("data", true),
            ("", false),
        ] {
            let mut relay = RelayBody::new(ResponseBody::Chunked, true);
            let chunk = format!("{:x}\r\n{before}", before.len());
            if !before.is_empty() {
                feed(&mut relay, chunk.as_bytes(), 1);
            }
            let (event, between, done) = payload_of(&relay.error_event("{}").unwrap());
            let event = String::from_utf8(event).unwrap();
            assert_eq!(event, format!("{}event: error\ndata: {{}}\n\n", if separated { "\n\n" } else { "" }));
            assert!(between && !done);
        }
        assert!(RelayBody::new(ResponseBody::Length(9), true).error_event("{}").is_none());
    }

    proptest! {
        #[test]
        fn any_chunking_reaches_the_client_as_the_same_payload(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
            piece in 1usize..64,
        ) {
            let mut encoded = Vec::new();
            for bytes in &pieces {
                push_chunk(&mut encoded, bytes.len(), |out| out.extend_from_slice(bytes));
            }
            encoded.extend_from_slice(b"0\r\n\r\n");
            let (sent, done) = feed(&mut RelayBody::new(ResponseBody::Chunked, true), &encoded, piece);
            prop_assert!(done);
            prop_assert_eq!(payload_of(&sent), (pieces.concat(), false, true));
            let (bare, _) = feed(&mut RelayBody::new(ResponseBody::Chunked, false), &encoded, piece);
            prop_assert_eq!(bare, pieces.concat());
        }
    }
}
