//! Bands of ranks that open one after the other once the affinity wait is over.
//!
//! Each is twice as wide as the one before: a key whose primary is full spills over few clusters first, whose
//! caches its next requests find warm, and over all of them when that is not enough.

use crate::selection::moment::Moment;

/// When ranks beyond the affinity group open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bands {
    /// Ranks in the affinity group.
    group: usize,
    /// When the first band opens.
    since: Moment,
    /// Between two openings; zero opens all ranks at once.
    interval: Moment,
}

/// A part of a ranking that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenRanks {
    /// How many of the first ranks.
    pub(crate) count: usize,
    /// When more of them open.
    pub(crate) next: Moment,
}

/// Ranks of the first band.
pub(crate) const FIRST_BAND: usize = 2;

/// Openings after which every rank is open, however small the group: a target has at most 65 535 clusters.
const OPENINGS_MAX: u64 = 15;

// === impl Bands ===

impl Bands {
    /// Beyond `group` ranks; the first opens at `since`, and each further one an `interval` later.
    pub(crate) fn new(group: usize, since: Moment, interval: Moment) -> Self {
        Self { group, since, interval }
    }

    /// What is open at `elapsed`, which is not before the first opening, of as many ranks as `ranks` counts;
    /// `None` when all of them are.
    pub(crate) fn open(&self, elapsed: Moment, ranks: impl FnOnce() -> usize) -> Option<OpenRanks> {
        let openings = elapsed.intervals_since(self.since, self.interval)?;
        let count = self.ranks_after(openings);
        if openings >= OPENINGS_MAX || count >= ranks() {
            return None;
        }
        Some(OpenRanks { count, next: self.since.plus_intervals(self.interval, openings + 1) })
    }

    /// The band of a rank, from 1 (0 is the affinity group), and when it opens.
    pub(crate) fn of_rank(&self, rank: usize) -> (u32, Moment) {
        if rank <= self.group {
            return (0, Moment::ZERO);
        }
        if self.interval == Moment::ZERO {
            return (1, self.since);
        }
        let openings = (0..OPENINGS_MAX).find(|openings| self.ranks_after(*openings) >= rank);
        let openings = openings.unwrap_or(OPENINGS_MAX);
        (openings as u32 + 1, self.since.plus_intervals(self.interval, openings))
    }

    /// Ranks that are open after this many openings beyond the first: the group's, and 2 + 4 + 8 + … more.
    fn ranks_after(&self, openings: u64) -> usize {
        let widened = (FIRST_BAND << (openings.min(OPENINGS_MAX) + 1)) - FIRST_BAND;
        self.group.saturating_add(widened)
    }
}

#[cfg(test)]
mod tests;
