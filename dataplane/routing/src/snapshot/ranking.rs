//! A key's ranking of a target's clusters, for answers; decisions look up as much of it as they need.

use super::target::Target;
use crate::{ClusterIndex, RendezvousWeight, Seed, Slot, ranking::KeyRanking};

/// The ranking of one slot of a target.
#[derive(Clone, Copy, Debug)]
pub struct Ranking<'a> {
    target: &'a Target,
    seed: &'a Seed,
    weight: RendezvousWeight,
    slot: Slot,
}

// === impl Ranking ===

impl<'a> Ranking<'a> {
    /// The ranking of `affinity_key`.
    pub fn new(target: &'a Target, seed: &'a Seed, weight: RendezvousWeight, affinity_key: &[u8]) -> Self {
        Self { target, seed, weight, slot: Slot::of(affinity_key) }
    }

    /// The slot that is ranked.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// All ranked clusters in order. Allocates.
    pub fn to_vec(&self) -> Vec<ClusterIndex> {
        KeyRanking::of(&self.target.fleet(), self.seed, self.weight, self.slot).to_vec()
    }
}
