//! pulsar: the first eligible cluster of the key's weighted rendezvous ranking, so that a key stays with the
//! cluster that has its prefix cached, whatever the load.

use crate::{
    ClusterIndex, DecisionState, PulsarParameters, RoutingRequest, SampleCount, Target, decide::Choice,
    eligible::Eligible, power_of_n, ranking::Ranking,
};

/// `None` when no cluster that is left has a weight and, where they count, enough free KV tokens.
pub(crate) fn choose(
    target: &Target,
    eligible: &Eligible,
    parameters: &PulsarParameters,
    request: &RoutingRequest<'_>,
    state: &mut DecisionState,
) -> Option<Choice> {
    let Some(affinity_key) = request.affinity_key else {
        let (comparator, rng) = (parameters.comparator, &mut state.rng);
        return power_of_n::choose(&target.clusters, eligible, SampleCount::TWO, comparator, request, rng)
            .map(Choice::unranked);
    };
    let is_feasible = |cluster: ClusterIndex| {
        let free = target.clusters[cluster.0].stats.kv_free_tokens();
        !parameters.consider_kv_free_tokens || free.is_some_and(|free| free >= request.input_tokens)
    };
    let ranking = Ranking::new(target, &parameters.seed, parameters.weight, affinity_key);
    let walked = ranking.walk(eligible, is_feasible, &mut state.rankings)?;
    Some(Choice { cluster: walked.cluster, rank: walked.rank, after_kv_skip: walked.after_infeasible })
}

#[cfg(test)]
mod tests;
