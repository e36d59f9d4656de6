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
#[derive(Clone, Debug, Default)]
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

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc, time::Duration};

    use super::*;
    use crate::{io::driver::CoreRuntime, settings::Driver};

    #[test]
    fn one_ring_is_heard_for_each_arming_and_the_end_of_the_bell_is_too() {
        // Where the kernel gives no ring, epoll is what there is to test.
        for mut runtime in [Driver::IoUring, Driver::Epoll].into_iter().flat_map(CoreRuntime::new) {
            runtime.block_on(async {
                let (bell, ear) = Bell::new().unwrap();
                let heard = Rc::new(Cell::new(0));
                let counter = heard.clone();
                let listening =
                    monoio::spawn(async move { ear.listen(|| counter.set(counter.get() + 1)).await });
                let bells = Bells { bells: vec![Arc::new(bell)] };
                bells.ring();
                for armed in 1..=3 {
                    bells.bells[0].arm();
                    bells.ring();
                    bells.ring();
                    while heard.get() < armed {
                        monoio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                bells.bells[0].arm();
                bells.bells[0].disarm();
                bells.ring();
                drop(bells);
                listening.await.unwrap();
                assert_eq!(heard.get(), 3);
            });
        }
    }
}
