//! The ranking of a target's clusters that an affinity key stands for.
//!
//! A key falls into one of 65 536 slots, and every slot ranks all clusters, each by a score that depends on
//! nothing but the slot, the cluster's id and its weight. So slots fall to clusters in proportion to their
//! weights, and one that leaves or changes moves only the slots that it must (Thaler and Ravishankar, 1998;
//! with weights: Schindelhauer and Schomaker, 2005). Load never enters: where a key goes is decided by where
//! its prefix is cached.
//!
//! As slots are few, their first ranks fit into a table that is made ahead ([`table`]). It is a cache
//! of the function here and nothing more: without one, or for another seed or weight than the table's, a
//! decision ranks directly, remembers the first ranks ([`memo`]), and finds the same. Only clusters with a
//! weight are ranked.

pub(crate) mod fleet;
pub(crate) mod memo;
mod row;
pub(crate) mod score;
pub(crate) mod seed;
pub(crate) mod slot;
pub(crate) mod table;

use self::{
    fleet::Fleet,
    memo::RankingMemo,
    row::{Candidate, Row, is_ahead},
    score::{Base, Draw, SlotHash},
    seed::Seed,
    slot::Slot,
};
use crate::{ClusterIndex, RendezvousWeight, request::eligible::Eligible};

/// The ranking of one slot of a fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRanking<'a> {
    fleet: &'a Fleet<'a>,
    seed: &'a Seed,
    weight: RendezvousWeight,
    slot: Slot,
}

/// The best-ranked of some clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walked {
    pub(crate) cluster: ClusterIndex,
    /// Position in the full ranking, from 1.
    pub(crate) rank: u32,
    /// Whether a better-ranked cluster was eligible, but not feasible.
    pub(crate) after_infeasible: bool,
}

// === impl KeyRanking ===

impl<'a> KeyRanking<'a> {
    pub(crate) fn of(fleet: &'a Fleet<'a>, seed: &'a Seed, weight: RendezvousWeight, slot: Slot) -> Self {
        Self { fleet, seed, weight, slot }
    }

    /// The slot that is ranked.
    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }

    /// All ranked clusters in order. Allocates: for answers, not for decisions.
    pub(crate) fn to_vec(self) -> Vec<ClusterIndex> {
        let mut memo = RankingMemo::default();
        self.first(self.fleet.clusters.len(), &mut memo).to_vec()
    }

    /// The clusters of the first `count` ranks in order, fewer where fewer have a weight.
    ///
    /// Up to [`KeyRanking::FIRST`] they come from the table or the memo in a few nanoseconds; more take a score
    /// of every cluster and a sort of those asked for. Allocates only the first time for a target of this
    /// size.
    pub(crate) fn first<'m>(&self, count: usize, memo: &'m mut RankingMemo) -> &'m [ClusterIndex] {
        let len = self.fleet.clusters.len();
        if count.min(len) <= Self::FIRST {
            let row = self.row(memo);
            // The room for deeper ranks as well: a later one finds it.
            memo.scratch.clear(len);
            memo.scratch.ranks.extend(row.clusters().take(count));
            return &memo.scratch.ranks;
        }
        let scratch = &mut memo.scratch;
        scratch.clear(len);
        let hash = self.hash();
        scratch.scored.extend(
            self.candidates()
                .enumerate()
                .filter(|(_, candidate)| candidate.weight > 0.0)
                .map(|(index, candidate)| (candidate.score(hash), index)),
        );
        let by_rank = |a: &(f64, usize), b: &(f64, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if count < scratch.scored.len() {
            scratch.scored.select_nth_unstable_by(count, by_rank);
            scratch.scored.truncate(count);
        }
        scratch.scored.sort_unstable_by(by_rank);
        scratch.ranks.extend(scratch.scored.iter().map(|(_, index)| ClusterIndex(*index)));
        &scratch.ranks
    }

    /// The position of a cluster in the full ranking, from 1; `None` when it has no weight. One pass over
    /// the clusters.
    pub(crate) fn rank_of(&self, cluster: ClusterIndex) -> Option<u32> {
        let hash = self.hash();
        let score = self.score_from(f64::NEG_INFINITY, hash, cluster.0)?;
        let ahead = (0..self.ranked_end()).filter(|index| self.is_ahead(hash, *index, (score, cluster.0)));
        Some(1 + ahead.count() as u32)
    }

    /// The best-ranked cluster that is eligible and feasible.
    pub(crate) fn walk(
        &self,
        eligible: &Eligible,
        is_feasible: impl Fn(ClusterIndex) -> bool,
        memo: &mut RankingMemo,
    ) -> Option<Walked> {
        let row = self.row(memo);
        let mut after_infeasible = false;
        for (cluster, rank) in row.clusters().zip(1..) {
            if eligible.has(cluster) {
                if is_feasible(cluster) {
                    return Some(Walked { cluster, rank, after_infeasible });
                }
                after_infeasible = true;
            }
        }
        if row.is_full() { self.walk_all(eligible, is_feasible) } else { None }
    }

    /// What [`Self::walk`] comes to, found from nothing but scores in two passes over the clusters whatever stands in the way.
    fn walk_all(&self, eligible: &Eligible, is_feasible: impl Fn(ClusterIndex) -> bool) -> Option<Walked> {
        let hash = self.hash();
        let (mut first, mut first_score) = (None, f64::NEG_INFINITY);
        for index in eligible.indices().take_while(|index| *index < self.ranked_end()) {
            // Clusters come in the order of their ids, so that the first of equals stays ahead.
            if let Some(score) =
                self.score_from(first_score, hash, index).filter(|score| *score > first_score)
                && is_feasible(ClusterIndex(index))
            {
                (first, first_score) = (Some(index), score);
            }
        }
        let first = first?;
        let rank = self.rank_of(ClusterIndex(first))?;
        // Whatever is ahead of it is excluded or infeasible.
        let excluded = eligible.excluded().filter(|index| self.is_ahead(hash, *index, (first_score, first)));
        let after_infeasible = (excluded.count() as u32) < rank - 1;
        Some(Walked { cluster: ClusterIndex(first), rank, after_infeasible })
    }

    fn is_ahead(&self, hash: SlotHash, index: usize, other: (f64, usize)) -> bool {
        self.score_from(other.0, hash, index).is_some_and(|score| is_ahead((score, index), other))
    }

    /// The score of a cluster, unless it has no weight, or scores below `floor`.
    fn score_from(&self, floor: f64, hash: SlotHash, index: usize) -> Option<f64> {
        let cluster = &self.fleet.clusters[index];
        let weight = cluster.rendezvous.get(self.weight)?;
        let draw = Draw::new(hash, cluster.id_hash);
        (index < Row::POSITIONS_MAX && draw.may_reach(floor, weight)).then(|| draw.score(weight))
    }

    fn row(&self, memo: &mut RankingMemo) -> Row {
        match self.fleet.table {
            Some(table) if table.is_for(self.seed, self.weight) => table.row(self.slot),
            _ => memo.row(self.fleet.revision, self.seed, self.weight, self.slot, || {
                Row::rank(self.hash(), self.candidates())
            }),
        }
    }

    fn candidates(&self) -> impl Iterator<Item = Candidate> {
        let clusters = &self.fleet.clusters[..self.ranked_end()];
        clusters.iter().map(|cluster| Candidate::of(cluster, self.weight))
    }

    fn ranked_end(&self) -> usize {
        self.fleet.clusters.len().min(Row::POSITIONS_MAX)
    }

    fn hash(&self) -> SlotHash {
        Base::new(self.seed, self.fleet.name).slot(self.slot)
    }
}

impl KeyRanking<'_> {
    /// Ranks that cost next to nothing.
    pub(crate) const FIRST: usize = Row::LEN;
}

#[cfg(test)]
mod tests;
