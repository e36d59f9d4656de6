//! What decides at a gateway: our decision core, or a baseline, each as the rules of waiting ask it.

use std::time::Duration;

use stargate_routing::{
    Algorithm, Decides, Deciding, DecisionState, Exclusions, NoChoice, RoutingRequest, Running, Taken,
    UnavailableReason,
};

use super::{foresight::Promise, knowledge::Knowledge};
use crate::{
    baselines::{self, Baseline, Choice, View},
    engine::Engine,
    model::Prompt,
};

/// A place taken: in which cluster, and whether beyond where the key belongs.
pub(super) struct Place {
    pub(super) cluster: usize,
    pub(super) running: Running,
    pub(super) is_overflow: bool,
}

/// Our algorithms.
pub(super) struct Ours<'a> {
    pub(super) knowledge: &'a Knowledge,
    pub(super) algorithm: &'a Algorithm,
    pub(super) state: &'a mut DecisionState,
    pub(super) now: Duration,
    pub(super) promise: Option<Promise>,
}

/// Another router's policy.
pub(super) struct Theirs<'a> {
    pub(super) baseline: &'a mut dyn Baseline,
    pub(super) knowledge: &'a mut Knowledge,
    pub(super) state: &'a mut DecisionState,
    pub(super) rng: &'a mut fastrand::Rng,
    pub(super) prompt: &'a Prompt,
    pub(super) excluded: &'a [usize],
    pub(super) engines: &'a [Engine],
    pub(super) now: Duration,
    pub(super) promise: Option<Promise>,
}

// === impl Ours ===

impl Ours<'_> {
    fn deciding(&mut self) -> Deciding<'_> {
        Deciding {
            target: Some(self.knowledge.target()),
            algorithm: self.algorithm,
            state: &mut *self.state,
            now: self.now,
        }
    }

    pub(super) fn has_place(&mut self, request: &RoutingRequest<'_>, exclusions: &Exclusions) -> bool {
        self.deciding().has_place(request, exclusions)
    }
}

impl Decides for Ours<'_> {
    type Place = Place;

    fn decide(&mut self, request: &RoutingRequest<'_>, exclusions: &Exclusions) -> Result<Place, NoChoice> {
        let Taken { selected, running, .. } = self.deciding().decide(request, exclusions)?;
        let cluster = self.knowledge.cluster(selected.cluster);
        Ok(Place { cluster, running, is_overflow: selected.is_fallback })
    }

    fn best_ttft(&mut self, request: &RoutingRequest<'_>, exclusions: &Exclusions) -> Option<Duration> {
        let promised = self.promise.and_then(|promise| promise.in_time(request, exclusions));
        promised.or_else(|| self.deciding().best_ttft(request, exclusions))
    }
}

// === impl Theirs ===

impl Decides for Theirs<'_> {
    type Place = Place;

    fn decide(&mut self, request: &RoutingRequest<'_>, _: &Exclusions) -> Result<Place, NoChoice> {
        let clusters = self.knowledge.views(self.state, self.now);
        let view = View { now: self.now, clusters, engines: self.engines };
        let asked =
            baselines::Asked { prompt: self.prompt, elapsed: request.elapsed, excluded: self.excluded };
        let full = NoChoice::Unavailable(UnavailableReason::NoCapacity);
        let Choice::Send { cluster, is_overflow } = self.baseline.choose(&view, &asked, self.rng) else {
            return Err(full);
        };
        self.baseline.sent(cluster, &asked);
        let running = self.knowledge.enter(cluster, request, self.state, self.now).ok_or(full)?;
        Ok(Place { cluster, running, is_overflow })
    }

    fn best_ttft(&mut self, request: &RoutingRequest<'_>, exclusions: &Exclusions) -> Option<Duration> {
        let promised = self.promise.and_then(|promise| promise.in_time(request, exclusions));
        promised.or_else(|| {
            let (target, state) = (Some(self.knowledge.target()), &mut *self.state);
            let random = Deciding { target, algorithm: &Algorithm::Random, state, now: self.now };
            { random }.best_ttft(request, exclusions)
        })
    }
}
