//! The one decision function.

mod backend;
pub(crate) mod state;

use std::time::Duration;

use crate::{
    Algorithm, Cluster, Decision, DecisionState, EffectiveStats, Exclusions, RoutingRequest, Running,
    Selected, Target, UnavailableReason,
    algorithms::{question::Question, workspace::Workspace},
    core_loads::unflushed::Unflushed,
    request::eligible::Eligible,
    selection::{
        choice::{Choice, NoChoice},
        trace::{DryRun, NoTrace, Trace},
    },
};

/// How often [`decide_and_enter`] decides. Every time but the last it was another core that took the place, so
/// that with fewer cores than that at once on one target nobody is ever put where there was none.
const DECISIONS_MAX: u32 = 16;

/// Chooses by `algorithm` a cluster of `target` and a backend inside it. Allocates nothing, once the state has
/// seen a target of this size, and for wait-and-widen the affinity ring of its clusters.
///
/// What it chose is not counted as load; [`decide_and_enter`] does that too.
pub fn decide(
    target: &Target,
    algorithm: &Algorithm,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    state: &mut DecisionState,
) -> Decision {
    decide_traced(target, algorithm, request, exclusions, state, &mut NoTrace)
}

/// Decides as [`decide`] does, telling `trace` of its steps.
pub(crate) fn decide_traced<T: Trace>(
    target: &Target,
    algorithm: &Algorithm,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    state: &mut DecisionState,
    trace: &mut T,
) -> Decision {
    let DecisionState { loads, work } = state;
    let unflushed = &*loads.unflushed();
    match choose(target, algorithm, request, exclusions, unflushed, work, trace) {
        Ok(choice) => {
            let stats = unflushed.effective(choice.cluster_in(target), request.priority);
            choice.select(target, exclusions, &stats, T::TAKES_TURNS)
        }
        Err(none) => none.into(),
    }
}

/// Decides, and takes the place in one step: it counts what was selected as in flight there and, where the
/// cluster's stats are accounted for so, reserves it until they include it. The next decision of this core sees it;
/// other cores do within a millisecond. Where one more matters they do at once, and when one of them has added to
/// the chosen cluster's load since this decision looked at it, it is made again: so two requests at once on two cores
/// never both take a place that only one of them can have.
///
/// `now` is what the loads of `state` count time by ([`CoreLoads`](crate::CoreLoads)). They must have followed the
/// snapshot that the target is of. `Running` is there when a backend was selected, and only then.
pub fn decide_and_enter(
    target: &Target,
    algorithm: &Algorithm,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    state: &mut DecisionState,
    now: Duration,
) -> (Decision, Option<Running>) {
    let DecisionState { loads, work } = state;
    loads.advance(now);
    let mut decisions_left = DECISIONS_MAX;
    loop {
        decisions_left -= 1;
        let unflushed = loads.unflushed();
        let choice = match choose(target, algorithm, request, exclusions, &unflushed, work, &mut NoTrace) {
            Ok(choice) => choice,
            Err(none) => return (none.into(), None),
        };
        let cluster = choice.cluster_in(target);
        // The queue delay told is that without the request itself.
        let stats = unflushed.effective(cluster, request.priority);
        drop(unflushed);
        let seen = choice.seen.filter(|_| decisions_left > 0);
        let Some(place) = loads.take_place(cluster, request, &stats, seen) else { continue };
        let decision = choice.select(target, exclusions, &stats, true);
        let Decision::Selected(selected) = &decision else {
            loads.give_back(place);
            return (decision, None);
        };
        let running = loads.hold(place, cluster.uid, &selected.backend);
        return (decision, Some(running));
    }
}

/// Whether a decision now would select a cluster. Moves no turn of round robin on.
pub fn has_place(
    target: &Target,
    algorithm: &Algorithm,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    state: &mut DecisionState,
) -> bool {
    let DecisionState { loads, work } = state;
    choose(target, algorithm, request, exclusions, &loads.unflushed(), work, &mut DryRun).is_ok()
}

fn choose(
    target: &Target,
    algorithm: &Algorithm,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    unflushed: &Unflushed,
    work: &mut Workspace,
    trace: &mut impl Trace,
) -> Result<Choice, NoChoice> {
    let clusters = &target.clusters[..];
    if clusters.is_empty() {
        return Err(NoChoice::Unavailable(UnavailableReason::NoActiveBackend));
    }
    let eligible = Eligible::new(clusters, exclusions);
    if eligible.count() == 0 {
        return Err(NoChoice::Unavailable(UnavailableReason::AllExcluded));
    }
    let (fleet, round_robin) = (target.fleet(), &*target.round_robin);
    let question = Question { fleet, round_robin, eligible: &eligible, request, unflushed };
    algorithm.choose(&question, work, trace)
}

// === impl Choice ===

impl Choice {
    fn cluster_in(self, target: &Target) -> &Cluster {
        &target.clusters[self.cluster.0]
    }

    /// Takes a backend of the cluster, whose stats are these.
    fn select(
        &self,
        target: &Target,
        exclusions: &Exclusions,
        stats: &EffectiveStats<'_>,
        takes_turn: bool,
    ) -> Decision {
        let cluster = self.cluster_in(target);
        // An eligible cluster has a backend left, unless the snapshot held one without any.
        let Some(backend) = backend::choose(cluster, exclusions, takes_turn) else {
            return Decision::Unavailable(UnavailableReason::NoActiveBackend);
        };
        Decision::Selected(Selected {
            cluster: self.cluster,
            backend: backend.clone(),
            rank: self.rank,
            is_fallback: self.is_fallback,
            after_kv_skip: self.after_kv_skip,
            queue_delay: stats.queue_delay().to_duration(),
        })
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod together;
