//! Whether a core wants to be told of the next snapshot: the part of its bell in which a wake-up could be lost.
//!
//! It is a handshake of two threads that each write one thing and then look at the other's. The core arms and
//! then looks for a new snapshot; the publisher stores one and then looks whether the core is armed. The fence
//! between the write and the look, on both sides, is what makes it impossible that both look too early. Checked
//! over all interleavings by `dataplane/loom`.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Set by the core, taken by the publisher.
#[derive(Debug)]
pub(crate) struct Armed(AtomicBool);

// === impl Armed ===

impl Armed {
    /// Not armed.
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Asks to be told of what is published from now on. What was published before has to be looked for
    /// after this returns.
    pub(crate) fn arm(&self) {
        self.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Takes the wish back. One wake-up may still be under way.
    pub(crate) fn disarm(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether somebody is to be told of what has been published before this was called. True once for each
    /// time that it was armed.
    pub(crate) fn take(&self) -> bool {
        fence(Ordering::SeqCst);
        // The load alone is what it costs while nobody waits.
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}
