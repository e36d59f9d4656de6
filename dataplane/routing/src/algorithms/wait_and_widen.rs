//! wait-and-widen: buckets of times to first token that open with waiting, behind an affinity group.
//!
//! A key's group of clusters, which have its prefix cached, is tried first at every attempt, and for the
//! affinity wait alone; after that all clusters are.

pub(crate) mod parameters;
pub(crate) mod ring;

use self::parameters::WaitAndWidenParameters;
use super::{question::Question, workspace::Workspace};
use crate::{
    ClusterIndex,
    selection::{
        Selection,
        candidate::CandidateSet,
        choice::{Choice, NoChoice},
        moment::Moment,
        trace::Trace,
    },
};

/// Selects from the group of the key, then from all.
pub(crate) fn choose(
    question: &Question<'_>,
    parameters: &WaitAndWidenParameters,
    work: &mut Workspace,
    trace: &mut impl Trace,
) -> Result<Choice, NoChoice> {
    let Question { ref fleet, eligible, request, unflushed, .. } = *question;
    let widening = &parameters.widening;
    let selection = Selection::new(fleet.clusters, widening, request, unflushed);
    let Workspace { rng, selection: scratch, rings, .. } = work;
    let mut group_unlock = None;
    let mut since = Moment::ZERO;
    let group_key = request.affinity_key.filter(|_| parameters.affinity_group > 0);
    if let Some(key) = group_key {
        // Membership is fixed before exclusions: a group is not refilled.
        let members = rings.group(fleet, parameters, key).iter().map(|index| usize::from(*index));
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
