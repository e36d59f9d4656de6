//! The one decision function.

use crate::{
    Algorithm, ClusterIndex, Decision, DecisionState, EffectiveStats, Exclusions, PowerOfNParameters,
    RoutingRequest, Selected, Target, UnavailableReason, backend, eligible::Eligible, power_of_n, pulsar,
    random, round_robin,
};

/// A cluster that an algorithm settled on, and how it came there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) cluster: ClusterIndex,
    pub(crate) rank: u32,
    pub(crate) after_kv_skip: bool,
}

/// Chooses by `algorithm` a cluster of `target` and a backend inside it. Allocates nothing.
///
/// What it chose is not counted as load: the caller does that ([`crate::ClusterLoad::enter`]), before the
/// next decision.
pub fn decide(
    target: &Target,
    algorithm: &Algorithm,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    state: &mut DecisionState,
) -> Decision {
    match select(target, algorithm, request, exclusions, state) {
        Ok(selected) => Decision::Selected(selected),
        Err(reason) => Decision::Unavailable(reason),
    }
}

fn select(
    target: &Target,
    algorithm: &Algorithm,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    state: &mut DecisionState,
) -> Result<Selected, UnavailableReason> {
    let clusters = &target.clusters[..];
    if clusters.is_empty() {
        return Err(UnavailableReason::NoActiveBackend);
    }
    let eligible = Eligible::new(clusters, exclusions);
    if eligible.count() == 0 {
        return Err(UnavailableReason::AllExcluded);
    }
    let choice = match algorithm {
        Algorithm::PowerOfN(PowerOfNParameters { sample_count, comparator }) => {
            power_of_n::choose(clusters, &eligible, *sample_count, *comparator, request, &mut state.rng)
                .map(Choice::unranked)
        }
        Algorithm::RoundRobin => round_robin::choose(&target.round_robin, &eligible).map(Choice::unranked),
        Algorithm::Random => random::choose(&eligible, &mut state.rng).map(Choice::unranked),
        Algorithm::Pulsar(parameters) => pulsar::choose(target, &eligible, parameters, request, state),
        // Until they are there; nothing selects them yet.
        Algorithm::WaitAndWiden(_) | Algorithm::PulsarWaitAndWiden(_) => {
            return Err(UnavailableReason::NoEligibleCandidate);
        }
    };
    let choice = choice.ok_or(UnavailableReason::NoEligibleCandidate)?;
    let cluster = &clusters[choice.cluster.0];
    // An eligible cluster has a backend left, unless the snapshot held one without any.
    let backend = backend::choose(cluster, exclusions).ok_or(UnavailableReason::NoActiveBackend)?;
    Ok(Selected {
        cluster: choice.cluster,
        backend: backend.clone(),
        rank: choice.rank,
        is_fallback: choice.rank > 1,
        after_kv_skip: choice.after_kv_skip,
        queue_delay: EffectiveStats::new(&cluster.stats, &cluster.load)
            .queue_delay(request.priority)
            .to_duration(),
    })
}

// === impl Choice ===

impl Choice {
    /// The choice of an algorithm that has no ranking.
    pub(crate) fn unranked(cluster: ClusterIndex) -> Self {
        Self { cluster, rank: 1, after_kv_skip: false }
    }
}

#[cfg(test)]
mod tests;
