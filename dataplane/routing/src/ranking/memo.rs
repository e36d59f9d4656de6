//! What one core remembers of rankings that no table holds, and room to rank in.
//!
//! Direct-mapped and of fixed size: a request's own seed costs a pass over the clusters the first time its
//! slot comes up, and never memory.

use super::{Slot, row::Row};
use crate::{ClusterIndex, RendezvousWeight, Seed};

/// Rows remembered; 48 kB a core.
const ENTRIES: usize = 1 << ENTRIES_BITS;
const ENTRIES_BITS: u32 = 10;

/// One core's memory of rankings.
#[derive(Debug)]
pub(crate) struct RankingMemo {
    entries: Box<[Entry]>,
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
        let entry = &mut self.entries[position(revision, seed_hash, slot)];
        let is_it = entry.revision == revision
            && entry.seed_hash == seed_hash
            && entry.slot == slot
            && entry.weight == weight;
        if !is_it {
            *entry = Entry { revision, seed_hash, slot, weight, row: rank() };
        }
        entry.row
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
        Self { entries: vec![empty; ENTRIES].into(), scratch: Scratch::default() }
    }
}

/// Fibonacci hashing: the high bits of a product with the golden ratio.
fn position(revision: u64, seed_hash: u64, slot: Slot) -> usize {
    let key = revision.rotate_left(Slot::BITS) ^ seed_hash ^ u64::from(slot.number());
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - ENTRIES_BITS)) as usize
}

#[cfg(test)]
mod tests;
