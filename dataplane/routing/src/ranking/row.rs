//! The first ranks of one slot, and how they are found in one pass over the clusters.

use super::score::{Draw, SlotHash};
use crate::{Cluster, ClusterIndex, RendezvousWeight};

/// Positions of the first [`Row::LEN`] clusters of a slot's ranking, in its order; fewer where fewer have a
/// weight. 16 bytes: four rows a cache line, none across two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(16))]
pub(super) struct Row([u16; Row::LEN]);

/// What ranks a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) id_hash: u64,
    /// 0 where the cluster has none, and so no rank.
    pub(super) weight: f64,
}

/// Keeps the best of what it is offered. Places that are not taken score less than anything, so that nothing
/// here branches on how many are: what is offered comes in random order, and a branch on it would be
/// mispredicted half of the time.
pub(super) struct Best {
    scores: [f64; Row::LEN],
    row: Row,
}

// === impl Row ===

impl Row {
    /// How many ranks a row holds.
    pub(super) const LEN: usize = 8;

    /// Positions are below this, which stands for none. Clusters of a target beyond that many have no rank.
    pub(super) const POSITIONS_MAX: usize = u16::MAX as usize;

    pub(super) const EMPTY: Self = Self([u16::MAX; Self::LEN]);

    /// Ranks a slot.
    pub(super) fn rank(slot: SlotHash, candidates: impl Iterator<Item = Candidate>) -> Self {
        let mut best = Best::new();
        for (position, candidate) in (0..Self::POSITIONS_MAX).zip(candidates) {
            best.offer(slot, position as u16, candidate);
        }
        best.row
    }

    /// The cluster of a rank, counted from 0.
    pub(super) fn get(&self, rank: usize) -> Option<ClusterIndex> {
        self.0
            .get(rank)
            .filter(|position| **position != u16::MAX)
            .map(|position| ClusterIndex((*position).into()))
    }

    /// Whether there may be more ranks than these.
    pub(super) fn is_full(&self) -> bool {
        self.0[Self::LEN - 1] != u16::MAX
    }

    /// The clusters in order.
    pub(super) fn clusters(&self) -> impl Iterator<Item = ClusterIndex> {
        let positions = self.0.iter().take_while(|position| **position != u16::MAX);
        positions.map(|position| ClusterIndex((*position).into()))
    }

    /// The row of these clusters once each is at the position that `moved` tells of it.
    pub(super) fn map(&self, moved: impl Fn(u16) -> u16) -> Self {
        Self(self.0.map(|position| if position == u16::MAX { position } else { moved(position) }))
    }
}

// === impl Candidate ===

impl Candidate {
    pub(super) fn of(cluster: &Cluster, weight: RendezvousWeight) -> Self {
        Self { id_hash: cluster.id_hash, weight: cluster.rendezvous.get(weight).unwrap_or(0.0) }
    }

    pub(super) fn score(self, slot: SlotHash) -> f64 {
        Draw::new(slot, self.id_hash).score(self.weight)
    }

    /// False only when its score is below `floor`.
    pub(super) fn may_reach(self, slot: SlotHash, floor: f64) -> bool {
        Draw::new(slot, self.id_hash).may_reach(floor, self.weight)
    }
}

// === impl Best ===

impl Best {
    pub(super) fn new() -> Self {
        Self { scores: [f64::NEG_INFINITY; Row::LEN], row: Row::EMPTY }
    }

    /// The row that these ranks make, which are fewer than a row's and in order already.
    pub(super) fn of_ranked(slot: SlotHash, ranked: impl Iterator<Item = (u16, Candidate)>) -> Self {
        let mut best = Self::new();
        for (rank, (position, candidate)) in ranked.take(Row::LEN).enumerate() {
            best.scores[rank] = candidate.score(slot);
            best.row.0[rank] = position;
        }
        best
    }

    /// Takes a candidate that it does not hold.
    #[inline]
    pub(super) fn offer(&mut self, slot: SlotHash, position: u16, candidate: Candidate) {
        let draw = Draw::new(slot, candidate.id_hash);
        if candidate.weight > 0.0 && draw.may_reach(self.scores[Row::LEN - 1], candidate.weight) {
            self.insert(draw.score(candidate.weight), position);
        }
    }

    #[inline]
    fn insert(&mut self, score: f64, position: u16) {
        let is_ahead = |rank: usize| is_ahead((self.scores[rank], self.row.0[rank]), (score, position));
        let at: usize = (0..Row::LEN).map(|rank| usize::from(is_ahead(rank))).sum();
        for rank in (1..Row::LEN).rev() {
            let source = rank - usize::from(rank > at);
            self.scores[rank] = self.scores[source];
            self.row.0[rank] = self.row.0[source];
        }
        if at < Row::LEN {
            self.scores[at] = score;
            self.row.0[at] = position;
        }
    }

    pub(super) fn row(&self) -> Row {
        self.row
    }

    pub(super) fn holds(&self, position: u16) -> bool {
        self.row.0.contains(&position)
    }

    /// Score and position of the last rank of a full row.
    pub(super) fn last(&self) -> Option<(f64, u16)> {
        self.row.is_full().then(|| (self.scores[Row::LEN - 1], self.row.0[Row::LEN - 1]))
    }
}

/// Whether a (score, position) is ranked before another.
#[expect(clippy::needless_bitwise_bool, reason = "branches on scores are mispredicted")]
pub(super) fn is_ahead<P: Ord + Copy>(a: (f64, P), b: (f64, P)) -> bool {
    (a.0 > b.0) | ((a.0 >= b.0) & (a.1 < b.1))
}

#[cfg(test)]
mod tests;
