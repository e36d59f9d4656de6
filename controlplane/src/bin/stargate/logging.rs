//! Logs to stderr, from a thread of their own: a stderr that stalls must not stall what logs. When its queue
//! is full, lines are dropped.

use std::io::{self, IsTerminal};

use stargate_controlplane::config::{Log, LogFormat, LogLevel};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;

/// Lines held while stderr is slow: some seconds of a flood of failures, a few MB.
const QUEUE_LINES: usize = 16_384;

/// Starts logging. Dropping the guard writes what is queued; the counter tells what was dropped.
pub(crate) fn start(log: &Log) -> (WorkerGuard, ErrorCounter) {
    let (writer, guard) =
        NonBlockingBuilder::default().lossy(true).buffered_lines_limit(QUEUE_LINES).finish(io::stderr());
    let dropped = writer.error_counter();
    let level = match log.level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(writer);
    match log.format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().flatten_event(true).with_ansi(false).init(),
    }
    (guard, dropped)
}
