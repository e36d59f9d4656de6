//! pulsar: the first eligible cluster of the key's weighted rendezvous ranking, so that a key stays with the
//! cluster that has its prefix cached, whatever the load.

use super::{
    power_of_n::{self, PowerOfNParameters},
    question::Question,
    workspace::Workspace,
};
use crate::{
    ClusterIndex, RendezvousWeight, Seed, Slot,
    fields::{
        configured::{Configured, its_own_draft},
        field::{Field, Place},
    },
    ranking::KeyRanking,
    selection::{
        choice::{Choice, NoChoice},
        comparator::Comparator,
        sample::SampleCount,
        trace::Trace,
    },
};

/// Parameters of pulsar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PulsarParameters {
    /// Enters every ranking hash: another seed is another ranking.
    pub seed: Seed,
    /// What a cluster's share of keys is proportional to.
    pub weight: RendezvousWeight,
    /// Whether a cluster without enough reported free KV tokens is walked past.
    pub consider_kv_free_tokens: bool,
    /// Decides for requests that have no affinity key, and so no ranking: a sample of two by this
    /// comparator, among all clusters that are not excluded, whatever their weight and free KV tokens.
    pub comparator: Comparator,
}

/// None is, when no cluster that is left has a weight and, where they count, enough free KV tokens.
pub(crate) fn choose(
    question: &Question<'_>,
    parameters: &PulsarParameters,
    work: &mut Workspace,
    trace: &mut impl Trace,
) -> Result<Choice, NoChoice> {
    let Question { ref fleet, eligible, request, .. } = *question;
    let Some(affinity_key) = request.affinity_key else {
        let two = PowerOfNParameters { sample_count: SampleCount::TWO, comparator: parameters.comparator };
        return power_of_n::choose(question, &two, &mut work.rng, trace);
    };
    let is_feasible = |cluster: ClusterIndex| {
        !parameters.consider_kv_free_tokens
            || fleet.clusters[cluster.0].stats.has_kv_for(request.input_tokens)
    };
    let ranking = KeyRanking::of(fleet, &parameters.seed, parameters.weight, Slot::of(affinity_key));
    let walked = ranking.walk(eligible, is_feasible, &mut work.rankings).ok_or(NoChoice::NONE_ELIGIBLE)?;
    Ok(Choice {
        rank: walked.rank,
        is_fallback: walked.rank > 1,
        after_kv_skip: walked.after_infeasible,
        ..Choice::whatever_its_load(walked.cluster)
    })
}

// === impl PulsarParameters ===

impl Configured for PulsarParameters {
    its_own_draft!(Self);

    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "seed", place: Place::Text { at: |parameters| &mut parameters.seed } },
        Field { name: "rendezvous_weight", place: Place::Word { at: |parameters| &mut parameters.weight } },
        Field {
            name: "consider_kv_free_tokens",
            place: Place::Flag { at: |parameters| &mut parameters.consider_kv_free_tokens },
        },
        Field { name: "comparator", place: Place::Word { at: |parameters| &mut parameters.comparator } },
    ];
}

#[cfg(test)]
mod tests;
