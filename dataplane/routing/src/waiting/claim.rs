//! A request's claim to a place: all that it is decided by, from its first decision to its last, and how what a
//! decision finds becomes a ruling.

use std::time::Duration;

use super::{Decides, Hold, Patience, Refused, Ruling, WaitedFor};
use crate::{Exclusions, NoChoice, RoutingRequest, UnavailableReason};

/// What a request is decided by, but for the clusters and the time.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// What it asks for; its `elapsed` is set by each decision.
    pub request: RoutingRequest<'a>,
    /// What has failed for it.
    pub exclusions: &'a Exclusions,
    /// How long it waits.
    pub patience: Patience,
    /// Whether it is told so at once when it cannot be in time any more.
    pub shed_unreachable: bool,
    /// When it arrived.
    pub arrived: Duration,
}

// === impl Claim ===

impl Claim<'_> {
    /// Rules on a request that comes, for the first time or after an attempt that failed.
    pub fn rule<D: Decides>(&self, decider: &mut D, now: Duration) -> Ruling<D::Place> {
        let ruling = self.decide(decider, now);
        if let Ruling::Held(_) = ruling
            && let Some(refused) = self.unreachable(decider, now)
        {
            return Ruling::Refused(refused);
        }
        ruling
    }

    /// Rules again on one that was held. One that is late takes no place: another may be served in time there.
    pub fn rule_again<D: Decides>(&self, held: Hold, decider: &mut D, now: Duration) -> Ruling<D::Place> {
        if self.elapsed_at(now) >= self.patience.deadline {
            return Ruling::Refused(Refused::Expired(held));
        }
        if let Some(refused) = self.unreachable(decider, now) {
            return Ruling::Refused(refused);
        }
        self.decide(decider, now)
    }

    /// What it asks for at this time.
    pub fn request_at(&self, now: Duration) -> RoutingRequest<'_> {
        RoutingRequest { elapsed: self.elapsed_at(now), ..self.request }
    }

    /// How long ago it arrived.
    pub fn elapsed_at(&self, now: Duration) -> Duration {
        now.saturating_sub(self.arrived)
    }

    fn decide<D: Decides>(&self, decider: &mut D, now: Duration) -> Ruling<D::Place> {
        let request = self.request_at(now);
        let mut found = decider.decide(&request, self.exclusions);
        if request.is_waiting
            && matches!(&found, Err(NoChoice::Unavailable(reason)) if self.patience.is_final(*reason))
        {
            // It waits for nothing any more. A place that is there, but another gateway's, is better than a refusal.
            found = decider.decide(&RoutingRequest { is_waiting: false, ..request }, self.exclusions);
        }
        match found {
            Ok(place) => Ruling::Placed(place),
            Err(NoChoice::Wait(wait)) => {
                debug_assert!(wait.until > request.elapsed, "it would not end");
                self.hold(Hold { until: wait.until, reason: WaitedFor::Opening(wait.reason) }, now)
            }
            Err(NoChoice::Unavailable(reason)) => self.unavailable(reason, now),
        }
    }

    fn unavailable<P>(&self, reason: UnavailableReason, now: Duration) -> Ruling<P> {
        if self.patience.is_final(reason) {
            return Ruling::Refused(Refused::Unavailable(reason));
        }
        self.hold(Hold { until: self.patience.deadline, reason: WaitedFor::Change(reason) }, now)
    }

    /// Holds it, unless it has waited as long as it may.
    fn hold<P>(&self, hold: Hold, now: Duration) -> Ruling<P> {
        if self.elapsed_at(now) >= self.patience.deadline {
            return Ruling::Refused(Refused::Expired(hold));
        }
        Ruling::Held(hold)
    }

    /// Whether it cannot get its first token within its SLO any more, whatever becomes free.
    fn unreachable<D: Decides>(&self, decider: &mut D, now: Duration) -> Option<Refused> {
        let slo = Duration::from(self.request.slo.filter(|_| self.shed_unreachable)?);
        let request = self.request_at(now);
        let best = decider.best_ttft(&request, self.exclusions)?;
        (request.elapsed.saturating_add(best) > slo).then_some(Refused::SloUnreachable { best, slo })
    }
}

#[cfg(test)]
mod tests;
