//! Byte buffers of one core, lent for the time of a read or a message and then used again.
//!
//! glibc keeps the memory of a burst; a bounded free list keeps it small and warm.

use std::cell::RefCell;

/// Size of a fresh buffer: holds a usual request or response whole.
pub(crate) const BUFFER_BYTES: usize = 16 * 1024;
/// A buffer that grew beyond this is given back to the allocator instead.
const MAX_KEPT_BYTES: usize = 64 * 1024;
/// Buffers kept: as many as are in use at once under load, not at a peak.
const MAX_KEPT: usize = 64;

/// The free list.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: RefCell<Vec<Vec<u8>>>,
}

// === impl Buffers ===

impl Buffers {
    /// An empty buffer with room for [`BUFFER_BYTES`] at least.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.free.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    /// Gives a buffer back; its content is forgotten.
    pub(crate) fn give(&self, mut buffer: Vec<u8>) {
        let mut free = self.free.borrow_mut();
        if (BUFFER_BYTES..=MAX_KEPT_BYTES).contains(&buffer.capacity()) && free.len() < MAX_KEPT {
            buffer.clear();
            free.push(buffer);
        }
    }
}
