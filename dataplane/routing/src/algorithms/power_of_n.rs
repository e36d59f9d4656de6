//! power-of-n: a few clusters sampled uniformly, the best of them taken.
//!
//! Looking at two instead of one already removes nearly all imbalance, and unlike looking at all it does
//! not send every gateway to the one cluster whose last report was best (Mitzenmacher, "The Power of Two
//! Choices in Randomized Load Balancing", 2001).

use super::question::Question;
use crate::{
    EffectiveStats,
    fields::{
        configured::{Configured, its_own_draft},
        field::{Field, Place},
    },
    selection::{
        candidate::{Picked, SetKind},
        choice::{Choice, NoChoice},
        comparator::{Best, Comparator},
        sample::{DistinctSample, SampleCount},
        trace::Trace,
    },
};

/// Parameters of power-of-n.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PowerOfNParameters {
    /// How many to sample.
    pub sample_count: SampleCount,
    /// Who wins.
    pub comparator: Comparator,
}

/// The best of `sample_count` eligible clusters.
#[inline]
pub(crate) fn choose(
    question: &Question<'_>,
    parameters: &PowerOfNParameters,
    rng: &mut fastrand::Rng,
    trace: &mut impl Trace,
) -> Result<Choice, NoChoice> {
    let Question { fleet, eligible, request, unflushed, .. } = *question;
    let PowerOfNParameters { sample_count, comparator } = *parameters;
    let mut best = Best::new();
    let mut sample = DistinctSample::new(eligible.count(), sample_count);
    while let Some(rank) = sample.next(rng) {
        let index = eligible.nth(rank);
        let cluster = &fleet.clusters[index.0];
        let load = unflushed.read(&cluster.load, &cluster.stats, request.priority);
        let stats = EffectiveStats::with_load(&cluster.stats, load, request.priority);
        let cost = comparator.cost(&stats, request, 1.0);
        trace.samples(SetKind::Open, index, cost);
        best.offer(Picked { cluster: index, seen: load.sent.attempts }, cost, rng);
    }
    best.winner().map(|picked| Choice::selected(picked, 1, false)).ok_or(NoChoice::NONE_ELIGIBLE)
}

// === impl PowerOfNParameters ===

impl Configured for PowerOfNParameters {
    its_own_draft!(Self);

    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "sample_count", place: SampleCount::place(|parameters| &mut parameters.sample_count) },
        Field { name: "comparator", place: Place::Word { at: |parameters| &mut parameters.comparator } },
    ];
}

#[cfg(test)]
mod tests;
