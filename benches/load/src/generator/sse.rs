//! Counts the events of an SSE stream and finds out how it ended, whatever the reads split.
//!
//! It looks at the first bytes of each line only: enough for `data: [DONE]`, an error event, and the named ends of
//! the other APIs.

/// Bytes of a line that are looked at: the longest of the patterns below fits.
const LINE_PREFIX_BYTES: usize = 40;

/// Counts events of one stream.
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts about the line, the event and the stream, each of its own"
)]
#[derive(Clone, Debug)]
pub(crate) struct SseScanner {
    line: [u8; LINE_PREFIX_BYTES],
    line_bytes: usize,
    has_data: bool,
    is_marker: bool,
    after_return: bool,
    /// Events with data, end markers not counted.
    pub(crate) events: u64,
    /// The stream said that it is complete.
    pub(crate) ended: bool,
    /// An error event came.
    pub(crate) error: bool,
}

// === impl SseScanner ===

impl SseScanner {
    /// At the start of a stream.
    pub(crate) fn new() -> Self {
        Self {
            line: [0; LINE_PREFIX_BYTES],
            line_bytes: 0,
            has_data: false,
            is_marker: false,
            after_return: false,
            events: 0,
            ended: false,
            error: false,
        }
    }

    /// Looks at the next bytes of the stream.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = bytes.split_at(end);
            self.extend(line);
            // CRLF is one line end, even when split.
            let is_second_half = rest[0] == b'\n' && self.after_return && self.line_bytes == 0;
            self.after_return = rest[0] == b'\r';
            if !is_second_half {
                self.end_line();
            }
            bytes = &rest[1..];
        }
        self.extend(bytes);
    }

    fn extend(&mut self, part: &[u8]) {
        let kept = self.line_bytes.min(LINE_PREFIX_BYTES);
        let take = part.len().min(LINE_PREFIX_BYTES - kept);
        self.line[kept..kept + take].copy_from_slice(&part[..take]);
        self.line_bytes += part.len();
    }

    fn end_line(&mut self) {
        let kept = self.line_bytes.min(LINE_PREFIX_BYTES);
        let line = &self.line[..kept];
        if self.line_bytes == 0 {
            if self.has_data && !self.is_marker {
                self.events += 1;
            }
            (self.has_data, self.is_marker) = (false, false);
        } else if let Some(data) = line.strip_prefix(b"data:") {
            self.has_data = true;
            if data.trim_ascii() == b"[DONE]" {
                self.is_marker = true;
                self.ended = true;
            }
        } else if let Some(name) = line.strip_prefix(b"event:") {
            match name.trim_ascii() {
                b"error" => self.error = true,
                b"message_stop" | b"response.completed" | b"response.incomplete" => self.ended = true,
                _ => {}
            }
        }
        self.line_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(stream: &str, step: usize) -> (u64, bool, bool) {
        let mut scanner = SseScanner::new();
        for part in stream.as_bytes().chunks(step) {
            scanner.feed(part);
        }
        (scanner.events, scanner.ended, scanner.error)
    }

    #[test]
    fn counts_events_however_they_are_split() {
        let long = "x".repeat(100);
        for end in ["\n", "\r\n", "\r"] {
            let stream = format!(
                ": comment{end}{end}data: {{\"a\":\"{long}\"}}{end}{end}event: x{end}data: 1{end}data: 2{end}{end}data: [DONE]{end}{end}"
            );
            for step in 1..stream.len() {
                assert_eq!(scan(&stream, step), (2, true, false), "{end:?} {step}");
            }
        }
    }

    #[test]
    fn tells_ends_and_errors_apart() {
        assert_eq!(scan("data: 1\n\nevent: error\ndata: {}\n\n", 3), (2, false, true));
        assert_eq!(scan("event: message_stop\ndata: {}\n\n", 7), (1, true, false));
        assert_eq!(scan("data: \"[DONE]\"\n\n", 5), (1, false, false));
        assert_eq!(scan("data: 1\n\ndata: 2", 4), (1, false, false));
    }
}
