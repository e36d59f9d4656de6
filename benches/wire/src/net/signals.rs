//! Waits for SIGTERM or SIGINT inside the runtime, through a pipe that the handler writes to.

use std::{io, os::unix::net::UnixStream};

use signal_hook::consts::{SIGINT, SIGTERM};

/// A pending request to stop.
pub struct Termination {
    pipe: monoio::net::UnixStream,
}

impl Termination {
    /// Takes over SIGTERM and SIGINT of this process. Call it inside the runtime.
    pub fn catch() -> io::Result<Self> {
        let (receiver, sender) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(SIGTERM, sender.try_clone()?)?;
        signal_hook::low_level::pipe::register(SIGINT, sender)?;
        if super::runtime::wants_non_blocking_sockets() {
            receiver.set_nonblocking(true)?;
        }
        Ok(Self { pipe: monoio::net::UnixStream::from_std(receiver)? })
    }

    /// Waits for the first signal. Safe to drop.
    pub async fn requested(&self) {
        // An error of the poll would leave the process deaf to signals: stopping is the better answer to it too.
        let _ = self.pipe.readable(false).await;
    }
}
