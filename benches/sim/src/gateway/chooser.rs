//! How a gateway decides: by ours, or by a baseline that sees the same, and by the same rules of waiting.

use std::time::Duration;

use stargate_routing::{
    Algorithm, Claim, DecisionState, Hold, Millis, Patience, Refused, RoutingRequest, Ruling, Running,
    Tokens, UnavailableReason, Waiting, Waits,
};

use super::{
    Asking, Known, Seen, Sent,
    deciding::{Ours, Place, Theirs},
    foresight::Foresight,
    knowledge::{self, Knowledge},
};
use crate::{
    baselines::Baseline,
    engine::Engine,
    scenario::{Accounted, Policy, Router},
};

/// One gateway's decisions, and what they are made by.
pub(crate) struct Chooser {
    waiting: Waiting,
    patience: Patience,
    accounted: Accounted,
    slo: Millis,
    knowledge: Knowledge,
    decider: Decider,
    state: DecisionState,
    rng: fastrand::Rng,
    /// With [`Accounted::NextReport`], by cluster: what was sent since its last report.
    unreported: Vec<Vec<Running>>,
    /// Of the clusters as they are now, as far as it has been asked for.
    foresight: Option<Foresight>,
    /// A baseline has found no place as things are now: as its choices depend on load alone, nobody finds one.
    is_full: bool,
    pub(super) has_foresight: bool,
}

/// What chooses.
pub(crate) enum Decider {
    Ours(Algorithm),
    Baseline(Box<dyn Baseline>),
}

/// What came of a decision.
pub(super) enum Asked {
    Ended(Result<Sent, Refused>),
    Held(Hold),
}

// === impl Decider ===

impl Decider {
    /// One for each of so many gateways.
    pub(crate) fn of_gateways(policy: &Policy, clusters: usize, gateways: usize, seed: u64) -> Vec<Self> {
        match &policy.router {
            Router::Ours(algorithm) => {
                std::iter::repeat_with(|| Self::Ours(algorithm.clone())).take(gateways).collect()
            }
            Router::Baseline(spec) => {
                spec.build(clusters, gateways, seed).into_iter().map(Self::Baseline).collect()
            }
        }
    }

    fn algorithm(&self) -> Option<&Algorithm> {
        match self {
            Self::Ours(algorithm) => Some(algorithm),
            Self::Baseline(_) => None,
        }
    }
}

// === impl Chooser ===

impl Chooser {
    pub(crate) fn new(policy: &Policy, decider: Decider, known: &[Known], slo: Duration, seed: u64) -> Self {
        let knowledge = Knowledge::new(known, policy, seed ^ 0x5851_f42d);
        Self {
            waiting: policy.waiting.clone(),
            patience: Patience::new(None, &policy.waiting),
            accounted: policy.accounted,
            slo: Millis(slo.as_millis() as u64),
            unreported: (0..knowledge.count()).map(|_| Vec::new()).collect(),
            state: DecisionState::with_seed(seed).with_loads(knowledge::loads(policy.accounted)),
            knowledge,
            decider,
            rng: fastrand::Rng::with_seed(seed ^ 0x9e37_79b9),
            foresight: None,
            is_full: false,
            has_foresight: true,
        }
    }

    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    pub(super) fn patience(&self) -> Patience {
        self.patience
    }

    /// When waiting becomes pointless.
    pub(super) fn limit(&self) -> Duration {
        self.patience.limit(Some(self.slo))
    }

    /// Takes in what has become visible. Whether anything has.
    pub(super) fn look(&mut self, now: Duration, world: &Seen<'_>) -> bool {
        // Whoever looks does so because something has happened, if only that an attempt has ended.
        self.has_changed();
        let unreported = &mut self.unreported;
        self.knowledge.look(now, world, self.state.loads(), |cluster| unreported[cluster].clear())
    }

    /// Lets reservations end whose time is over. Whether any may have.
    pub(super) fn advance(&mut self, now: Duration) -> bool {
        let is_due = self.next_due().is_some_and(|due| due <= now);
        self.state.loads().advance(now);
        is_due
    }

    /// When [`Self::advance`] is due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.state.loads().next_due()
    }

    pub(super) fn next_report(&self, world: &Seen<'_>) -> Option<Duration> {
        self.knowledge.next_report(world)
    }

    pub(super) fn set_routable(&mut self, cluster: usize, is_routable: bool) {
        self.knowledge.set_routable(cluster, is_routable);
        self.unreported[cluster].clear();
        self.has_changed();
    }

    pub(super) fn ended(&mut self, cluster: usize) {
        self.knowledge.ended(cluster);
        if let Decider::Baseline(baseline) = &mut self.decider {
            baseline.ended(cluster);
        }
        self.has_changed();
    }

    /// Whether a request may find a place; it takes none.
    pub(super) fn has_place(&mut self, asking: &Asking, now: Duration) -> bool {
        let claim = self.claim(asking, false);
        match &self.decider {
            Decider::Ours(algorithm) => {
                let (knowledge, state) = (&self.knowledge, &mut self.state);
                Ours { knowledge, algorithm, state, now, promise: None }
                    .has_place(&claim.request_at(now), &asking.exclusions)
            }
            Decider::Baseline(_) => true,
        }
    }

    /// Rules on a request that comes.
    pub(super) fn ask_first(
        &mut self,
        asking: &Asking,
        is_waiting: bool,
        now: Duration,
        engines: &[Engine],
    ) -> Asked {
        let claim = self.claim(asking, is_waiting);
        let ruling = self.rule(asking, &claim, None, now, engines);
        self.asked(ruling)
    }

    /// Rules again on one that waits, as one of many or as if it came alone: its outcome, unless it waits on.
    pub(super) fn ask(
        &mut self,
        asking: &Asking,
        is_one_of_many: bool,
        now: Duration,
        engines: &[Engine],
    ) -> Option<Result<Sent, Refused>> {
        let (held, patience) = asking.waits.get()?;
        let claim = self.claim(asking, is_one_of_many);
        let ruling = match self.foreseen(asking, &claim, held, now) {
            Some(hold) => Ruling::Held(hold),
            None => self.rule(asking, &claim, Some(held), now, engines),
        };
        match self.asked(ruling) {
            Asked::Ended(outcome) => Some(outcome),
            Asked::Held(hold) => {
                asking.waits.set(Some((hold, patience)));
                None
            }
        }
    }

    fn rule(
        &mut self,
        asking: &Asking,
        claim: &Claim<'_>,
        held: Option<Hold>,
        now: Duration,
        engines: &[Engine],
    ) -> Ruling<Place> {
        let promise = self.has_foresight.then(|| self.foresight().promise);
        let state = &mut self.state;
        match &mut self.decider {
            Decider::Ours(algorithm) => {
                let mut ours = Ours { knowledge: &self.knowledge, algorithm, state, now, promise };
                match held {
                    None => claim.rule(&mut ours, now),
                    Some(held) => claim.rule_again(held, &mut ours, now),
                }
            }
            Decider::Baseline(baseline) => {
                let mut theirs = Theirs {
                    baseline: &mut **baseline,
                    knowledge: &mut self.knowledge,
                    state,
                    rng: &mut self.rng,
                    prompt: &asking.prompt,
                    excluded: &asking.excluded,
                    engines,
                    now,
                    promise,
                };
                let ruling = match held {
                    None => claim.rule(&mut theirs, now),
                    Some(held) => claim.rule_again(held, &mut theirs, now),
                };
                self.is_full |= matches!(ruling, Ruling::Held(_)) && asking.excluded.is_empty();
                ruling
            }
        }
    }

    /// How one that is held waits on, where that can be told without deciding it.
    fn foreseen(&mut self, asking: &Asking, claim: &Claim<'_>, held: Hold, now: Duration) -> Option<Hold> {
        let is_foreseeable = self.has_foresight
            && claim.request.is_waiting
            && asking.excluded.is_empty()
            && asking.due() > now
            && (!self.waiting.shed_unreachable
                || self.foresight().promise.in_time(&claim.request_at(now), claim.exclusions).is_some());
        if !is_foreseeable {
            return None;
        }
        self.foresight();
        let foresight = self.foresight.as_ref()?;
        match &self.decider {
            Decider::Ours(algorithm) => {
                foresight.hold(algorithm, self.knowledge.target(), &asking.home, claim, held, now)
            }
            Decider::Baseline(_) => {
                let waits_for_room = !self.patience.is_final(UnavailableReason::NoCapacity);
                (self.is_full && waits_for_room).then_some(held)
            }
        }
    }

    fn foresight(&mut self) -> &Foresight {
        self.foresight.get_or_insert_with(|| {
            Foresight::new(self.knowledge.target(), self.decider.algorithm(), self.state.loads())
        })
    }

    fn has_changed(&mut self) {
        self.foresight = None;
        self.is_full = false;
    }

    fn asked(&mut self, ruling: Ruling<Place>) -> Asked {
        match ruling {
            Ruling::Placed(place) => Asked::Ended(Ok(self.send(place))),
            Ruling::Refused(refused) => Asked::Ended(Err(refused)),
            Ruling::Held(hold) => Asked::Held(hold),
        }
    }

    fn send(&mut self, place: Place) -> Sent {
        let Place { cluster, running, is_overflow } = place;
        self.has_changed();
        self.knowledge.sent(cluster);
        let sequence = running.sequence();
        let running = match self.accounted {
            Accounted::Never => None,
            Accounted::NextReport => {
                self.unreported[cluster].push(running);
                None
            }
            Accounted::RoundTrip | Accounted::Exact | Accounted::InFlight => Some(running),
        };
        Sent { cluster, running, sequence, is_overflow }
    }

    fn claim<'a>(&self, asking: &'a Asking, is_waiting: bool) -> Claim<'a> {
        Claim {
            request: RoutingRequest {
                input_tokens: Tokens(asking.prompt.tokens().into()),
                affinity_key: Some(&asking.key),
                slo: Some(self.slo),
                is_waiting,
                ..RoutingRequest::default()
            },
            exclusions: &asking.exclusions,
            patience: self.patience,
            shed_unreachable: self.waiting.shed_unreachable,
            arrived: asking.arrived,
        }
    }
}
