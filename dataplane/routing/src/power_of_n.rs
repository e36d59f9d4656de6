//! power-of-n: a few clusters sampled uniformly, the best of them taken.
//!
//! Looking at two instead of one already removes nearly all imbalance, and unlike looking at all it does
//! not send every gateway to the one cluster whose last report was best (Mitzenmacher, "The Power of Two
//! Choices in Randomized Load Balancing", 2001).

use crate::{
    Cluster, ClusterIndex, Comparator, EffectiveStats, RoutingRequest, SampleCount, comparator::Best,
    eligible::Eligible, sample::DistinctSample,
};

/// The best of `sample_count` eligible clusters; `None` when none is eligible.
pub(crate) fn choose(
    clusters: &[Cluster],
    eligible: &Eligible,
    sample_count: SampleCount,
    comparator: Comparator,
    request: &RoutingRequest<'_>,
    rng: &mut fastrand::Rng,
) -> Option<ClusterIndex> {
    let mut best = Best::default();
    let mut sample = DistinctSample::new(eligible.count(), sample_count);
    while let Some(rank) = sample.next(rng) {
        let index = eligible.nth(rank);
        let cluster = &clusters[index.0];
        let stats = EffectiveStats::new(&cluster.stats, &cluster.load);
        best.offer(index, comparator.cost(&stats, request), rng);
    }
    best.winner()
}

#[cfg(test)]
mod tests;
