//! Weighted rendezvous hashing: the hashes of a ranking and the scores that order it.
//!
//! The hashes are part of the protocol between gateways: another version, host or restart must rank alike,
//! or every warm cache is lost. A test pins them.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::slot::Slot;
use crate::{Seed, TargetName};

/// The hash of what all rankings of a target under one seed have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base(u64);

/// The hash of one slot under a [`Base`]: what a cluster's hash is combined with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotHash(u64);

/// A slot's random number for one cluster, within 2^-53..=1 − 2^-53.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Draw(f64);

/// Combines the hashes of a slot and of a cluster id, both uniform already: the finaliser of `SplitMix64`
/// (Steele, Lea and Flood, 2014), a bijection in which every input bit reaches every output bit.
fn mix(slot: SlotHash, id_hash: u64) -> u64 {
    let mut hash = slot.0 ^ id_hash;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

// === impl Base ===

impl Base {
    /// Each part is hashed with the hash of those before it as its seed, so that no two splits of the same
    /// bytes are alike, and no routing key is not an empty one.
    pub(crate) fn new(seed: &Seed, target: &TargetName) -> Self {
        let scope = match &target.routing_key {
            None => seed.hash(),
            Some(routing_key) => xxh3_64_with_seed(routing_key.as_bytes(), seed.hash()),
        };
        Self(xxh3_64_with_seed(target.model.as_bytes(), scope))
    }

    /// Where a whole key stands under this base, and not only its slot.
    pub(crate) fn key(self, affinity_key: &[u8]) -> u64 {
        xxh3_64_with_seed(affinity_key, self.0)
    }

    pub(crate) fn slot(self, slot: Slot) -> SlotHash {
        SlotHash(xxh3_64_with_seed(&slot.number().to_le_bytes(), self.0))
    }
}

// === impl Draw ===

impl Draw {
    const STEP: f64 = 1.0 / (1_u64 << 52) as f64;

    /// Far above the rounding of the operations that it covers for, and so small that next to no logarithm is
    /// taken in vain.
    const MARGIN: f64 = 1.0 + 1.0 / (1_u64 << 40) as f64;

    pub(crate) fn new(slot: SlotHash, id_hash: u64) -> Self {
        // 52 bits and a half are 53, the precision of an f64: no rounding reaches 1.
        Self(((mix(slot, id_hash) >> 12) as f64 + 0.5) * Self::STEP)
    }

    /// Shares of first ranks are in proportion to `weight` because −ln u is exponentially distributed: the
    /// least of several such numbers, each divided by its weight, is each one's with that probability.
    pub(crate) fn score(self, weight: f64) -> f64 {
        weight / -self.0.ln()
    }

    /// False only when the score at `weight` is below `score`. As −ln u ≥ 1 − u, weight / (1 − u) bounds it
    /// from above; a draw near 1, as winners are, is near that bound. So a ranking takes few logarithms, which
    /// are nearly all that it costs otherwise: about as many as the least score of interest is beaten.
    pub(crate) fn may_reach(self, score: f64, weight: f64) -> bool {
        // An infinite score is that of any weight that overflows; finite, it compares with each of them.
        (1.0 - self.0) * score.min(f64::MAX) <= weight * Self::MARGIN
    }
}

#[cfg(test)]
mod tests;
