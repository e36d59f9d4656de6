//! What has become of a core's reservations.

use std::{array, iter::Sum, time::Duration};

/// Counts of one core's reservations since its start. Whenever it is looked at, `created` is the sum of `expired`,
/// `released`, `dropped`, `handed_over` and `pending`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReservationCounts {
    /// Made.
    pub created: u64,
    /// Ended by time, a round trip having passed.
    pub expired: u64,
    /// Ended by the end of their attempt.
    pub released: u64,
    /// Ended by the end of their backend's registration.
    pub dropped: u64,
    /// Ended by a report that includes their attempt.
    pub handed_over: u64,
    /// Not ended yet.
    pub pending: u64,
    /// How many that end by time were made to live for so long: up to each of [`Self::TTL_BOUNDS`] and longer than the
    /// one before, and in the end those that live for longer than all.
    pub ttl: [u64; Self::TTL_BOUNDS.len() + 1],
    /// The sum of these lives.
    pub ttl_sum: Duration,
}

// === impl ReservationCounts ===

impl ReservationCounts {
    /// Upper bounds of the buckets of `ttl`, included.
    pub const TTL_BOUNDS: [Duration; 8] = [
        Duration::from_millis(10),
        Duration::from_millis(20),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(200),
        Duration::from_millis(500),
        Duration::from_millis(1_000),
        Duration::from_millis(2_000),
    ];

    pub(super) fn count_ttl(&mut self, ttl: Duration) {
        self.ttl[Self::TTL_BOUNDS.partition_point(|bound| *bound < ttl)] += 1;
        self.ttl_sum = self.ttl_sum.saturating_add(ttl);
    }

    /// Those that ended while their attempts went on.
    pub(super) fn lapsed(&self) -> u64 {
        self.expired + self.handed_over + self.dropped
    }
}

impl<'a> Sum<&'a Self> for ReservationCounts {
    /// Of several cores.
    fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            created: sum.created + one.created,
            expired: sum.expired + one.expired,
            released: sum.released + one.released,
            dropped: sum.dropped + one.dropped,
            handed_over: sum.handed_over + one.handed_over,
            pending: sum.pending + one.pending,
            ttl: array::from_fn(|bucket| sum.ttl[bucket] + one.ttl[bucket]),
            ttl_sum: sum.ttl_sum.saturating_add(one.ttl_sum),
        })
    }
}
