//! Maps by uid or address. Both are this process's own and chosen by nobody else, so a multiplication spreads them well
//! enough, at a fraction of what a keyed hash costs.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

pub(super) type UidMap<K, V> = HashMap<K, V, BuildHasherDefault<UidHasher>>;

/// Hashes a few words by a folded multiplication each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UidHasher(u64);

/// 2^64 divided by the golden ratio: near-by words end up far apart.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for UidHasher {
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0.rotate_left(32) ^ word) * u128::from(FACTOR);
        self.0 = product as u64 ^ (product >> u64::BITS) as u64;
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
