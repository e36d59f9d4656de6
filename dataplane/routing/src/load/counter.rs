//! Running and queued attempts in one word, and their tokens beside it.
//!
//! The two counts are the halves of one word: a decision reads them together, and an attempt enters by one
//! exchange that fails when another core came in since.

use crate::{
    Tokens,
    atomics::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// A count that cores share.
#[derive(Debug, Default)]
pub(super) struct Counter {
    attempts: AtomicU64,
    /// Raised before `attempts` is, and lowered after it: who reads an attempt there finds its tokens here.
    tokens: AtomicU64,
}

/// Attempts and their queued tokens; what is counted, or how it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) attempts: Attempts,
    pub(crate) tokens: Tokens,
}

/// Running attempts in the upper half, queued ones in the lower. 2^32 of them would need as many connections. A
/// change that lowers a half borrows from the upper one; the sum that it belongs to is right all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempts(u64);

// === impl Counter ===

impl Counter {
    #[inline]
    pub(super) fn read(&self) -> Amount {
        let attempts = Attempts(self.attempts.load(Acquire));
        Amount { attempts, tokens: Tokens(self.tokens.load(Relaxed)) }
    }

    pub(super) fn add(&self, amount: Amount) {
        let Amount { attempts: Attempts(attempts), tokens: Tokens(tokens) } = amount;
        let is_raised = tokens.cast_signed() > 0;
        if is_raised {
            self.tokens.fetch_add(tokens, Relaxed);
        }
        if attempts != 0 {
            self.attempts.fetch_add(attempts, Release);
        }
        if tokens != 0 && !is_raised {
            self.tokens.fetch_add(tokens, Relaxed);
        }
    }

    /// Adds one that enters unless either half is above what was `seen`; else nothing has changed.
    pub(super) fn add_unless_raised(&self, amount: Amount, seen: Attempts) -> bool {
        self.tokens.fetch_add(amount.tokens.0, Relaxed);
        let mut current = self.attempts.load(Relaxed);
        loop {
            let now = Attempts(current);
            if now.running() > seen.running() || now.queued() > seen.queued() {
                self.tokens.fetch_sub(amount.tokens.0, Relaxed);
                return false;
            }
            let raised = now.plus(amount.attempts).0;
            match self.attempts.compare_exchange_weak(current, raised, Release, Relaxed) {
                Ok(_) => return true,
                Err(other) => current = other,
            }
        }
    }
}

// === impl Amount ===

impl Amount {
    /// One that the engine has begun to answer is over.
    pub(crate) const LEAVING: Self =
        Self { attempts: Attempts(Attempts::RUNNING.wrapping_neg()), tokens: Tokens(0) };

    /// One attempt that runs and is queued.
    pub(crate) fn entering(input: Tokens) -> Self {
        Self { attempts: Attempts(Attempts::RUNNING + Attempts::QUEUED), tokens: input }
    }

    /// The engine has begun to answer one.
    pub(crate) fn answered(input: Tokens) -> Self {
        Self { attempts: Attempts(Attempts::QUEUED), tokens: input }.reversed()
    }

    #[inline]
    pub(crate) fn plus(self, other: Self) -> Self {
        let tokens = self.tokens.wrapping_add(other.tokens);
        Self { attempts: self.attempts.plus(other.attempts), tokens }
    }

    pub(crate) fn reversed(self) -> Self {
        let Self { attempts: Attempts(attempts), tokens: Tokens(tokens) } = self;
        Self { attempts: Attempts(attempts.wrapping_neg()), tokens: Tokens(tokens.wrapping_neg()) }
    }
}

// === impl Attempts ===

impl Attempts {
    const RUNNING: u64 = 1 << u32::BITS;
    const QUEUED: u64 = 1;

    #[inline]
    pub(crate) fn running(self) -> u64 {
        self.0 >> u32::BITS
    }

    #[inline]
    pub(crate) fn queued(self) -> u64 {
        u64::from(self.0 as u32)
    }

    #[inline]
    fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}
