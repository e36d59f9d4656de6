//! What the program logs, from its ring in the kernel to whoever asks. Nothing here waits: a program that logs faster than
//! anyone reads loses lines.

use std::sync::Arc;

use ::log::{Level, Log, Metadata, Record};
use aya::Ebpf;
use aya_log::EbpfLogger;
use crossbeam::queue::ArrayQueue;

/// Lines held between the ring and the reader: as many as the ring holds, of 128 KiB, a line taking 256 bytes or more.
const LINES_MAX: usize = 512;

/// How much the program logs, and what a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// What went wrong. Lines of this level are always logged.
    Faults,
    /// Also every connection and every sample: for looking at one gateway, since each line costs its CPU about a microsecond.
    Debug,
}

/// The reading end of the program's log.
pub(super) struct KernelLog {
    reader: EbpfLogger<Lines>,
    lines: Lines,
}

/// Where the library puts lines that it has read.
#[derive(Clone)]
struct Lines(Arc<ArrayQueue<(LogLevel, String)>>);

// === impl LogLevel ===

impl LogLevel {
    /// The most verbose level that the program is to log, as aya-log numbers them. It is a constant to the verifier, which
    /// removes the code of what is above it.
    pub(super) fn kernel_level(self) -> u8 {
        let level = match self {
            Self::Faults => aya_log::Level::Error,
            Self::Debug => aya_log::Level::Debug,
        };
        level as u8
    }
}

// === impl KernelLog ===

impl KernelLog {
    /// Takes the ring.
    pub(super) fn open(ebpf: &mut Ebpf) -> Result<Self, aya_log::Error> {
        let lines = Lines(Arc::new(ArrayQueue::new(LINES_MAX)));
        Ok(Self { reader: EbpfLogger::init_with_logger(ebpf, lines.clone())?, lines })
    }

    /// Hands on what has been logged.
    pub(super) fn drain(&mut self, mut line: impl FnMut(LogLevel, &str)) {
        self.reader.flush();
        while let Some((level, text)) = self.lines.0.pop() {
            line(level, &text);
        }
    }
}

// === impl Lines ===

impl Log for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let level = if record.level() == Level::Error { LogLevel::Faults } else { LogLevel::Debug };
        // The oldest goes when there is no room.
        let _ = self.0.force_push((level, record.args().to_string()));
    }

    fn flush(&self) {}
}
