//! What decides for those who wait: the clusters of a target, by an algorithm.

use std::time::Duration;

use crate::{
    Algorithm, Decision, DecisionState, Exclusions, NoChoice, RoutingRequest, Running, Selected, Target,
    UnavailableReason, best_ttft, decide_and_enter, has_place,
};

/// Finds places for requests.
pub trait Decides {
    /// A place that is taken.
    type Place;

    /// Decides, and takes the place.
    ///
    /// # Errors
    /// There is none now.
    fn decide(
        &mut self,
        request: &RoutingRequest<'_>,
        exclusions: &Exclusions,
    ) -> Result<Self::Place, NoChoice>;

    /// The time to first token that the best candidate promises, from now on; `None` where none promises anything. It may be
    /// more than that where it is in time all the same.
    fn best_ttft(&mut self, request: &RoutingRequest<'_>, exclusions: &Exclusions) -> Option<Duration>;
}

/// A place that was taken.
#[derive(Debug)]
pub struct Taken<'a> {
    /// What it is of.
    pub target: &'a Target,
    /// Which it is.
    pub selected: Selected,
    /// That it is held.
    pub running: Running,
}

/// One decision of a core on a target, or on none where nobody serves it any more.
#[derive(Debug)]
pub struct Deciding<'a> {
    /// The target in the current snapshot.
    pub target: Option<&'a Target>,
    /// What chooses.
    pub algorithm: &'a Algorithm,
    /// The core's; what it has sent is counted there.
    pub state: &'a mut DecisionState,
    /// What the loads of `state` count time by.
    pub now: Duration,
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Whether a decision would find a place. Takes none, and nobody's turn.
    pub fn has_place(&mut self, request: &RoutingRequest<'_>, exclusions: &Exclusions) -> bool {
        self.target.is_some_and(|target| has_place(target, self.algorithm, request, exclusions, self.state))
    }
}

impl<'a> Decides for Deciding<'a> {
    type Place = Taken<'a>;

    fn decide(
        &mut self,
        request: &RoutingRequest<'_>,
        exclusions: &Exclusions,
    ) -> Result<Self::Place, NoChoice> {
        let nobody = NoChoice::Unavailable(UnavailableReason::NoActiveBackend);
        let Some(target) = self.target else { return Err(nobody) };
        match decide_and_enter(target, self.algorithm, request, exclusions, self.state, self.now) {
            (Decision::Selected(selected), Some(running)) => Ok(Taken { target, selected, running }),
            (Decision::Wait(wait), _) => Err(NoChoice::Wait(wait)),
            (Decision::Unavailable(reason), _) => Err(NoChoice::Unavailable(reason)),
            (Decision::Selected(_), None) => Err(nobody),
        }
    }

    fn best_ttft(&mut self, request: &RoutingRequest<'_>, exclusions: &Exclusions) -> Option<Duration> {
        let best = best_ttft(self.target?, self.algorithm, request, exclusions, self.state.loads())?;
        // Longer than a `Duration` holds is longer than any SLO.
        Some(best.to_duration().unwrap_or(Duration::MAX))
    }
}
