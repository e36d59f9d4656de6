//! Buckets of times to first token, that open one after the other while a request waits.
//!
//! Candidates of about the same time share a bucket, so that load spreads over them; a slower bucket opens
//! when what it costs more has partly been spent on waiting anyway. A bucket's wait is the unlock factor times
//! the sum of the gaps before it, which is that times the distance of its start from the fastest time: buckets
//! need not be listed to know when one opens, and are walked only as far as they are open.

use std::ops::ControlFlow;

use super::{
    moment::{BucketTtft, Moment},
    widening::Widening,
};

/// The buckets of one set of candidates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buckets {
    /// The least time of all candidates, where the first bucket starts.
    fastest: BucketTtft,
    size: BucketTtft,
    unlock_factor: f64,
    /// When waiting began.
    since: Moment,
}

/// One bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    /// The time of its fastest candidate.
    pub(crate) start: BucketTtft,
    /// No candidate of it takes longer.
    pub(crate) end: BucketTtft,
    /// From when on it is open; [`Moment::NEVER`] for one that does not open.
    pub(crate) unlocks_at: Moment,
}

/// Passes over unsorted times that cost less than sorting them.
const PASSES_MAX: usize = 4;

// === impl Buckets ===

impl Buckets {
    /// Buckets of candidates of which the fastest takes `fastest`, waited for from `since` on.
    pub(crate) fn new(widening: &Widening, fastest: BucketTtft, since: Moment) -> Self {
        Self {
            fastest,
            size: widening.ttft_bucket_size.into(),
            unlock_factor: widening.next_bucket_unlock_factor,
            since,
        }
    }

    /// The time up to which candidates are unlocked at `elapsed`. The slowest of `times` is `slowest`.
    pub(crate) fn opened(
        &self,
        elapsed: Moment,
        slowest: BucketTtft,
        times: impl Iterator<Item = BucketTtft> + Clone,
        sorted: &mut Vec<BucketTtft>,
    ) -> BucketTtft {
        let mut through = self.bucket(self.fastest).end;
        // No bucket starts, and so none opens, later than at the slowest time.
        if slowest <= through || self.unlocks_at(slowest) <= elapsed {
            return BucketTtft::INFINITE;
        }
        // Mostly not even a bucket that started right after an open one would be open: then the next need not
        // be found.
        let may_follow = |end: BucketTtft| self.unlocks_at(end + BucketTtft::STEP) <= elapsed;
        if !may_follow(through) {
            return through;
        }
        self.walk(times, sorted, |bucket| {
            if bucket.unlocks_at > elapsed {
                return ControlFlow::Break(());
            }
            through = bucket.end;
            if may_follow(through) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        through
    }

    /// When the first bucket opens that is beyond `through`; `None` when there is none that ever does.
    pub(crate) fn next_unlock(
        &self,
        through: BucketTtft,
        times: impl Iterator<Item = BucketTtft>,
    ) -> Option<Moment> {
        let start = next_start(through, times)?;
        Some(self.unlocks_at(start)).filter(|unlock| *unlock < Moment::NEVER)
    }

    /// Visits the buckets of `times`, in order.
    pub(crate) fn walk(
        &self,
        times: impl Iterator<Item = BucketTtft> + Clone,
        sorted: &mut Vec<BucketTtft>,
        mut visit: impl FnMut(Bucket) -> ControlFlow<()>,
    ) {
        let mut end = BucketTtft::ZERO;
        let mut next = Some(self.fastest);
        for _ in 0..PASSES_MAX {
            let Some(start) = next else { return };
            let bucket = self.bucket(start);
            end = bucket.end;
            if visit(bucket).is_break() {
                return;
            }
            next = next_start(end, times.clone());
        }
        if next.is_none() {
            return;
        }
        sorted.clear();
        sorted.extend(times.filter(|time| *time > end));
        sorted.sort_unstable_by(|a, b| a.total_cmp(*b));
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

    /// The bucket that starts at a time. What is infinite never shares a bucket with what is not.
    fn bucket(&self, start: BucketTtft) -> Bucket {
        Bucket { start, end: start + self.size, unlocks_at: self.unlocks_at(start) }
    }

    fn unlocks_at(&self, start: BucketTtft) -> Moment {
        if start == self.fastest || self.unlock_factor == 0.0 {
            self.since
        } else if start.is_finite() {
            self.since.after(self.unlock_factor, start.above(self.fastest))
        } else {
            Moment::NEVER
        }
    }
}

/// The least time beyond `end`.
fn next_start(end: BucketTtft, times: impl Iterator<Item = BucketTtft>) -> Option<BucketTtft> {
    times.filter(|time| *time > end).reduce(BucketTtft::min)
}

#[cfg(test)]
mod tests;
