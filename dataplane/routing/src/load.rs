//! What this gateway has in flight on a cluster: the half of its load that reported stats may not show yet.
//!
//! Counters are shared by all cores and by successive snapshots. They are changed only through [`Running`],
//! which undoes exactly what it did, so that after any mix of outcomes they read 0.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use crate::Tokens;

/// In-flight counters of one (target, cluster), padded to cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ClusterLoad {
    running: AtomicU64,
    queued: AtomicU64,
    queued_input_tokens: AtomicU64,
    next_backend: AtomicU32,
}

/// The most that one attempt adds to the queued tokens. An estimate comes from a header and may be anything
/// up to `u64::MAX`; bounded, 2^24 attempts at once cannot overflow the sum, and each can be undone exactly.
const INPUT_TOKENS_CHARGED_MAX: u64 = 1 << 40;

/// One attempt in flight. Dropping it takes the attempt out of the counters.
#[derive(Debug)]
pub struct Running {
    load: Arc<ClusterLoad>,
    /// What it added to the queued tokens; `None` once the engine has answered.
    queued: Option<Tokens>,
}

// === impl ClusterLoad ===

impl ClusterLoad {
    /// Counts an attempt of `input` tokens. Call it at the moment of selection: the next decision, on this
    /// core and on others, is to see it.
    pub fn enter(self: &Arc<Self>, input: Tokens) -> Running {
        let input = Tokens(input.0.min(INPUT_TOKENS_CHARGED_MAX));
        self.running.fetch_add(1, Relaxed);
        self.queued.fetch_add(1, Relaxed);
        self.queued_input_tokens.fetch_add(input.0, Relaxed);
        Running { load: self.clone(), queued: Some(input) }
    }

    /// Attempts between selection and their last byte.
    pub fn running(&self) -> u64 {
        self.running.load(Relaxed)
    }

    /// Attempts between selection and their first byte.
    pub fn queued(&self) -> u64 {
        self.queued.load(Relaxed)
    }

    /// Input tokens of the attempts between selection and their first byte.
    pub fn queued_input(&self) -> Tokens {
        Tokens(self.queued_input_tokens.load(Relaxed))
    }

    /// The round-robin cursor over the cluster's backends; wraps.
    pub(crate) fn next_backend(&self) -> u32 {
        self.next_backend.fetch_add(1, Relaxed)
    }
}

// === impl Running ===

impl Running {
    /// The engine has begun to answer: its input is no longer queued. Further calls do nothing.
    pub fn first_byte(&mut self) {
        if let Some(input) = self.queued.take() {
            self.load.queued.fetch_sub(1, Relaxed);
            self.load.queued_input_tokens.fetch_sub(input.0, Relaxed);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.first_byte();
        self.load.running.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests;
