//! What one core remembers of rankings that no table holds, and room to rank in.
//!
//! Of fixed size: a request's own seed costs a pass over the clusters the first time its slot comes up, and
//! never memory. A row has two places to be in, so that two sessions in turn do not keep taking one from each
//! other.

use super::{row::Row, slot::Slot};
use crate::{ClusterIndex, RendezvousWeight, Seed};

/// Pairs of rows remembered; 48 kB a core.
const PAIRS: usize = 1 << PAIRS_BITS;
const PAIRS_BITS: u32 = 9;

/// One core's memory of rankings.
#[derive(Debug)]
pub(crate) struct RankingMemo {
    /// In each the one ranked later comes first.
    pairs: Box<[[Entry; 2]]>,
    pub(super) scratch: Scratch,
}

/// Room for rankings deeper than a row.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// (score, position) of clusters.
    pub(super) scored: Vec<(f64, usize)>,
    pub(super) ranks: Vec<ClusterIndex>,
}

/// A row and all that it depends on. The revision stands for the target, its clusters and their weights.
#[derive(Clone, Copy, Debug)]
struct Entry {
    revision: u64,
    seed_hash: u64,
    slot: Slot,
    weight: RendezvousWeight,
    row: Row,
}

// === impl RankingMemo ===

impl RankingMemo {
    /// The row that was remembered, or else `rank` finds. Under revision 0, which says nothing of what is
    /// ranked, nothing is remembered.
    pub(super) fn row(
        &mut self,
        revision: u64,
        seed: &Seed,
        weight: RendezvousWeight,
        slot: Slot,
        rank: impl FnOnce() -> Row,
    ) -> Row {
        if revision == 0 {
            return rank();
        }
        let seed_hash = seed.hash();
        let pair = &mut self.pairs[pair_of(revision, seed_hash, slot)];
        let is_it = |entry: &&Entry| {
            entry.revision == revision
                && entry.seed_hash == seed_hash
                && entry.slot == slot
                && entry.weight == weight
        };
        if let Some(entry) = pair.iter().find(is_it) {
            return entry.row;
        }
        let row = rank();
        *pair = [Entry { revision, seed_hash, slot, weight, row }, pair[0]];
        row
    }
}

// === impl Scratch ===

impl Scratch {
    /// Empties it, with room for all of so many clusters at once, so that deeper rankings of the same target
    /// never need more.
    pub(super) fn clear(&mut self, clusters: usize) {
        self.scored.clear();
        self.scored.reserve(clusters);
        self.ranks.clear();
        self.ranks.reserve(clusters);
    }
}

impl Default for RankingMemo {
    fn default() -> Self {
        let empty = Entry {
            revision: 0,
            seed_hash: 0,
            slot: Slot(0),
            weight: RendezvousWeight::default(),
            row: Row::EMPTY,
        };
        Self { pairs: vec![[empty; 2]; PAIRS].into(), scratch: Scratch::default() }
    }
}

/// Fibonacci hashing: the high bits of a product with the golden ratio.
fn pair_of(revision: u64, seed_hash: u64, slot: Slot) -> usize {
    let key = revision.rotate_left(Slot::BITS) ^ seed_hash ^ u64::from(slot.number());
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PAIRS_BITS)) as usize
}

#[cfg(test)]
mod tests;
