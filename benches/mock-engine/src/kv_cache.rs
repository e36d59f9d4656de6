//! The prefix cache: how many tokens of a prompt need no prefill, because the same key was seen before.
//!
//! One entry per affinity key, counted in whole blocks, the least recently used ones shortened first. Two prompts with
//! one key count as sharing the shorter one's blocks: content is not compared, since a key promises just that.
//! Entries of running requests are pinned; a prompt that finds no room beside them is served but not remembered.

use std::collections::{BTreeMap, HashMap};

/// Prefix cache of one engine.
#[derive(Debug)]
pub(crate) struct KvCache {
    block_tokens: u64,
    capacity_blocks: u64,
    used_blocks: u64,
    pinned_blocks: u64,
    clock: u64,
    entries: HashMap<u64, Entry>,
    /// Unpinned entries by the time of their last use.
    evictable: BTreeMap<u64, u64>,
}

#[derive(Debug, Default)]
struct Entry {
    blocks: u64,
    pins: u32,
    last_used: u64,
}

impl KvCache {
    /// An empty cache of `capacity_tokens` in blocks of `block_tokens` (at least 1).
    pub(crate) fn new(capacity_tokens: u64, block_tokens: u64) -> Self {
        let block_tokens = block_tokens.max(1);
        Self {
            block_tokens,
            capacity_blocks: capacity_tokens / block_tokens,
            used_blocks: 0,
            pinned_blocks: 0,
            clock: 0,
            entries: HashMap::new(),
            evictable: BTreeMap::new(),
        }
    }

    /// Pins the key's entry and returns how many tokens of the prompt it spares. The last token of a prompt is always
    /// computed: its logits are what the first output token comes from.
    pub(crate) fn begin(&mut self, key: u64, prompt_tokens: u64) -> u64 {
        let entry = self.entries.entry(key).or_default();
        if entry.pins == 0 {
            self.evictable.remove(&entry.last_used);
            self.pinned_blocks += entry.blocks;
        }
        entry.pins += 1;
        entry.blocks.min(prompt_tokens.saturating_sub(1) / self.block_tokens) * self.block_tokens
    }

    /// Remembers that `tokens` of a pinned key are now computed, as far as there is room.
    pub(crate) fn grow(&mut self, key: u64, tokens: u64) {
        let Some(entry) = self.entries.get(&key) else { return };
        debug_assert!(entry.pins > 0, "grow between begin and end");
        let wanted = (tokens / self.block_tokens).saturating_sub(entry.blocks);
        let free = self.capacity_blocks - self.used_blocks;
        if wanted > free {
            self.evict(wanted - free);
        }
        let granted = wanted.min(self.capacity_blocks - self.used_blocks);
        self.used_blocks += granted;
        self.pinned_blocks += granted;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.blocks += granted;
        }
    }

    /// Unpins a key; its entry stays until the room is needed.
    pub(crate) fn end(&mut self, key: u64) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.pins -= 1;
        if entry.pins > 0 {
            return;
        }
        self.pinned_blocks -= entry.blocks;
        if entry.blocks == 0 {
            self.entries.remove(&key);
            return;
        }
        self.clock += 1;
        entry.last_used = self.clock;
        self.evictable.insert(self.clock, key);
    }

    /// Tokens that fit.
    pub(crate) fn capacity_tokens(&self) -> u64 {
        self.capacity_blocks * self.block_tokens
    }

    /// Tokens that running requests hold; the rest is free or can be evicted.
    pub(crate) fn used_tokens(&self) -> u64 {
        self.pinned_blocks * self.block_tokens
    }

    /// Tokens of all entries, evictable ones included.
    pub(crate) fn cached_tokens(&self) -> u64 {
        self.used_blocks * self.block_tokens
    }

    /// Frees `blocks` from the ends of the least recently used entries, as far as there are any.
    fn evict(&mut self, mut blocks: u64) {
        while blocks > 0 {
            let Some((&time, &key)) = self.evictable.first_key_value() else { return };
            let Some(entry) = self.entries.get_mut(&key) else { return };
            let freed = entry.blocks.min(blocks);
            entry.blocks -= freed;
            self.used_blocks -= freed;
            blocks -= freed;
            if entry.blocks == 0 {
                self.entries.remove(&key);
                self.evictable.remove(&time);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(cache: &mut KvCache, key: u64, prompt: u64) -> u64 {
        let cached = cache.begin(key, prompt);
        cache.grow(key, prompt);
        cache.end(key);
        cached
    }

    #[test]
    fn spares_whole_blocks_but_never_the_last_token() {
        let mut cache = KvCache::new(1000, 16);
        assert_eq!(serve(&mut cache, 1, 40), 0);
        assert_eq!(serve(&mut cache, 1, 40), 32);
        assert_eq!(serve(&mut cache, 1, 32), 16);
        assert_eq!(serve(&mut cache, 1, 100), 32);
        assert_eq!(serve(&mut cache, 1, 100), 96);
        assert_eq!(serve(&mut cache, 2, 100), 0);
    }

    #[test]
    fn shortens_the_least_recently_used_first() {
        let mut cache = KvCache::new(64, 16);
        serve(&mut cache, 1, 32);
        serve(&mut cache, 2, 32);
        serve(&mut cache, 1, 32);
        assert_eq!(serve(&mut cache, 3, 16), 0);
        assert_eq!(cache.cached_tokens(), 64);
        // Key 2 was used longest ago and lost one of its two blocks.
        assert_eq!(cache.begin(2, 100), 16);
        assert_eq!(cache.begin(1, 100), 32);
    }

    #[test]
    fn running_requests_keep_their_blocks() {
        let mut cache = KvCache::new(64, 16);
        assert_eq!(cache.begin(1, 64), 0);
        cache.grow(1, 64);
        assert_eq!(cache.used_tokens(), 64);
        assert_eq!(serve(&mut cache, 2, 64), 0);
        assert_eq!(serve(&mut cache, 2, 64), 0);
        cache.end(1);
        assert_eq!(cache.used_tokens(), 0);
        assert_eq!(serve(&mut cache, 2, 64), 0);
        assert_eq!(serve(&mut cache, 2, 64), 48);
        assert_eq!(serve(&mut cache, 1, 64), 0);
    }

    #[test]
    fn nothing_is_left_of_requests_that_cached_nothing() {
        let mut cache = KvCache::new(0, 16);
        for key in 0..100 {
            assert_eq!(serve(&mut cache, key, 500), 0);
        }
        assert!(cache.entries.is_empty() && cache.evictable.is_empty());
        assert_eq!((cache.used_tokens(), cache.cached_tokens()), (0, 0));
    }
}
