//! Whose turn it is, for all cores.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts a target's turns, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct RoundRobinCursor {
    turns: AtomicU64,
}

// === impl RoundRobinCursor ===

impl RoundRobinCursor {
    pub(super) fn next(&self) -> u64 {
        self.turns.fetch_add(1, Relaxed)
    }

    pub(super) fn peek(&self) -> u64 {
        self.turns.load(Relaxed)
    }
}
