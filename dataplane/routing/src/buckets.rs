//! Buckets of times to first token, that open one after the other while a request waits.
//!
//! Candidates of about the same time share a bucket, so that load spreads over them; a slower bucket opens
//! when what it costs more has partly been spent on waiting anyway. A bucket's wait is the unlock factor times
//! the sum of the gaps before it, which is that times the distance of its start from the fastest time: buckets
//! need not be listed to know when one opens, and are walked only as far as they are open.

use std::ops::ControlFlow;

use crate::{Widening, moment::Moment};

/// The buckets of one set of candidates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buckets {
    /// The least time of all candidates, where the first bucket starts.
    fastest: Moment,
    size: Moment,
    unlock_factor: f64,
    /// When waiting began.
    since: Moment,
}

/// How far buckets are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Candidates up to this time are unlocked.
    pub(crate) through: Moment,
    /// When the next bucket opens; `None` when none is locked that ever does.
    pub(crate) next_unlock: Option<Moment>,
}

/// One bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// The time of its fastest candidate.
    pub(crate) start: Moment,
    /// No candidate of it takes longer.
    pub(crate) end: Moment,
    /// From when on it is open; [`Moment::NEVER`] for one that does not open.
    pub(crate) unlocks_at: Moment,
}

/// Passes over unsorted times that cost less than sorting them.
const PASSES_MAX: usize = 4;

// === impl Buckets ===

impl Buckets {
    /// Buckets of candidates of which the fastest takes `fastest`, waited for from `since` on.
    pub(crate) fn new(widening: &Widening, fastest: Moment, since: Moment) -> Self {
        Self {
            fastest,
            size: widening.ttft_bucket_size.into(),
            unlock_factor: widening.next_bucket_unlock_factor,
            since,
        }
    }

    /// How far the buckets of `times` are open at `elapsed`. The slowest of the times is `slowest`.
    pub(crate) fn opened(
        &self,
        elapsed: Moment,
        slowest: Moment,
        times: impl Iterator<Item = Moment> + Clone,
        sorted: &mut Vec<Moment>,
    ) -> Opened {
        let mut opened = Opened { through: Moment::NEVER, next_unlock: None };
        // No bucket starts, and so none opens, later than at the slowest time.
        if slowest <= self.bucket(self.fastest).end || self.unlocks_at(slowest) <= elapsed {
            return opened;
        }
        self.walk(times, sorted, |bucket| {
            if bucket.unlocks_at <= elapsed {
                opened.through = bucket.end;
                return ControlFlow::Continue(());
            }
            opened.next_unlock = Some(bucket.unlocks_at).filter(|unlock| *unlock < Moment::NEVER);
            ControlFlow::Break(())
        });
        opened
    }

    /// Visits the buckets of `times`, in order.
    pub(crate) fn walk(
        &self,
        times: impl Iterator<Item = Moment> + Clone,
        sorted: &mut Vec<Moment>,
        mut visit: impl FnMut(Bucket) -> ControlFlow<()>,
    ) {
        let mut next = Some(self.fastest);
        let mut end = Moment::ZERO;
        for _ in 0..PASSES_MAX {
            let Some(start) = next else { return };
            let bucket = self.bucket(start);
            end = bucket.end;
            if visit(bucket).is_break() {
                return;
            }
            next = times.clone().filter(|time| *time > end).min();
        }
        if next.is_none() {
            return;
        }
        sorted.clear();
        sorted.extend(times.filter(|time| *time > end));
        sorted.sort_unstable();
        for start in sorted.iter().copied() {
            if start <= end {
                continue;
            }
            let bucket = self.bucket(start);
            end = bucket.end;
            if visit(bucket).is_break() {
                return;
            }
        }
    }

    /// The bucket that starts at a time. What has no bound never shares a bucket with what has one.
    fn bucket(&self, start: Moment) -> Bucket {
        let end = if start == Moment::NEVER { start } else { start + self.size };
        Bucket { start, end, unlocks_at: self.unlocks_at(start) }
    }

    fn unlocks_at(&self, start: Moment) -> Moment {
        if start == self.fastest || self.unlock_factor == 0.0 {
            self.since
        } else if start == Moment::NEVER {
            Moment::NEVER
        } else {
            self.since.after(self.unlock_factor, self.fastest, start)
        }
    }
}

#[cfg(test)]
mod tests;
