//! Room that algorithms work in, kept from decision to decision so that these allocate nothing.

use super::wait_and_widen::ring::cache::RingCache;
use crate::{ranking::memo::RankingMemo, selection::SelectionScratch};

/// What a decision changes while it is made.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) rng: fastrand::Rng,
    pub(crate) rankings: RankingMemo,
    pub(crate) rings: RingCache,
    pub(crate) selection: SelectionScratch,
}

// === impl Workspace ===

impl Workspace {
    pub(crate) fn new(rng: fastrand::Rng) -> Self {
        Self {
            rng,
            rankings: RankingMemo::default(),
            rings: RingCache::default(),
            selection: SelectionScratch::default(),
        }
    }
}
