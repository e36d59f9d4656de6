//! When reservations end by time: a hashed timing wheel (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels",
//! 1987, scheme 6).
//!
//! One slot a millisecond. A reservation that lives for longer than one turn of the wheel stays in its slot until its
//! round comes. To make one and to release one costs the same however many are pending; to go forward costs at
//! most one look at every slot, and none at empty ones, which a bit map tells.

use std::time::Duration;

use slab::Slab;

use super::{attempt::Attempt, chain::Chain};

/// Milliseconds in a turn: more than reservations live, as configured by default.
const SLOTS: usize = 2_048;
const WORDS: usize = SLOTS / u64::BITS as usize;

#[derive(Debug)]
pub(super) struct Wheel {
    /// The last tick that has been dealt with.
    passed: u64,
    slots: Box<[Chain; SLOTS]>,
    /// A bit for every slot that is not empty.
    occupied: [u64; WORDS],
}

// === impl Wheel ===

impl Wheel {
    /// The first tick at which nothing ends early that is due at `time`.
    pub(super) fn tick_at_or_after(time: Duration) -> u64 {
        // More milliseconds than fit are more than any clock reaches.
        u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }

    /// The last tick that has come at `time`.
    pub(super) fn tick_at_or_before(time: Duration) -> u64 {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes in an attempt, to come up at its due tick, or at the next one where that has passed.
    pub(super) fn insert(&mut self, key: u32, attempts: &mut Slab<Attempt>) {
        let attempt = &mut attempts[key as usize];
        attempt.due = attempt.due.max(self.passed.saturating_add(1));
        let slot = slot_of(attempt.due);
        self.slots[slot].push_last(key, attempts);
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    pub(super) fn remove(&mut self, key: u32, attempts: &mut Slab<Attempt>) {
        let slot = slot_of(attempts[key as usize].due);
        self.slots[slot].remove(key, attempts);
        if self.slots[slot].is_empty() {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// Goes on to the next slot that is not empty and whose tick has come, and answers its first attempt; `None` when
    /// all ticks until `now` have been dealt with. What is there may be of a later round.
    pub(super) fn next_passed(&mut self, now: Duration) -> Option<u32> {
        let now = Self::tick_at_or_before(now);
        // After more than a turn every slot has come up, and once is enough.
        self.passed = self.passed.max(now.saturating_sub(SLOTS as u64));
        let next = self.next_occupied().filter(|tick| *tick <= now);
        self.passed = next.unwrap_or(self.passed.max(now));
        self.slots[slot_of(next?)].first()
    }

    /// When the next slot comes up that is not empty.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.next_occupied().map(Duration::from_millis)
    }

    /// The tick, within a turn from now, of the next slot that is not empty.
    fn next_occupied(&self) -> Option<u64> {
        let first = self.passed.saturating_add(1);
        let (word, bit) = (slot_of(first) / 64, slot_of(first) % 64);
        // The word that it begins in is looked at twice: from `first` on, and in the end up to it.
        (0..=WORDS).find_map(|step| {
            let mask = match step {
                0 => u64::MAX << bit,
                WORDS => !(u64::MAX << bit),
                _ => u64::MAX,
            };
            let word = (word + step) % WORDS;
            let occupied = self.occupied[word] & mask;
            let slot = word * 64 + occupied.trailing_zeros() as usize;
            (occupied != 0).then(|| first + ((slot + SLOTS - slot_of(first)) % SLOTS) as u64)
        })
    }
}

impl Default for Wheel {
    fn default() -> Self {
        Self { passed: 0, slots: Box::new([Chain::default(); SLOTS]), occupied: [0; WORDS] }
    }
}

fn slot_of(tick: u64) -> usize {
    tick as usize % SLOTS
}

#[cfg(test)]
mod tests;
