//! What operators change to get other rankings and groups.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::fields::field::Text;

/// What operators change to get other rankings and groups: any text, empty by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    text: Arc<str>,
    hash: u64,
}

// === impl Seed ===

impl Seed {
    /// A seed of this text.
    pub fn new(text: &str) -> Self {
        // The empty seed is none: its hash starts every chain at 0.
        Self { text: text.into(), hash: if text.is_empty() { 0 } else { xxh3_64(text.as_bytes()) } }
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What enters hashes.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

impl Text for Seed {
    fn get(&self) -> &str {
        self.as_str()
    }

    fn set(&mut self, text: &str) {
        *self = Self::new(text);
    }
}

impl Default for Seed {
    fn default() -> Self {
        Self::new("")
    }
}
