//! What this gateway has in flight on a cluster: the half of its load that reported stats may not show yet.
//!
//! Counters are shared by all cores and by successive snapshots. They are changed only through [`Running`],
//! which undoes exactly what it did, so that after any mix of outcomes they read 0.
//!
//! Running and queued attempts are the halves of one word: a decision reads them together, and an attempt
//! enters by one exchange that fails when another core came in since.

use std::sync::Arc;

use crate::{
    Tokens,
    atomics::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// In-flight counters of one (target, cluster), padded to cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ClusterLoad {
    attempts: AtomicU64,
    /// Raised before `attempts` is: who reads an attempt there finds its tokens here.
    queued_input_tokens: AtomicU64,
    next_backend: AtomicU32,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadReading {
    pub(crate) attempts: Attempts,
    pub(crate) queued_input: Tokens,
}

/// Attempts in flight. 2^32 of them would need as many connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempts {
    pub(crate) running: u32,
    pub(crate) queued: u32,
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
        let input = charged(input);
        self.queued_input_tokens.fetch_add(input.0, Relaxed);
        self.attempts.fetch_add(Attempts::ONE, Release);
        Running { load: self.clone(), queued: Some(input) }
    }

    /// Counts an attempt unless more are running or queued than `seen`: then nothing has changed, and what
    /// was decided by `seen` is to be decided again. Attempts that ended since do no harm.
    pub(crate) fn enter_unless_raised(self: &Arc<Self>, input: Tokens, seen: Attempts) -> Option<Running> {
        let input = charged(input);
        self.queued_input_tokens.fetch_add(input.0, Relaxed);
        let mut current = self.attempts.load(Relaxed);
        loop {
            let now = Attempts::unpack(current);
            if now.running > seen.running || now.queued > seen.queued {
                self.queued_input_tokens.fetch_sub(input.0, Relaxed);
                return None;
            }
            match self.attempts.compare_exchange_weak(current, current + Attempts::ONE, Release, Relaxed) {
                Ok(_) => return Some(Running { load: self.clone(), queued: Some(input) }),
                Err(other) => current = other,
            }
        }
    }

    /// All counters.
    pub(crate) fn read(&self) -> LoadReading {
        let attempts = Attempts::unpack(self.attempts.load(Acquire));
        LoadReading { attempts, queued_input: self.queued_input() }
    }

    /// Attempts between selection and their last byte.
    pub fn running(&self) -> u64 {
        self.read().attempts.running.into()
    }

    /// Attempts between selection and their first byte.
    pub fn queued(&self) -> u64 {
        self.read().attempts.queued.into()
    }

    /// Input tokens of the attempts between selection and their first byte.
    pub fn queued_input(&self) -> Tokens {
        Tokens(self.queued_input_tokens.load(Relaxed))
    }

    /// The round-robin cursor over the cluster's backends; wraps.
    pub(crate) fn next_backend(&self) -> u32 {
        self.next_backend.fetch_add(1, Relaxed)
    }

    /// What [`Self::next_backend`] is going to answer.
    pub(crate) fn peek_backend(&self) -> u32 {
        self.next_backend.load(Relaxed)
    }
}

fn charged(input: Tokens) -> Tokens {
    Tokens(input.0.min(INPUT_TOKENS_CHARGED_MAX))
}

// === impl Attempts ===

impl Attempts {
    const RUNNING: u64 = 1 << u32::BITS;
    const QUEUED: u64 = 1;
    const ONE: u64 = Self::RUNNING + Self::QUEUED;

    fn unpack(word: u64) -> Self {
        Self { running: (word >> u32::BITS) as u32, queued: word as u32 }
    }
}

// === impl Running ===

impl Running {
    /// The engine has begun to answer: its input is no longer queued. Further calls do nothing.
    pub fn first_byte(&mut self) {
        if let Some(input) = self.queued.take() {
            self.load.attempts.fetch_sub(Attempts::QUEUED, Release);
            self.load.queued_input_tokens.fetch_sub(input.0, Relaxed);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.first_byte();
        self.load.attempts.fetch_sub(Attempts::RUNNING, Release);
    }
}

#[cfg(test)]
mod tests;
