//! What one core keeps from decision to decision: randomness, and room to work in.

use crate::{affinity_ring::cache::RingCache, ranking::memo::RankingMemo, selection::SelectionScratch};

/// One core's state. Decisions differ by it in nothing but their random choices.
#[derive(Debug)]
pub struct DecisionState {
    pub(crate) rng: fastrand::Rng,
    pub(crate) rankings: RankingMemo,
    pub(crate) rings: RingCache,
    pub(crate) selection: SelectionScratch,
}

// === impl DecisionState ===

impl DecisionState {
    /// A state whose random choices follow from `seed`.
    pub fn with_seed(seed: u64) -> Self {
        Self::with_rng(fastrand::Rng::with_seed(seed))
    }

    /// A state of its own randomness.
    pub fn new() -> Self {
        Self::with_rng(fastrand::Rng::new())
    }

    fn with_rng(rng: fastrand::Rng) -> Self {
        Self {
            rng,
            rankings: RankingMemo::default(),
            rings: RingCache::default(),
            selection: SelectionScratch::default(),
        }
    }
}

impl Default for DecisionState {
    fn default() -> Self {
        Self::new()
    }
}
