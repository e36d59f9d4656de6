//! Requests that wait in an engine, in the order in which they are to begin.

use std::collections::VecDeque;

use super::{
    super::model::{AttemptKey, Job},
    clock::Picos,
    kv_cache::{Leftover, Sequence},
};

/// A request that waits for the first time, or again after a preemption.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) job: Job,
    pub(super) since: Picos,
    /// Tokens that it had generated when it was preempted.
    pub(super) generated: u32,
    pub(super) leftover: Option<Leftover>,
}

#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    /// Of all that wait: what they would have to compute, and their prompts.
    tokens: u64,
    prompt_tokens: u64,
}

// === impl Waiting ===

impl Waiting {
    pub(super) fn sequence(&self) -> Sequence {
        Sequence { prompt: self.job.prompt, generated: self.generated }
    }
}

// === impl Queue ===

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Tokens that those who wait have to compute, unless they find them in the cache.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    pub(super) fn prompt_tokens(&self) -> u64 {
        self.prompt_tokens
    }

    pub(super) fn first(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        self.count(&waiting);
        self.waiting.push_back(waiting);
    }

    /// Lets a request that was preempted go first.
    pub(super) fn push_first(&mut self, waiting: Waiting) {
        self.count(&waiting);
        self.waiting.push_front(waiting);
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        self.discount(&waiting);
        Some(waiting)
    }

    /// Takes a request out from wherever it is.
    pub(super) fn remove(&mut self, attempt: AttemptKey) -> bool {
        let place = self.waiting.iter().position(|waiting| waiting.job.attempt == attempt);
        let Some(waiting) = place.and_then(|place| self.waiting.remove(place)) else { return false };
        self.discount(&waiting);
        true
    }

    /// Takes all out.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = AttemptKey> {
        (self.tokens, self.prompt_tokens) = (0, 0);
        self.waiting.drain(..).map(|waiting| waiting.job.attempt)
    }

    fn count(&mut self, waiting: &Waiting) {
        self.tokens += u64::from(waiting.sequence().tokens());
        self.prompt_tokens += u64::from(waiting.job.prompt.tokens());
    }

    fn discount(&mut self, waiting: &Waiting) {
        self.tokens -= u64::from(waiting.sequence().tokens());
        self.prompt_tokens -= u64::from(waiting.job.prompt.tokens());
    }
}
