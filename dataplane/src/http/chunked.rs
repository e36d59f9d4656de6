//! The chunked transfer coding (RFC 9112 section 7.1), decoded incrementally and strictly.
//!
//! It works on whatever bytes have arrived, keeps no payload, and knows at every byte whether it stands
//! between two chunks: only there may another chunk of our own be put into the stream.

/// Bytes of chunk extensions on one size line; nobody uses them, so a longer one is an attack.
const MAX_EXTENSION_BYTES: u32 = 256;
/// Bytes of the trailer section.
const MAX_TRAILER_BYTES: usize = 8 * 1024;
/// Hex digits of a size: 2^60 bytes are more than any body.
const MAX_SIZE_DIGITS: u8 = 15;

/// Incremental decoder.
#[derive(Debug, Default)]
pub(crate) struct ChunkedDecoder {
    state: State,
    /// Trailer lines, each with its line break, without the empty line at the end.
    trailers: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size { digits: u8, size: u64 },
    Extension { size: u64, bytes: u32 },
    SizeLineFeed { size: u64 },
    Data { left: u64 },
    DataCarriageReturn,
    DataLineFeed,
    TrailerLineStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    LastLineFeed,
    Done,
}

impl Default for State {
    fn default() -> Self {
        Self::Size { digits: 0, size: 0 }
    }
}

/// A violation of the coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChunkedError {
    #[error("a chunk size is not hexadecimal")]
    Size,
    #[error("a chunk size has more than {MAX_SIZE_DIGITS} digits")]
    SizeTooLong,
    #[error("a chunk extension is longer than {MAX_EXTENSION_BYTES} bytes")]
    ExtensionTooLong,
    #[error("a line of the chunked coding does not end in CR LF")]
    LineBreak,
    #[error("a chunk is longer than its size says")]
    DataTooLong,
    #[error("a trailer is not a header field")]
    Trailer,
    #[error("the trailers are longer than {MAX_TRAILER_BYTES} bytes")]
    TrailersTooLong,
}

// === impl ChunkedDecoder ===

impl ChunkedDecoder {
    /// Takes bytes up to the end of the body and hands each piece of payload to `payload`. Returns how many
    /// bytes it took: all of them, unless the body ended before.
    pub(crate) fn decode<'a>(
        &mut self,
        input: &'a [u8],
        mut payload: impl FnMut(&'a [u8]),
    ) -> Result<usize, ChunkedError> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            if let State::Data { left } = self.state {
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(input.len() - at);
                payload(&input[at..at + take]);
                at += take;
                let left = left - take as u64;
                self.state = if left == 0 { State::DataCarriageReturn } else { State::Data { left } };
            } else {
                self.state = self.next(input[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    /// Whether it stands between two chunks.
    pub(crate) fn is_between_chunks(&self) -> bool {
        matches!(self.state, State::Size { digits: 0, .. })
    }

    /// Whether the last chunk and the trailers have been read.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The trailer lines read so far.
    pub(crate) fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    fn next(&mut self, byte: u8) -> Result<State, ChunkedError> {
        Ok(match self.state {
            State::Size { digits, size } => match byte {
                b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' => {
                    if digits == MAX_SIZE_DIGITS {
                        return Err(ChunkedError::SizeTooLong);
                    }
                    let digit = (byte as char).to_digit(16).unwrap_or(0);
                    State::Size { digits: digits + 1, size: size << 4 | u64::from(digit) }
                }
                b'\r' if digits > 0 => State::SizeLineFeed { size },
                b';' if digits > 0 => State::Extension { size, bytes: 0 },
                _ => return Err(ChunkedError::Size),
            },
            State::Extension { size, bytes } => match byte {
                b'\r' => State::SizeLineFeed { size },
                b'\n' | 0 => return Err(ChunkedError::LineBreak),
                _ if bytes == MAX_EXTENSION_BYTES => return Err(ChunkedError::ExtensionTooLong),
                _ => State::Extension { size, bytes: bytes + 1 },
            },
            State::SizeLineFeed { size } => match (byte, size) {
                (b'\n', 0) => State::TrailerLineStart,
                (b'\n', left) => State::Data { left },
                _ => return Err(ChunkedError::LineBreak),
            },
            State::DataCarriageReturn if byte == b'\r' => State::DataLineFeed,
            State::DataCarriageReturn => return Err(ChunkedError::DataTooLong),
            State::DataLineFeed if byte == b'\n' => State::default(),
            State::DataLineFeed => return Err(ChunkedError::LineBreak),
            State::TrailerLineStart if byte == b'\r' => State::LastLineFeed,
            State::TrailerLineStart | State::TrailerName | State::TrailerValue => {
                if self.trailers.len() == MAX_TRAILER_BYTES {
                    return Err(ChunkedError::TrailersTooLong);
                }
                self.trailers.push(byte);
                match (self.state, byte) {
                    (State::TrailerName, b':') => State::TrailerValue,
                    (State::TrailerValue, b'\r') => State::TrailerLineFeed,
                    (State::TrailerValue, b'\t' | b' '..=b'~' | 0x80..) => State::TrailerValue,
                    (State::TrailerLineStart | State::TrailerName, byte) if is_token(byte) => {
                        State::TrailerName
                    }
                    _ => return Err(ChunkedError::Trailer),
                }
            }
            State::TrailerLineFeed if byte == b'\n' => {
                self.trailers.push(byte);
                State::TrailerLineStart
            }
            State::LastLineFeed if byte == b'\n' => State::Done,
            State::TrailerLineFeed | State::LastLineFeed => return Err(ChunkedError::LineBreak),
            // `decode` consumes data itself and stops at the end.
            State::Data { .. } | State::Done => self.state,
        })
    }
}

/// RFC 9110 section 5.6.2: what a field's name is made of.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode_in_pieces(
        input: &[u8],
        piece: usize,
    ) -> Result<(Vec<u8>, usize, ChunkedDecoder), ChunkedError> {
        let (mut decoder, mut out, mut taken) = (ChunkedDecoder::default(), Vec::new(), 0);
        for bytes in input.chunks(piece) {
            taken += decoder.decode(bytes, |payload| out.extend_from_slice(payload))?;
        }
        Ok((out, taken, decoder))
    }

    #[test]
    fn decodes_chunks_extensions_and_trailers_at_any_split() {
        let input = b"5;a=b\r\nhello\r\n006\r\n world\r\n0\r\nx-sum: 1\r\nx-b: 2\r\n\r\nNEXT";
        for piece in 1..=input.len() {
            let (out, taken, decoder) = decode_in_pieces(input, piece).unwrap();
            assert_eq!(out, b"hello world");
            assert_eq!(taken, input.len() - 4);
            assert!(decoder.is_done());
            assert_eq!(decoder.trailers(), b"x-sum: 1\r\nx-b: 2\r\n");
        }
    }

    #[test]
    fn refuses_what_other_parsers_may_read_differently() {
        for (input, error) in [
            (&b"\r\nhello"[..], ChunkedError::Size),
            (b"-5\r\nhello", ChunkedError::Size),
            (b"0x5\r\nhello", ChunkedError::Size),
            (b"5 \r\nhello", ChunkedError::Size),
            (b"5\nhello", ChunkedError::Size),
            (b"5\rhello", ChunkedError::LineBreak),
            (b"5\r\nhelloX\r\n", ChunkedError::DataTooLong),
            (b"5\r\nhello\rX", ChunkedError::LineBreak),
            (b"5;\n", ChunkedError::LineBreak),
            (b"1000000000000000\r\n", ChunkedError::SizeTooLong),
            (b"0\r\nx: 1\n", ChunkedError::Trailer),
            (b"0\r\nx : 1\r\n\r\n", ChunkedError::Trailer),
            (b"0\r\nx 1\r\n\r\n", ChunkedError::Trailer),
            (b"0\r\n: 1\r\n\r\n", ChunkedError::Trailer),
            (b"0\r\nx: 1\r\n folded\r\n\r\n", ChunkedError::Trailer),
            (b"0\r\nx: a\0b\r\n\r\n", ChunkedError::Trailer),
            (b"0\r\nx: a\rb\r\n", ChunkedError::LineBreak),
            (b"0\r\n\rX", ChunkedError::LineBreak),
        ] {
            assert_eq!(
                decode_in_pieces(input, 1).map(|_| ()),
                Err(error),
                "{:?}",
                String::from_utf8_lossy(input)
            );
        }
        let extension = [b"5;".as_slice(), &[b'a'; 300], b"\r\n"].concat();
        assert_eq!(decode_in_pieces(&extension, 7).map(|_| ()), Err(ChunkedError::ExtensionTooLong));
        let trailers = [b"0\r\na:".as_slice(), &[b'a'; 9000]].concat();
        assert_eq!(decode_in_pieces(&trailers, 1000).map(|_| ()), Err(ChunkedError::TrailersTooLong));
    }

    proptest! {
        #[test]
        fn any_encoding_decodes_to_its_payload(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..8),
            split in 1usize..64,
        ) {
            let mut encoded = Vec::new();
            for piece in &pieces {
                encoded.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                encoded.extend_from_slice(piece);
                encoded.extend_from_slice(b"\r\n");
            }
            encoded.extend_from_slice(b"0\r\n\r\n");
            let (out, taken, decoder) = decode_in_pieces(&encoded, split).unwrap();
            prop_assert_eq!(out, pieces.concat());
            prop_assert_eq!(taken, encoded.len());
            prop_assert!(decoder.is_done());
        }

        #[test]
        fn no_input_panics(input in prop::collection::vec(any::<u8>(), 0..200), split in 1usize..20) {
            let _ = decode_in_pieces(&input, split);
        }
    }
}
