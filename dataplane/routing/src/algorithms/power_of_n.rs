//! power-of-n: a few clusters sampled uniformly, the best of them taken.
//!
//! Looking at two instead of one already removes nearly all imbalance, and unlike looking at all it does
//! not send every gateway to the one cluster whose last report was best (Mitzenmacher, "The Power of Two
//! Choices in Randomized Load Balancing", 2001).

use crate::{
    Cluster, EffectiveStats, PowerOfNParameters, RoutingRequest,
    core_loads::Unflushed,
    request::eligible::Eligible,
    selection::{Picked, SetKind, comparator::Best, sample::DistinctSample, trace::Trace},
};

/// The best of `sample_count` eligible clusters; `None` when none is eligible.
pub(crate) fn choose(
    clusters: &[Cluster],
    eligible: &Eligible,
    parameters: &PowerOfNParameters,
    request: &RoutingRequest<'_>,
    unflushed: &Unflushed,
    rng: &mut fastrand::Rng,
    trace: &mut impl Trace,
) -> Option<Picked> {
    let PowerOfNParameters { sample_count, comparator } = *parameters;
    let mut best = Best::new();
    let mut sample = DistinctSample::new(eligible.count(), sample_count);
    while let Some(rank) = sample.next(rng) {
        let index = eligible.nth(rank);
        let cluster = &clusters[index.0];
        let load = unflushed.read(&cluster.load, &cluster.stats, request.priority);
        let stats = EffectiveStats::with_load(&cluster.stats, load, request.priority);
        let cost = comparator.cost(&stats, request, 1.0);
        trace.samples(SetKind::Open, index, cost);
        best.offer(Picked { cluster: index, seen: load.sent.attempts }, cost, rng);
    }
    best.winner()
}

#[cfg(test)]
mod tests;
