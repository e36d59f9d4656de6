//! The first ranks of every slot of a target, made ahead of the decisions that look them up.
//!
//! A megabyte a target, shared by successive snapshots for as long as no cluster comes, goes or changes its
//! weight. After such a change only the rows that it touches are ranked anew: with 20 clusters about two
//! fifths, with 1000 about one in a hundred.

use std::sync::Arc;

use super::{
    row::{Best, Candidate, Row},
    score::{Base, SlotHash},
    slot::Slot,
};
use crate::{Cluster, ClusterIndex, RendezvousWeight, Seed, TargetName};

/// The first ranks of every slot under one seed and weight.
#[derive(Debug, PartialEq)]
pub struct RankingTable {
    seed: Seed,
    weight: RendezvousWeight,
    base: Base,
    /// Ids of the clusters at their positions.
    ids: Box<[Arc<str>]>,
    /// What they were ranked by.
    candidates: Box<[Candidate]>,
    rows: Box<[Row]>,
    /// Slots that each has the first rank of.
    first_ranks: Box<[u32]>,
}

/// From the clusters of one table to those of the next.
struct Change<'a> {
    before: &'a [Candidate],
    after: &'a [Candidate],
    /// Where a cluster is now that kept its weight; `None` when it is gone or did not.
    kept: Vec<Option<u16>>,
    /// Positions now of those that are new or have another weight, as far as they have one.
    changed: Vec<u16>,
    is_in_place: bool,
}

// === impl RankingTable ===

impl RankingTable {
    /// Ranks every slot of the target of this name.
    pub fn build(target: &TargetName, seed: &Seed, weight: RendezvousWeight, clusters: &[Cluster]) -> Self {
        Self::build_rows(target, seed, weight, clusters, Slot::COUNT)
    }

    fn build_rows(
        target: &TargetName,
        seed: &Seed,
        weight: RendezvousWeight,
        clusters: &[Cluster],
        rows: usize,
    ) -> Self {
        let base = Base::new(seed, target);
        let candidates = candidates(clusters, weight);
        let rows = slots(rows).map(|slot| Row::rank(base.slot(slot), candidates.iter().copied())).collect();
        Self::of_rows(seed.clone(), weight, base, clusters, candidates, rows)
    }

    /// The table for what `clusters` are now: as if built for them.
    #[must_use]
    pub fn updated(&self, clusters: &[Cluster]) -> Self {
        let candidates = candidates(clusters, self.weight);
        let change = Change::new(&self.ids, &self.candidates, clusters, &candidates);
        let rows = if change.is_large() {
            slots(self.rows.len())
                .map(|slot| Row::rank(self.base.slot(slot), candidates.iter().copied()))
                .collect()
        } else {
            slots(self.rows.len())
                .zip(&self.rows)
                .map(|(slot, row)| change.apply(self.base.slot(slot), *row))
                .collect()
        };
        Self::of_rows(self.seed.clone(), self.weight, self.base, clusters, candidates, rows)
    }

    fn of_rows(
        seed: Seed,
        weight: RendezvousWeight,
        base: Base,
        clusters: &[Cluster],
        candidates: Box<[Candidate]>,
        rows: Box<[Row]>,
    ) -> Self {
        let mut first_ranks = vec![0; candidates.len()].into_boxed_slice();
        for first in rows.iter().filter_map(|row| row.get(0)) {
            first_ranks[first.0] += 1;
        }
        let ids = clusters[..candidates.len()].iter().map(|cluster| cluster.cluster_id.clone()).collect();
        Self { seed, weight, base, ids, candidates, rows, first_ranks }
    }

    /// Whether it holds the rankings of this seed and weight.
    pub fn is_for(&self, seed: &Seed, weight: RendezvousWeight) -> bool {
        self.seed.hash() == seed.hash() && self.weight == weight
    }

    /// Whether it holds the rankings of this target as long as these are its clusters.
    pub(crate) fn is_of(&self, target: &TargetName, clusters: &[Cluster]) -> bool {
        self.base == Base::new(&self.seed, target)
            && self.candidates.len() == clusters.len().min(Row::POSITIONS_MAX)
            && clusters
                .iter()
                .zip(&self.candidates)
                .all(|(cluster, candidate)| *candidate == Candidate::of(cluster, self.weight))
    }

    /// How many slots it ranks.
    pub fn slots(&self) -> usize {
        self.rows.len()
    }

    /// What it takes, without the ids, which the clusters own.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.rows)
            + size_of_val(&*self.ids)
            + size_of_val(&*self.candidates)
            + size_of_val(&*self.first_ranks)
    }

    /// Slots that the cluster has the first rank of.
    pub fn first_ranks(&self, cluster: ClusterIndex) -> usize {
        self.first_ranks.get(cluster.0).map_or(0, |count| *count as usize)
    }

    /// Slots that the cluster would have the first rank of if shares followed weights exactly.
    pub fn fair_share(&self, cluster: ClusterIndex) -> f64 {
        let whole: f64 = self.candidates.iter().map(|candidate| candidate.weight).sum();
        let weight = self.candidates.get(cluster.0).map_or(0.0, |candidate| candidate.weight);
        if weight > 0.0 { self.rows.len() as f64 * (weight / whole) } else { 0.0 }
    }

    /// The largest deviation of a cluster's first ranks from its fair share, relative to that share; 0 when
    /// none has a weight.
    pub fn share_deviation(&self) -> f64 {
        let whole: f64 = self.candidates.iter().map(|candidate| candidate.weight).sum();
        let shares = self.candidates.iter().zip(&self.first_ranks);
        shares
            .filter(|(candidate, _)| candidate.weight > 0.0)
            .map(|(candidate, count)| {
                let fair = self.rows.len() as f64 * (candidate.weight / whole);
                (f64::from(*count) - fair).abs() / fair
            })
            .fold(0.0, f64::max)
    }

    pub(super) fn row(&self, slot: Slot) -> Row {
        self.rows[slot.number() as usize]
    }
}

fn candidates(clusters: &[Cluster], weight: RendezvousWeight) -> Box<[Candidate]> {
    clusters.iter().take(Row::POSITIONS_MAX).map(|cluster| Candidate::of(cluster, weight)).collect()
}

fn slots(count: usize) -> impl ExactSizeIterator<Item = Slot> {
    (0..count).map(|number| Slot(number as u16))
}

// === impl Change ===

impl<'a> Change<'a> {
    fn new(
        ids_before: &[Arc<str>],
        before: &'a [Candidate],
        clusters: &[Cluster],
        after: &'a [Candidate],
    ) -> Self {
        let mut kept = vec![None; before.len()];
        let mut changed = Vec::new();
        // Both are ordered by id.
        let mut old = 0;
        for (new, (candidate, cluster)) in after.iter().zip(clusters).enumerate() {
            while ids_before.get(old).is_some_and(|id| *id < cluster.cluster_id) {
                old += 1;
            }
            let is_known = ids_before.get(old).is_some_and(|id| *id == cluster.cluster_id);
            if is_known && before[old] == *candidate {
                kept[old] = Some(new as u16);
            } else if candidate.weight > 0.0 {
                changed.push(new as u16);
            }
        }
        let is_in_place = before.len() == after.len()
            && kept.iter().enumerate().all(|(old, new)| new.is_none_or(|new| usize::from(new) == old));
        Self { before, after, kept, changed, is_in_place }
    }

    /// Whether ranking everything anew costs no more.
    fn is_large(&self) -> bool {
        let lost = self.kept.iter().filter(|kept| kept.is_none()).count();
        (lost + self.changed.len()) * 2 > self.after.len()
    }

    /// The row of a slot after the change.
    fn apply(&self, slot: SlotHash, row: Row) -> Row {
        let is_whole = row.clusters().all(|cluster| self.kept[cluster.0].is_some());
        if is_whole && self.changed.is_empty() {
            return self.moved(row);
        }
        // What is not in the row scores no more than its last; of what is not full, nothing is left out.
        let last = row.get(Row::LEN - 1);
        let floor = last.map_or(f64::NEG_INFINITY, |last| self.before[last.0].score(slot));
        let after = |position: u16| self.after[usize::from(position)];
        let mut comers =
            self.changed.iter().filter(|position| after(**position).may_reach(slot, floor)).peekable();
        if is_whole && comers.peek().is_none() {
            return self.moved(row);
        }
        let kept = row.clusters().filter_map(|cluster| self.kept[cluster.0]);
        let mut best = Best::of_ranked(slot, kept.map(|position| (position, after(position))));
        for position in comers {
            best.offer(slot, *position, after(*position));
        }
        let is_exact = last.is_none_or(|last| {
            best.last().is_some_and(|(score, position)| score > floor || self.kept[last.0] == Some(position))
        });
        if !is_exact {
            // Something that was not in the row may have moved up.
            for (position, candidate) in (0..).zip(self.after) {
                if !best.holds(position) {
                    best.offer(slot, position, *candidate);
                }
            }
        }
        best.row()
    }

    /// The row of the same clusters.
    fn moved(&self, row: Row) -> Row {
        if self.is_in_place { row } else { row.map(|old| self.kept[usize::from(old)].unwrap_or(old)) }
    }
}

#[cfg(test)]
mod tests;
