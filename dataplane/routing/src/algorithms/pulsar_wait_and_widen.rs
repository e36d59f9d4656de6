//! pulsar-wait-and-widen: the first ranks of a key's ranking, then bands of further ones that open with
//! waiting, each selected from by buckets of times to first token that open with waiting too.
//!
//! A key keeps its primary as long as that is taken at once or within the affinity wait. Beyond it a request
//! goes only where `fallback_max_queued` lets it, by default where an engine slot is free: what overflows never
//! queues before the keys at home there, so overload cannot spread by making every cache cold.
//!
//! With waits spread over the keys, those with short ones leave a primary on which they would queue for longer than they
//! wait, before it is full. What leaves is then always the same keys, and their second home is warm.

pub(crate) mod bands;
pub(crate) mod parameters;

use self::{
    bands::{FIRST_BAND, OpenRanks},
    parameters::{PrimaryAdmission, PulsarWaitAndWidenParameters},
};
use super::{question::Question, workspace::Workspace};
use crate::{
    ClusterIndex, EffectiveStats, RoutingRequest, Seconds, Slot, UnavailableReason, Widening,
    core_loads::unflushed::Unflushed,
    load::Attempts,
    ranking::{KeyRanking, fleet::Fleet, memo::RankingMemo},
    request::eligible::Eligible,
    selection::{
        Selection,
        candidate::{CandidateSet, Picked},
        choice::{Choice, NoChoice},
        moment::Moment,
        trace::Trace,
    },
};

/// What the steps of one decision have in common.
struct Walk<'a> {
    fleet: &'a Fleet<'a>,
    eligible: &'a Eligible,
    request: &'a RoutingRequest<'a>,
    unflushed: &'a Unflushed,
    parameters: &'a PulsarWaitAndWidenParameters,
    selection: Selection<'a>,
}

/// A key's primary, as it was when the decision looked at it.
#[derive(Clone, Copy)]
struct Home<'a> {
    seen: Attempts,
    stats: EffectiveStats<'a>,
}

/// A cluster's place in the ranking of a key.
#[derive(Clone, Copy)]
struct Place {
    rank: u32,
    /// Whether a better-ranked cluster, not excluded, is short of free KV tokens.
    after_kv_skip: bool,
}

/// Walks the key's ranking outwards from its primary; without a key selects from all.
pub(crate) fn choose(
    question: &Question<'_>,
    parameters: &PulsarWaitAndWidenParameters,
    work: &mut Workspace,
    trace: &mut impl Trace,
) -> Result<Choice, NoChoice> {
    let Question { ref fleet, eligible, request, unflushed, .. } = *question;
    let widening = &parameters.widening;
    let selection = Selection::new(fleet.clusters, widening, request, unflushed);
    let walk = Walk { fleet, eligible, request, unflushed, parameters, selection };
    match request.affinity_key {
        None => walk.choose_unkeyed(work, trace),
        Some(key) => walk.choose_keyed(
            &KeyRanking::of(fleet, &widening.seed, parameters.weight, Slot::of(key)),
            work,
            trace,
        ),
    }
}

// === impl Walk ===

impl Walk<'_> {
    /// Without a key there is no ranking, and no cluster that a prefix is cached in.
    fn choose_unkeyed(&self, work: &mut Workspace, trace: &mut impl Trace) -> Result<Choice, NoChoice> {
        let Workspace { rng, selection: scratch, .. } = work;
        let set = CandidateSet::open(self.parameters.fallback_max_queued, Moment::ZERO);
        match self.selection.select(&set, self.eligible.indices(), scratch, rng, trace) {
            Ok(picked) => Ok(Choice::selected(picked, 1, false)),
            Err(none) => Err(none.wait(None, None)),
        }
    }

    fn choose_keyed(
        &self,
        ranking: &KeyRanking<'_>,
        work: &mut Workspace,
        trace: &mut impl Trace,
    ) -> Result<Choice, NoChoice> {
        let Workspace { rng, selection: scratch, rankings, .. } = work;
        let widening = &self.parameters.widening;
        let group = ranking.first(self.parameters.affinity_group_ranks(), rankings);
        let Some(primary) = group.first() else {
            return Err(NoChoice::NONE_ELIGIBLE);
        };
        let primary = *primary;
        let home = self.home(primary);
        let since = self.affinity_wait_ends(ranking, home.as_ref());
        if let Some(choice) = self.primary_at_once(primary, home.as_ref()) {
            let Some(home) = home.filter(|home| self.is_impatient(home, since)) else {
                return Ok(choice);
            };
            let next_ranks = self.parameters.affinity_group_ranks().saturating_add(FIRST_BAND);
            let members = ranking.first(next_ranks, rankings).iter().skip(1);
            let members = members.filter(|cluster| self.is_candidate(**cluster)).map(|cluster| cluster.0);
            let set = CandidateSet::overflow(self.parameters.fallback_max_queued, since);
            return match self.selection.select(&set, members, scratch, rng, trace) {
                Ok(picked) if self.is_quicker(picked, &home) => {
                    Ok(self.place(ranking, picked.cluster, rankings).choice(picked, true))
                }
                _ => Ok(choice),
            };
        }
        let members = group.iter().filter(|cluster| self.is_candidate(**cluster)).map(|cluster| cluster.0);
        let set = CandidateSet::group(widening);
        let none = match self.selection.select(&set, members, scratch, rng, trace) {
            Ok(picked) => return Ok(self.place_in(group, picked.cluster).choice(picked, false)),
            Err(none) => none,
        };
        if !self.eligible.indices().any(|index| self.is_ranked(index)) {
            return Err(NoChoice::Unavailable(UnavailableReason::AllExcluded));
        }
        if self.selection.elapsed < since {
            return Err(none.hold(since));
        }
        let group_unlock = none.next_unlock;

        let set = CandidateSet::overflow(self.parameters.fallback_max_queued, since);
        let bands = self.parameters.bands(since);
        let picked = if let Some(OpenRanks { count, next }) =
            bands.open(self.selection.elapsed, || self.ranks())
        {
            let ranks = ranking.first(count, rankings).iter();
            let members = ranks.filter(|cluster| self.is_candidate(**cluster)).map(|cluster| cluster.0);
            let picked = self.selection.select(&set, members, scratch, rng, trace);
            picked.map_err(|none| none.wait(group_unlock, Some(next)))?
        } else {
            let is_member = |index: &usize| self.is_ranked(*index) && self.is_feasible(ClusterIndex(*index));
            let members = self.eligible.indices().filter(is_member);
            let picked = self.selection.select(&set, members, scratch, rng, trace);
            picked.map_err(|none| none.wait(group_unlock, None))?
        };
        Ok(self.place(ranking, picked.cluster, rankings).choice(picked, true))
    }

    /// The primary's load, where it can be selected and anything is decided by it: read once, so that all of one decision
    /// sees the same.
    fn home(&self, primary: ClusterIndex) -> Option<Home<'_>> {
        let is_bounded = self.parameters.widening.queue_slo.is_some();
        let is_read = self.waits_by_queue() || self.admits_by_capacity() && !is_bounded;
        (is_read && self.is_candidate(primary)).then(|| {
            let Self { fleet, request, unflushed, .. } = *self;
            let cluster = &fleet.clusters[primary.0];
            let load = unflushed.read(&cluster.load, &cluster.stats, request.priority);
            Home {
                seen: load.sent.attempts,
                stats: EffectiveStats::with_load(&cluster.stats, load, request.priority),
            }
        })
    }

    /// Whether what a key would wait in the queue of its primary counts as waited.
    fn waits_by_queue(&self) -> bool {
        self.parameters.affinity_wait_spread > 0.0
    }

    fn admits_by_capacity(&self) -> bool {
        self.parameters.primary_admission == PrimaryAdmission::Capacity
    }

    fn affinity_wait_ends(&self, ranking: &KeyRanking<'_>, home: Option<&Home<'_>>) -> Moment {
        let home = home.filter(|_| self.waits_by_queue());
        let queue_delay = home.map(|home| home.stats.queue_delay());
        self.parameters.affinity_wait_ends_at(ranking.slot(), queue_delay).into()
    }

    /// Whether a request leaves its primary although that has a place for it: what it has waited, and what it would wait in
    /// the queue there, are together more than its key waits.
    fn is_impatient(&self, home: &Home<'_>, since: Moment) -> bool {
        self.waits_by_queue()
            && self.admits_by_capacity()
            && self.selection.elapsed >= since
            // Without a queue it is not the primary that it has waited for, and there is nothing to leave.
            && home.stats.queue_delay() > Seconds::ZERO
    }

    /// Whether the first token is to be expected sooner from `picked`, at full prefill, than from the primary. So where no
    /// throughput is known nobody leaves.
    fn is_quicker(&self, picked: Picked, home: &Home<'_>) -> bool {
        let Self { fleet, request, unflushed, .. } = *self;
        let scale = self.parameters.widening.affinity_input_tokens_scale;
        let ttft = |stats: &EffectiveStats<'_>, scale: f64| {
            stats.first_token_after(stats.queue_delay(), stats.prefill(request.input_tokens, scale))
        };
        let picked = unflushed.effective(&fleet.clusters[picked.cluster.0], request.priority);
        ttft(&picked, 1.0) < ttft(&home.stats, scale)
    }

    /// The primary, when it is taken at once.
    ///
    /// With a bound on queue delays it is not: then it has to pass that bound as part of the group, whatever
    /// `primary_admission` says.
    fn primary_at_once(&self, primary: ClusterIndex, home: Option<&Home<'_>>) -> Option<Choice> {
        let Widening { queue_slo, max_queued, unknown_concurrency, .. } = &self.parameters.widening;
        if queue_slo.is_some() {
            return None;
        }
        let choice = Choice::whatever_its_load(primary);
        match self.parameters.primary_admission {
            PrimaryAdmission::Eligible => self.is_candidate(primary).then_some(choice),
            PrimaryAdmission::Capacity => {
                let is_waiting = self.request.is_waiting;
                let Home { seen, stats } = home?;
                let has_capacity = stats.has_room(*max_queued, *unknown_concurrency, is_waiting);
                has_capacity.then_some(Choice { seen: Some(*seen), ..choice })
            }
        }
    }

    /// Where in the whole ranking a cluster stands that has a rank.
    fn place(&self, ranking: &KeyRanking<'_>, cluster: ClusterIndex, rankings: &mut RankingMemo) -> Place {
        let first = ranking.first(KeyRanking::FIRST, rankings);
        if first.contains(&cluster) {
            return self.place_in(first, cluster);
        }
        let rank = ranking.rank_of(cluster).unwrap_or_default();
        let after_kv_skip = self.parameters.consider_kv_free_tokens
            && self.is_any_short_of_kv(ranking.first(rank.saturating_sub(1) as usize, rankings));
        Place { rank, after_kv_skip }
    }

    /// Where a cluster stands that is among the first ranks.
    fn place_in(&self, first: &[ClusterIndex], cluster: ClusterIndex) -> Place {
        let ahead = first.iter().take_while(|other| **other != cluster).count();
        Place { rank: ahead as u32 + 1, after_kv_skip: self.is_any_short_of_kv(&first[..ahead]) }
    }

    fn is_any_short_of_kv(&self, ranks: &[ClusterIndex]) -> bool {
        ranks.iter().any(|cluster| self.eligible.has(*cluster) && !self.is_feasible(*cluster))
    }

    /// Whether a cluster of the ranking can be selected at all.
    fn is_candidate(&self, cluster: ClusterIndex) -> bool {
        self.eligible.has(cluster) && self.is_feasible(cluster)
    }

    fn is_feasible(&self, cluster: ClusterIndex) -> bool {
        !self.parameters.consider_kv_free_tokens
            || self.fleet.clusters[cluster.0].stats.has_kv_for(self.request.input_tokens)
    }

    fn is_ranked(&self, index: usize) -> bool {
        self.fleet.clusters[index].rendezvous.get(self.parameters.weight).is_some()
    }

    /// How many clusters have a rank.
    fn ranks(&self) -> usize {
        (0..self.fleet.clusters.len()).filter(|index| self.is_ranked(*index)).count()
    }
}

// === impl Place ===

impl Place {
    fn choice(self, picked: Picked, is_fallback: bool) -> Choice {
        let after_kv_skip = self.after_kv_skip;
        Choice { after_kv_skip, ..Choice::selected(picked, self.rank, is_fallback) }
    }
}

#[cfg(test)]
mod tests;
