//! How the control plane wakes a core that waits for the next snapshot.
//!
//! A core looks at the current snapshot whenever it decides, and so needs to be told of a new one only while it
//! holds requests that wait. Then it arms its bell; whoever publishes rings all bells afterwards, which costs one
//! load for each that is not armed, and a byte on a socket for each that is.

mod armed;

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream as StdUnixStream,
    sync::Arc,
};

use monoio::net::UnixStream;

use self::armed::Armed;

/// The bell of one core.
#[derive(Debug)]
pub(crate) struct Bell {
    armed: Armed,
    wire: StdUnixStream,
}

/// Where a core hears its bell.
#[derive(Debug)]
pub(crate) struct Ear {
    wire: StdUnixStream,
}

/// The bells of all cores of a data plane; outlives it.
#[derive(Clone, Debug)]
pub struct Bells {
    pub(crate) bells: Vec<Arc<Bell>>,
}

// === impl Bells ===

impl Bells {
    /// Wakes the cores that wait for a snapshot. Call it after each one that was stored.
    pub fn ring(&self) {
        for bell in &self.bells {
            bell.ring();
        }
    }
}

// === impl Bell ===

impl Bell {
    /// A bell, and the end that hears it.
    pub(crate) fn new() -> io::Result<(Self, Ear)> {
        let (wire, ear) = StdUnixStream::pair()?;
        wire.set_nonblocking(true)?;
        ear.set_nonblocking(true)?;
        Ok((Self { armed: Armed::new(), wire }, Ear { wire: ear }))
    }

    /// Asks to be woken by the next publication. Look for a snapshot after this, not before: one that was
    /// published until now does not ring.
    pub(crate) fn arm(&self) {
        self.armed.arm();
    }

    /// Takes that back.
    pub(crate) fn disarm(&self) {
        self.armed.disarm();
    }

    fn ring(&self) {
        if self.armed.take() {
            // Each arming writes one byte at most, so there is always room; a core that has ended hears nothing.
            let _ = (&self.wire).write(&[0]);
        }
    }
}

// === impl Ear ===

impl Ear {
    /// Calls `heard` whenever the bell has rung, on the thread whose runtime this is awaited on. Ends with the
    /// bell.
    pub(crate) async fn listen(self, heard: impl Fn()) -> io::Result<()> {
        let readiness = UnixStream::from_std(self.wire.try_clone()?)?;
        loop {
            readiness.readable(false).await?;
            match (&self.wire).read(&mut [0; 16]) {
                Ok(0) => return Ok(()),
                Ok(_) => heard(),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
