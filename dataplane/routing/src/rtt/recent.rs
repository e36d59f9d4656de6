//! The last round trips that were measured to one backend: taken by any core at any time, without a lock.
//!
//! Each is one word, time and length together, so that nobody ever reads half of one. Two cores that take one
//! at the same moment take two places; a reader may find one of these still holding what was there before,
//! which is a measurement too.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::Nanos;

/// Measurements kept.
const KEPT: usize = 8;
/// Bits of the length in µs: up to 134 s, beyond any TCP timeout.
const LENGTH_BITS: u32 = 27;
const LENGTH_MAX: u64 = (1 << LENGTH_BITS) - 1;

/// One measured round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttSample {
    /// How long it took.
    pub rtt: Nanos,
    /// When it was measured, since a start that all who take and read share (the monotonic clock's).
    pub at: Duration,
}

/// The last round trips to one backend.
#[derive(Debug, Default)]
pub struct RecentRtts {
    /// All that were ever taken.
    taken: AtomicU64,
    /// Those of them that were handshakes.
    handshakes: AtomicU64,
    /// By number modulo [`KEPT`]; 0 where nothing is.
    last: [AtomicU64; KEPT],
    last_handshake: AtomicU64,
}

// === impl RttSample ===

impl RttSample {
    /// In whole µs and ms; never 0, which is no sample.
    fn to_word(self) -> u64 {
        let at_ms = u64::try_from(self.at.as_millis()).unwrap_or(u64::MAX) << LENGTH_BITS;
        at_ms | (self.rtt.0 / 1000).clamp(1, LENGTH_MAX)
    }

    fn from_word(word: u64) -> Option<Self> {
        let us = word & LENGTH_MAX;
        let at = Duration::from_millis(word >> LENGTH_BITS);
        (us > 0).then_some(Self { rtt: Nanos(us * 1000), at })
    }
}

// === impl RecentRtts ===

impl RecentRtts {
    /// Takes a round trip of data and its acknowledgement.
    pub fn take(&self, sample: RttSample) {
        let number = self.taken.fetch_add(1, Relaxed);
        self.last[number as usize % KEPT].store(sample.to_word(), Relaxed);
    }

    /// Takes the round trip of a connection's handshake.
    pub fn take_handshake(&self, sample: RttSample) {
        self.handshakes.fetch_add(1, Relaxed);
        self.last_handshake.store(sample.to_word(), Relaxed);
        self.take(sample);
    }

    /// The last ones, handshakes among them, newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = RttSample> {
        let taken = self.taken.load(Relaxed);
        let words: [u64; KEPT] = array::from_fn(|back| {
            let number = taken.wrapping_sub(1).wrapping_sub(back as u64);
            self.last[number as usize % KEPT].load(Relaxed)
        });
        words.into_iter().filter_map(RttSample::from_word)
    }

    /// The last handshake.
    pub fn last_handshake(&self) -> Option<RttSample> {
        RttSample::from_word(self.last_handshake.load(Relaxed))
    }

    /// How many were taken, handshakes among them.
    pub fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// How many of them were handshakes.
    pub fn handshakes(&self) -> u64 {
        self.handshakes.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(us: u64, at_ms: u64) -> RttSample {
        RttSample { rtt: Nanos(us * 1000), at: Duration::from_millis(at_ms) }
    }

    #[test]
    fn the_last_ones_are_kept_newest_first() {
        let recent = RecentRtts::default();
        assert_eq!((recent.newest_first().count(), recent.last_handshake()), (0, None));
        recent.take_handshake(sample(7, 1));
        recent.take(sample(8, 2));
        assert_eq!(recent.newest_first().collect::<Vec<_>>(), [sample(8, 2), sample(7, 1)]);
        for us in 10..30 {
            recent.take(sample(us, us));
        }
        let lengths: Vec<u64> = recent.newest_first().map(|sample| sample.rtt.0 / 1000).collect();
        assert_eq!(lengths, [29, 28, 27, 26, 25, 24, 23, 22]);
        assert_eq!(recent.last_handshake(), Some(sample(7, 1)));
        assert_eq!((recent.taken(), recent.handshakes()), (22, 1));
    }

    #[test]
    fn a_word_holds_any_sample() {
        let years = Duration::from_secs(3 * 365 * 86_400);
        for (rtt, kept_us) in [(Nanos(0), 1), (Nanos(1999), 1), (Nanos(u64::MAX), LENGTH_MAX)] {
            let kept = RttSample::from_word(RttSample { rtt, at: years }.to_word()).unwrap();
            assert_eq!((kept.rtt.0, kept.at), (kept_us * 1000, years));
        }
        assert_eq!(RttSample::from_word(0), None);
    }

    /// What cores take together is neither lost nor torn.
    #[test]
    fn cores_take_together() {
        const EACH: u64 = if cfg!(miri) { 20 } else { 20_000 };
        let recent = RecentRtts::default();
        let is_whole = |sample: RttSample| sample.rtt.0 / 1000 == sample.at.as_millis() as u64;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (1..=EACH).for_each(|n| recent.take_handshake(sample(n, n))));
            }
            for _ in 0..EACH / 10 {
                assert!(recent.newest_first().chain(recent.last_handshake()).all(is_whole));
            }
        });
        assert_eq!((recent.taken(), recent.handshakes()), (2 * EACH, 2 * EACH));
        assert_eq!(recent.newest_first().count(), KEPT);
    }
}
