//! wait-and-widen: buckets of times to first token that open with waiting, behind an affinity group.
//!
//! A key's group of clusters, which have its prefix cached, is tried first at every attempt, and for the
//! affinity wait alone; after that all clusters are.

pub(crate) mod ring;

use crate::{
    ClusterIndex, RoutingRequest, Target, WaitAndWidenParameters,
    core_loads::Unflushed,
    decide::{Choice, NoChoice, state::Workspace},
    request::eligible::Eligible,
    selection::{CandidateSet, Selection, moment::Moment, trace::Trace},
};

/// Chooses among the eligible clusters, of which there is at least one.
pub(crate) fn choose(
    target: &Target,
    eligible: &Eligible,
    parameters: &WaitAndWidenParameters,
    request: &RoutingRequest<'_>,
    unflushed: &Unflushed,
    work: &mut Workspace,
    trace: &mut impl Trace,
) -> Result<Choice, NoChoice> {
    let widening = &parameters.widening;
    let selection = Selection::new(&target.clusters, widening, request, unflushed);
    let Workspace { rng, selection: scratch, rings, .. } = work;
    let mut group_unlock = None;
    let mut since = Moment::ZERO;
    let group_key = request.affinity_key.filter(|_| parameters.affinity_group > 0);
    if let Some(key) = group_key {
        // Membership is fixed before exclusions: a group is not refilled.
        let members = rings.group(target, parameters, key).iter().map(|index| usize::from(*index));
        let members = members.filter(|index| eligible.has(ClusterIndex(*index)));
        let set = CandidateSet::group(widening);
        match selection.select(&set, members, scratch, rng, trace) {
            Ok(picked) => return Ok(Choice::selected(picked, 1, false)),
            Err(none) => {
                since = widening.affinity_wait.into();
                if selection.elapsed < since {
                    return Err(none.hold(since));
                }
                group_unlock = none.next_unlock;
            }
        }
    }
    let set = CandidateSet::open(widening.max_queued, since);
    let is_fallback = group_key.is_some();
    match selection.select(&set, eligible.indices(), scratch, rng, trace) {
        Ok(picked) => Ok(Choice::selected(picked, if is_fallback { 2 } else { 1 }, is_fallback)),
        Err(none) => Err(none.wait(group_unlock, None)),
    }
}

#[cfg(test)]
mod tests;
