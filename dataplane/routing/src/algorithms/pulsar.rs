//! pulsar: the first eligible cluster of the key's weighted rendezvous ranking, so that a key stays with the
//! cluster that has its prefix cached, whatever the load.

use crate::{
    ClusterIndex, PowerOfNParameters, PulsarParameters, RoutingRequest, SampleCount, Target,
    algorithms::power_of_n,
    core_loads::Unflushed,
    decide::{Choice, state::Workspace},
    ranking::Ranking,
    request::eligible::Eligible,
    selection::trace::Trace,
};

/// `None` when no cluster that is left has a weight and, where they count, enough free KV tokens.
pub(crate) fn choose(
    target: &Target,
    eligible: &Eligible,
    parameters: &PulsarParameters,
    request: &RoutingRequest<'_>,
    unflushed: &Unflushed,
    work: &mut Workspace,
    trace: &mut impl Trace,
) -> Option<Choice> {
    let Some(affinity_key) = request.affinity_key else {
        let rng = &mut work.rng;
        let two = PowerOfNParameters { sample_count: SampleCount::TWO, comparator: parameters.comparator };
        let clusters = &target.clusters[..];
        return power_of_n::choose(clusters, eligible, &two, request, unflushed, rng, trace)
            .map(|picked| Choice::selected(picked, 1, false));
    };
    let is_feasible = |cluster: ClusterIndex| {
        !parameters.consider_kv_free_tokens
            || target.clusters[cluster.0].stats.has_kv_for(request.input_tokens)
    };
    let ranking = Ranking::new(target, &parameters.seed, parameters.weight, affinity_key);
    let walked = ranking.walk(eligible, is_feasible, &mut work.rankings)?;
    Some(Choice {
        cluster: walked.cluster,
        rank: walked.rank,
        is_fallback: walked.rank > 1,
        after_kv_skip: walked.after_infeasible,
        seen: None,
    })
}

#[cfg(test)]
mod tests;
