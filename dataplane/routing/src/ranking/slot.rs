//! The parts that affinity keys fall into, few enough that every part's ranking can be made ahead.

use xxhash_rust::xxh3::xxh3_64;

/// The part of all affinity keys that a key falls into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(pub(super) u16);

// === impl Slot ===

impl Slot {
    /// Bits of a key's hash that tell its slot.
    pub const BITS: u32 = 16;
    /// How many there are: with 20 equal clusters, some 3 277 for each, give or take 56.
    pub const COUNT: usize = 1 << Self::BITS;

    /// The slot of an affinity key.
    pub fn of(affinity_key: &[u8]) -> Self {
        Self((xxh3_64(affinity_key) >> (u64::BITS - Self::BITS)) as u16)
    }

    /// Its number, below [`Slot::COUNT`].
    pub fn number(self) -> u32 {
        self.0.into()
    }
}
