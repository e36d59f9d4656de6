//! Reserved tokens by priority.
//!
//! A published estimate of queue time holds for one priority. A reservation made since delays its own priority and
//! every less urgent one, so the estimate for a priority grows by the work reserved at it and at all more urgent
//! ones. Sixteen lanes are enough for that: the least urgent priorities share the last.

use crate::{
    Tokens,
    atomics::{AtomicU64, Ordering::Relaxed},
};

pub(crate) const LANES: usize = 16;

/// Tokens by lane, on cache lines of their own: only clusters that publish estimates by priority touch them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Lanes([AtomicU64; LANES]);

/// The lane of a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane(u8);

// === impl Lanes ===

impl Lanes {
    pub(super) fn add(&self, lane: Lane, tokens: Tokens) {
        self.0[usize::from(lane.0)].fetch_add(tokens.0, Relaxed);
    }

    pub(super) fn add_all(&self, changes: &[u64; LANES]) {
        for (lane, change) in self.0.iter().zip(changes) {
            if *change != 0 {
                lane.fetch_add(*change, Relaxed);
            }
        }
    }

    /// Tokens of this lane and the more urgent ones. Never inlined, for the sake of the many clusters without lanes.
    #[inline(never)]
    pub(super) fn through(&self, lane: Lane) -> Tokens {
        let lanes = self.0.iter().take(usize::from(lane.0) + 1);
        // Each is far below the most that a `u64` holds, and no lane is ever negative.
        Tokens(lanes.fold(0, |sum, lane| sum.wrapping_add(lane.load(Relaxed))))
    }
}

/// Of a core's changes, those of this lane and the more urgent ones.
#[inline(never)]
pub(super) fn through(changes: &[u64; LANES], lane: Lane) -> Tokens {
    Tokens(changes[..=usize::from(lane.0)].iter().fold(0, |sum, change| sum.wrapping_add(*change)))
}

// === impl Lane ===

impl Lane {
    #[inline]
    pub(crate) fn of(priority: u32) -> Self {
        Self(priority.min(LANES as u32 - 1) as u8)
    }

    pub(super) fn add(self, lanes: &mut [u64; LANES], tokens: Tokens) {
        let lane = &mut lanes[usize::from(self.0)];
        *lane = lane.wrapping_add(tokens.0);
    }
}
