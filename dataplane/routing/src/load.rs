//! What this gateway has sent to a cluster and reported stats may not show yet: three counts that all cores and
//! successive snapshots share.
//!
//! They are changed only through handles ([`Running`](crate::Running), [`Counted`]), which undo exactly what they
//! did, so that after any mix of outcomes all read 0. Cores do not write here at every change: each keeps its
//! latest ones to itself for a moment ([`CoreLoads`](crate::CoreLoads)), and adds them up here.
//!
//! Every count is changed by wrapping addition only. An attempt enters and leaves on one core, and a core adds its
//! changes in their order: so what a core has added up to here is never negative, and neither is the sum over
//! the cores, whenever it is read.

mod counter;
pub(crate) mod effective;
mod lanes;
pub(crate) mod stats;

use std::sync::Arc;

use self::{counter::Counter, lanes::Lanes};
pub(crate) use self::{
    counter::{Amount, Attempts},
    lanes::{LANES, Lane},
};
use crate::{
    Accounting, ClusterStats, Tokens,
    atomics::{
        AtomicU32, AtomicU64,
        Ordering::{Relaxed, Release},
    },
};

/// Load of one (target, cluster), padded to cache lines of its own. What a decision reads is on the first.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ClusterLoad {
    /// Attempts from selection to their last byte.
    in_flight: Counter,
    /// Reservations pending: both halves count all of them.
    reserved: Counter,
    /// Attempts that the latest report includes and that have ended since.
    ended: AtomicU64,
    next_backend: AtomicU32,
    /// Tokens of the pending reservations by priority, where estimates by priority are published.
    reserved_by_priority: Lanes,
}

/// What counts of a load for one decision, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadReading {
    /// In flight or reserved, by the cluster's [`Accounting`].
    pub(crate) sent: Amount,
    /// Included in the report, and ended since.
    pub(crate) ended: u64,
    /// Reserved tokens that are served no later than the request, where estimates by priority are published.
    pub(crate) reserved_ahead: Tokens,
}

/// One change of a load. Its numbers are two's complements: adding [`Self::reversed`] undoes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) in_flight: Amount,
    pub(crate) reserved: Amount,
    pub(crate) ended: u64,
    /// Where the tokens reserved count by priority too.
    pub(crate) lane: Option<Lane>,
}

/// The sum of many changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeSum {
    in_flight: Amount,
    reserved: Amount,
    ended: u64,
    /// Whether any change had a lane: the lanes lie apart, and are left alone where none has.
    has_lanes: bool,
    lanes: [u64; LANES],
}

/// The most that one attempt adds to a count of tokens. An estimate comes from a header and may be anything
/// up to `u64::MAX`; bounded, 2^24 attempts at once cannot overflow the sum, and each can be undone exactly.
const INPUT_TOKENS_CHARGED_MAX: u64 = 1 << 40;

/// One attempt in flight that no core answers for: counted at once, and movable between threads. Dropping it takes
/// the attempt out again.
#[derive(Debug)]
pub struct Counted {
    load: Arc<ClusterLoad>,
    /// What it added to the queued tokens; `None` once the engine has answered.
    queued: Option<Tokens>,
}

// === impl ClusterLoad ===

impl ClusterLoad {
    /// Counts an attempt of `input` tokens, for all cores at once.
    pub fn enter(self: &Arc<Self>, input: Tokens) -> Counted {
        let input = charged(input);
        self.in_flight.add(Amount::entering(input));
        Counted { load: self.clone(), queued: Some(input) }
    }

    /// Counts an attempt in flight unless more are running or queued than `seen`: then nothing has changed, and
    /// what was decided by `seen` is to be decided again. Attempts that ended since do no harm.
    pub(crate) fn enter_unless_raised(&self, amount: Amount, seen: Attempts) -> bool {
        self.in_flight.add_unless_raised(amount, seen)
    }

    /// Counts a reservation unless more are pending than `seen`: then nothing has changed, as in
    /// [`Self::enter_unless_raised`].
    pub(crate) fn reserve_unless_raised(&self, amount: Amount, lane: Option<Lane>, seen: Attempts) -> bool {
        let is_reserved = self.reserved.add_unless_raised(amount, seen);
        if let (true, Some(lane)) = (is_reserved, lane) {
            self.reserved_by_priority.add(lane, amount.tokens);
        }
        is_reserved
    }

    /// Adds a core's changes.
    pub(crate) fn add(&self, changes: &ChangeSum) {
        self.in_flight.add(changes.in_flight);
        self.reserved.add(changes.reserved);
        if changes.ended != 0 {
            self.ended.fetch_add(changes.ended, Release);
        }
        if changes.has_lanes {
            self.reserved_by_priority.add_all(&changes.lanes);
        }
    }

    /// What counts for a request of `priority` at a cluster that reports this.
    #[inline]
    pub(crate) fn read(&self, reported: &ClusterStats, priority: u32) -> LoadReading {
        match reported.accounting {
            Accounting::InFlight => LoadReading { sent: self.in_flight.read(), ..LoadReading::default() },
            Accounting::Reservations => {
                let has_lanes = reported.has_queue_time_estimates();
                let reserved_ahead = if has_lanes {
                    self.reserved_by_priority.through(Lane::of(priority))
                } else {
                    Tokens::default()
                };
                LoadReading { sent: self.reserved.read(), ended: self.ended.load(Relaxed), reserved_ahead }
            }
        }
    }

    /// Attempts between selection and their last byte.
    pub fn running(&self) -> u64 {
        self.in_flight.read().attempts.running()
    }

    /// Attempts between selection and their first byte.
    pub fn queued(&self) -> u64 {
        self.in_flight.read().attempts.queued()
    }

    /// Input tokens of the attempts between selection and their first byte.
    pub fn queued_input(&self) -> Tokens {
        self.in_flight.read().tokens
    }

    /// Reservations pending.
    pub fn reserved(&self) -> u64 {
        self.reserved.read().attempts.running()
    }

    /// Input tokens of the reservations pending.
    pub fn reserved_input(&self) -> Tokens {
        self.reserved.read().tokens
    }

    /// Attempts that the latest report includes and that have ended since.
    pub fn ended(&self) -> u64 {
        self.ended.load(Relaxed)
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

/// What a request of `input` tokens adds to a count of tokens.
pub(crate) fn charged(input: Tokens) -> Tokens {
    Tokens(input.0.min(INPUT_TOKENS_CHARGED_MAX))
}

// === impl LoadReading ===

impl LoadReading {
    /// With what a core has not added to the load yet.
    #[inline]
    pub(crate) fn plus(self, changes: &ChangeSum, reported: &ClusterStats, priority: u32) -> Self {
        match reported.accounting {
            Accounting::InFlight => Self { sent: self.sent.plus(changes.in_flight), ..self },
            Accounting::Reservations => Self {
                sent: self.sent.plus(changes.reserved),
                ended: self.ended.wrapping_add(changes.ended),
                reserved_ahead: if changes.has_lanes && reported.has_queue_time_estimates() {
                    self.reserved_ahead.wrapping_add(lanes::through(&changes.lanes, Lane::of(priority)))
                } else {
                    self.reserved_ahead
                },
            },
        }
    }
}

// === impl Change ===

impl Change {
    pub(crate) fn reversed(self) -> Self {
        Self {
            in_flight: self.in_flight.reversed(),
            reserved: self.reserved.reversed(),
            ended: self.ended.wrapping_neg(),
            lane: self.lane,
        }
    }
}

// === impl ChangeSum ===

impl ChangeSum {
    pub(crate) fn add(&mut self, change: &Change) {
        self.in_flight = self.in_flight.plus(change.in_flight);
        self.reserved = self.reserved.plus(change.reserved);
        self.ended = self.ended.wrapping_add(change.ended);
        if let Some(lane) = change.lane {
            self.has_lanes = true;
            lane.add(&mut self.lanes, change.reserved.tokens);
        }
    }

    pub(crate) fn clear(&mut self) {
        if self.has_lanes {
            *self = Self::default();
        } else {
            (self.in_flight, self.reserved, self.ended) = (Amount::default(), Amount::default(), 0);
        }
    }
}

// === impl Counted ===

impl Counted {
    /// The engine has begun to answer: its input is no longer queued. Further calls do nothing.
    pub fn first_byte(&mut self) {
        if let Some(input) = self.queued.take() {
            self.load.in_flight.add(Amount::answered(input));
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.first_byte();
        self.load.in_flight.add(Amount::LEAVING);
    }
}

#[cfg(test)]
mod tests;
