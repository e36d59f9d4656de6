//! power-of-n: a few clusters sampled uniformly, the best of them taken.
//!
//! Looking at two instead of one already removes nearly all imbalance, and unlike looking at all it does
//! not send every gateway to the one cluster whose last report was best (Mitzenmacher, "The Power of Two
//! Choices in Randomized Load Balancing", 2001).

use crate::{
    Cluster, Comparator, EffectiveStats, RoutingRequest, SampleCount,
    comparator::Best,
    eligible::Eligible,
    sample::DistinctSample,
    selection::{Picked, SetKind},
    trace::Trace,
};

/// The best of `sample_count` eligible clusters; `None` when none is eligible.
pub(crate) fn choose(
    clusters: &[Cluster],
    eligible: &Eligible,
    sample_count: SampleCount,
    comparator: Comparator,
    request: &RoutingRequest<'_>,
    rng: &mut fastrand::Rng,
    trace: &mut impl Trace,
) -> Option<Picked> {
    let mut best = Best::new();
    let mut sample = DistinctSample::new(eligible.count(), sample_count);
    while let Some(rank) = sample.next(rng) {
        let index = eligible.nth(rank);
        let cluster = &clusters[index.0];
        let load = cluster.load.read();
        let cost = comparator.cost(&EffectiveStats::with_load(&cluster.stats, load), request, 1.0);
        trace.samples(SetKind::Open, index, cost);
        best.offer(Picked { cluster: index, load }, cost, rng);
    }
    best.winner()
}

#[cfg(test)]
mod tests;
