//! round-robin: eligible clusters in turn.
//!
//! All cores draw from one cursor a target, so that the turns of the whole gateway are even, not only those
//! of each core. That is one contended counter a request; the other algorithms share nothing to choose.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{ClusterIndex, request::eligible::Eligible, selection::trace::Trace};

/// Counts a target's turns, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct RoundRobinCursor {
    turns: AtomicU64,
}

/// The eligible cluster whose turn it is; `None` when none is eligible.
pub(crate) fn choose<T: Trace>(
    cursor: &RoundRobinCursor,
    eligible: &Eligible,
    _: &T,
) -> Option<ClusterIndex> {
    let turn = if T::TAKES_TURNS { cursor.next() } else { cursor.peek() };
    let rank = turn.checked_rem(u64::from(eligible.count()))?;
    Some(eligible.nth(rank as u32))
}

// === impl RoundRobinCursor ===

impl RoundRobinCursor {
    fn next(&self) -> u64 {
        self.turns.fetch_add(1, Relaxed)
    }

    fn peek(&self) -> u64 {
        self.turns.load(Relaxed)
    }
}

#[cfg(test)]
mod tests;
