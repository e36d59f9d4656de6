//! SIGTERM and SIGINT: the first asks to drain, the second ends the process at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code of a process that a signal ended, as a shell reports it: 128 + its number.
const SIGNAL_EXIT_BASE: i32 = 128;

/// The signals that end the daemon.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

// === impl Signals ===

impl Signals {
    /// From now on the signals are received here.
    pub(crate) fn receive() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The next signal's name and the exit code that it stands for.
    pub(crate) async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.terminate.recv() => ("SIGTERM", SIGNAL_EXIT_BASE + SignalKind::terminate().as_raw_value()),
            _ = self.interrupt.recv() => ("SIGINT", SIGNAL_EXIT_BASE + SignalKind::interrupt().as_raw_value()),
        }
    }
}
