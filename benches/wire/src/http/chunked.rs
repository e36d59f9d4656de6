//! Incremental decoder of the chunked transfer coding (RFC 9112 section 7.1).
//!
//! It works on whatever the socket delivered, split anywhere, and hands the data on as slices of the input.

/// Digits of a chunk size: 2^60 is more than anybody sends.
const MAX_SIZE_DIGITS: u8 = 15;

/// Bytes of chunk extensions and trailers that are skipped before the message counts as hostile.
const MAX_SKIPPED_BYTES: u32 = 16 * 1024;

/// Where in the coding the next byte stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// First digit of a size not seen yet.
    #[default]
    SizeStart,
    /// Within the digits of a size.
    Size(u8),
    /// Within an extension, up to CR.
    Extension,
    /// LF after a size line.
    SizeLineFeed,
    /// Within the data of a chunk.
    Data,
    /// CR after the data.
    DataReturn,
    /// LF after the data.
    DataLineFeed,
    /// Start of a trailer line or of the final CRLF.
    TrailerStart,
    /// Within a trailer line.
    Trailer,
    /// LF after a trailer line.
    TrailerLineFeed,
    /// The last LF.
    FinalLineFeed,
    /// The message is complete.
    Done,
}

/// The chunked coding was violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Decoder of one chunked body. The default one is at the body's first byte.
#[derive(Clone, Debug, Default)]
pub struct ChunkedDecoder {
    state: State,
    remaining: u64,
    skipped: u32,
}

// === impl ChunkedDecoder ===

impl ChunkedDecoder {
    /// Whether the last chunk and its trailers were seen.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Decodes `input`, hands each run of data to `sink`, and returns how many bytes belonged to this body
    /// (fewer than given only when it ended within).
    pub fn feed(&mut self, input: &[u8], mut sink: impl FnMut(&[u8])) -> Result<usize, Malformed> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            if self.state == State::Data {
                let take = self.remaining.min((input.len() - at) as u64);
                sink(&input[at..at + take as usize]);
                at += take as usize;
                self.remaining -= take;
                if self.remaining == 0 {
                    self.state = State::DataReturn;
                }
                continue;
            }
            self.state = self.step(input[at])?;
            at += 1;
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<State, Malformed> {
        match (self.state, byte) {
            (State::SizeStart, _) => {
                self.remaining = digit(byte).ok_or(Malformed)?;
                Ok(State::Size(1))
            }
            (State::Size(_) | State::Extension, b'\r') => Ok(State::SizeLineFeed),
            (State::Size(_), b';' | b' ' | b'\t') => Ok(State::Extension),
            (State::Size(digits), _) if digits < MAX_SIZE_DIGITS => {
                self.remaining = self.remaining << 4 | digit(byte).ok_or(Malformed)?;
                Ok(State::Size(digits + 1))
            }
            (State::Extension, _) if byte != b'\n' => self.skip(State::Extension),
            (State::SizeLineFeed, b'\n') if self.remaining == 0 => Ok(State::TrailerStart),
            (State::SizeLineFeed, b'\n') => Ok(State::Data),
            (State::DataReturn, b'\r') => Ok(State::DataLineFeed),
            (State::DataLineFeed, b'\n') => Ok(State::SizeStart),
            (State::TrailerStart, b'\r') => Ok(State::FinalLineFeed),
            (State::Trailer, b'\r') => Ok(State::TrailerLineFeed),
            (State::TrailerStart | State::Trailer, _) if byte != b'\n' => self.skip(State::Trailer),
            (State::TrailerLineFeed, b'\n') => Ok(State::TrailerStart),
            (State::FinalLineFeed, b'\n') => Ok(State::Done),
            _ => Err(Malformed),
        }
    }

    fn skip(&mut self, stay: State) -> Result<State, Malformed> {
        self.skipped += 1;
        if self.skipped > MAX_SKIPPED_BYTES { Err(Malformed) } else { Ok(stay) }
    }
}

fn digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(input: &[u8], step: usize) -> Result<(Vec<u8>, usize, bool), Malformed> {
        let mut decoder = ChunkedDecoder::default();
        let mut data = Vec::new();
        let mut used = 0;
        for part in input.chunks(step) {
            used += decoder.feed(part, |run| data.extend_from_slice(run))?;
        }
        Ok((data, used, decoder.is_done()))
    }

    #[test]
    fn decodes_any_split_with_extensions_and_trailers() {
        let input = b"5;x=\"y\"\r\nhello\r\nA\r\n 123456789\r\n0\r\ntrailer: 1\r\n\r\n";
        for step in 1..input.len() {
            assert_eq!(
                decode(input, step),
                Ok((b"hello 123456789".to_vec(), input.len(), true)),
                "step {step}"
            );
        }
    }

    #[test]
    fn stops_at_the_end_of_its_message() {
        let input = b"1\r\na\r\n0\r\n\r\nPOST / HTTP/1.1";
        assert_eq!(decode(input, input.len()), Ok((b"a".to_vec(), 11, true)));
    }

    #[test]
    fn incomplete_is_not_done() {
        assert_eq!(decode(b"1\r\na\r\n0\r\n", 3), Ok((b"a".to_vec(), 9, false)));
    }

    #[test]
    fn refuses_violations() {
        for input in [
            &b"x\r\n"[..],
            b"\r\n",
            b"1\na",
            b"1\r\nab",
            b"1;a\nb",
            b"1\r\na\n",
            b"0\r\nt: 1\n\r\n",
            b"1000000000000000\r\n",
        ] {
            assert_eq!(decode(input, 1), Err(Malformed), "{:?}", String::from_utf8_lossy(input));
        }
    }
}
