//! What an engine of either kind has for its requests: slots, KV memory, and the queue before them; and what it says of these.
//!
//! How fast anything goes, and who is given what when, is for the kinds to say.

use super::{
    super::model::{AttemptKey, EngineState},
    kv_cache::KvCache,
    queue::Queue,
};

/// What is common to engines.
pub(super) struct Room {
    pub(super) slots: usize,
    pub(super) cache: KvCache,
    pub(super) queue: Queue,
    /// Of the prompts of all that have a slot.
    pub(super) prompt_tokens: u64,
}

// === impl Room ===

impl Room {
    pub(super) fn new(slots: usize, cache: KvCache) -> Self {
        Self { slots, cache, queue: Queue::default(), prompt_tokens: 0 }
    }

    /// What it looks like with `in_prefill` and `in_decode` requests in slots, which have `to_prefill` tokens to compute before
    /// their first tokens.
    pub(super) fn state(&self, in_prefill: u64, in_decode: u64, to_prefill: u64) -> EngineState {
        EngineState {
            running: in_prefill + in_decode,
            queued: self.queue.len() as u64,
            queued_tokens: self.queue.tokens() + to_prefill,
            in_prefill,
            in_decode,
            total_tokens: self.prompt_tokens + self.queue.prompt_tokens(),
            kv_capacity_tokens: self.cache.capacity_tokens(),
            kv_used_tokens: self.cache.used_tokens(),
        }
    }

    /// Forgets all requests, and what was cached of them; returns those that waited.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = AttemptKey> {
        self.prompt_tokens = 0;
        self.cache.clear();
        self.queue.clear()
    }
}
