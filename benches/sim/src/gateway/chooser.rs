//! How a gateway decides: by ours, or by a baseline that sees the same.

use std::time::Duration;

use stargate_routing::{
    Algorithm, Decision, DecisionState, EffectiveStats, Exclusions, Millis, Ranking, RoutingRequest, Running,
    Tokens, Waiting, best_ttft, decide_and_enter, has_place,
};

use super::{
    Claim, Known, Seen, Sent,
    knowledge::{self, Knowledge},
};
use crate::{
    baselines::{Asked, Baseline, Choice, View},
    engine::Engine,
    scenario::{Accounted, Policy, Router},
};

/// One gateway's decisions, and what they are made by.
pub(crate) struct Chooser {
    waiting: Waiting,
    accounted: Accounted,
    slo: Millis,
    knowledge: Knowledge,
    decider: Decider,
    state: DecisionState,
    rng: fastrand::Rng,
    /// With [`Accounted::NextReport`], by cluster: what was sent since its last report.
    unreported: Vec<Vec<Running>>,
}

/// What chooses.
pub(crate) enum Decider {
    Ours(Algorithm),
    Baseline(Box<dyn Baseline>),
}

/// What came of a decision.
pub(super) enum Verdict {
    Sent(Sent),
    /// It waits, and is decided again at this time after its arrival at the latest.
    Wait(Duration),
    Refused,
}

/// Whether a cluster has room for its own keys, and for others'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) home: bool,
    pub(super) open: bool,
}

/// What tells without another look at the clusters that a request is not late yet.
pub(super) struct Promise {
    /// The best time to first token of a request without input, in seconds.
    best_s: f64,
    /// Of the slowest cluster, in tokens/s.
    input_tps: f64,
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
}

// === impl Chooser ===

impl Chooser {
    pub(crate) fn new(policy: &Policy, decider: Decider, known: &[Known], slo: Duration, seed: u64) -> Self {
        let knowledge = Knowledge::new(known, policy, seed ^ 0x5851_f42d);
        Self {
            waiting: policy.waiting.clone(),
            accounted: policy.accounted,
            slo: Millis(slo.as_millis() as u64),
            unreported: (0..knowledge.count()).map(|_| Vec::new()).collect(),
            state: DecisionState::with_seed(seed).with_loads(knowledge::loads(policy.accounted)),
            knowledge,
            decider,
            rng: fastrand::Rng::with_seed(seed ^ 0x9e37_79b9),
        }
    }

    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Takes in what has become visible. Whether anything has.
    pub(super) fn look(&mut self, now: Duration, world: &Seen<'_>) -> bool {
        let unreported = &mut self.unreported;
        self.knowledge.look(now, world, self.state.loads(), |cluster| unreported[cluster].clear())
    }

    /// Lets reservations end whose time is over. Whether any may have.
    pub(super) fn advance(&mut self, now: Duration) -> bool {
        let is_due = self.state.loads().next_due().is_some_and(|due| due <= now);
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
    }

    pub(super) fn ended(&mut self, cluster: usize) {
        self.knowledge.ended(cluster);
        if let Decider::Baseline(baseline) = &mut self.decider {
            baseline.ended(cluster);
        }
    }

    /// Decides, and takes the place.
    pub(super) fn choose(
        &mut self,
        claim: &Claim,
        is_waiting: bool,
        now: Duration,
        engines: &[Engine],
    ) -> Verdict {
        let elapsed = now.saturating_sub(claim.arrived);
        let request = RoutingRequest { is_waiting, ..self.request(claim, elapsed) };
        let sent = match &mut self.decider {
            Decider::Ours(algorithm) => {
                let target = self.knowledge.target();
                let (decision, running) =
                    decide_and_enter(target, algorithm, &request, &claim.exclusions, &mut self.state, now);
                match decision {
                    Decision::Selected(selected) => {
                        let cluster = self.knowledge.cluster(selected.cluster);
                        running.map(|running| (cluster, running, selected.is_fallback))
                    }
                    Decision::Wait(wait) => return self.wait(wait.until, elapsed),
                    Decision::Unavailable(_) => None,
                }
            }
            Decider::Baseline(baseline) => {
                let view = View { now, clusters: self.knowledge.views(&self.state, now), engines };
                let asked = Asked { prompt: &claim.prompt, elapsed, excluded: &claim.excluded };
                match baseline.choose(&view, &asked, &mut self.rng) {
                    Choice::Full => None,
                    Choice::Send { cluster, is_overflow } => {
                        baseline.sent(cluster, &asked);
                        let running = self.knowledge.enter(cluster, &request, &mut self.state, now);
                        running.map(|running| (cluster, running, is_overflow))
                    }
                }
            }
        };
        match sent {
            Some((cluster, running, is_overflow)) => Verdict::Sent(self.send(cluster, running, is_overflow)),
            None if self.waiting.default_max_wait == Duration::ZERO => Verdict::Refused,
            None => self.wait(self.deadline(), elapsed),
        }
    }

    /// Whether [`Self::choose`] may find a place for the request; it takes none.
    pub(super) fn has_place(&mut self, claim: &Claim, now: Duration) -> bool {
        let request = self.request(claim, now.saturating_sub(claim.arrived));
        match &self.decider {
            Decider::Ours(algorithm) => {
                has_place(self.knowledge.target(), algorithm, &request, &claim.exclusions, &mut self.state)
            }
            Decider::Baseline(_) => true,
        }
    }

    /// Where there is room by the bounds of the algorithm, as this gateway knows.
    pub(super) fn room(&self, room: &mut Vec<Room>) {
        room.clear();
        let (home, open, unknown) = match &self.decider {
            Decider::Ours(Algorithm::PulsarWaitAndWiden(parameters)) => {
                let widening = &parameters.widening;
                (widening.max_queued, parameters.fallback_max_queued, widening.unknown_concurrency)
            }
            Decider::Ours(Algorithm::WaitAndWiden(parameters)) => {
                let widening = &parameters.widening;
                (widening.max_queued, widening.max_queued, widening.unknown_concurrency)
            }
            // They look at load only, if at all.
            Decider::Ours(_) | Decider::Baseline(_) => {
                room.push(Room { home: true, open: true });
                return;
            }
        };
        // What is kept from other cores is told, so that one look finds all.
        self.state.loads().flush();
        room.extend(self.knowledge.target().clusters.iter().map(|cluster| {
            let stats = EffectiveStats::new(&cluster.stats, &cluster.load, 0);
            Room { home: stats.has_room(home, unknown, true), open: stats.has_room(open, unknown, true) }
        }));
    }

    /// The clusters of the target where a request's key is at home; none where that is not known here.
    pub(super) fn home(&self, claim: &Claim) -> Box<[usize]> {
        let Decider::Ours(Algorithm::PulsarWaitAndWiden(parameters)) = &self.decider else {
            return Box::default();
        };
        let seed = &parameters.widening.seed;
        let ranking = Ranking::new(self.knowledge.target(), seed, parameters.weight, &claim.key).to_vec();
        let ranks = parameters.affinity_group.max(1) as usize;
        ranking.into_iter().take(ranks).map(|cluster| cluster.0).collect()
    }

    /// Whether a waiter may find a place where there is `room`: if not, the decision would say so too, at more cost.
    pub(super) fn may_find(&self, claim: &Claim, room: &[Room], now: Duration) -> bool {
        let Decider::Ours(Algorithm::PulsarWaitAndWiden(parameters)) = &self.decider else { return true };
        let is_open = || {
            now.saturating_sub(claim.arrived) >= parameters.widening.affinity_wait
                && room.iter().any(|room| room.open)
        };
        claim.home.iter().any(|cluster| room[*cluster].home) || is_open()
    }

    /// Whether one that finds no place speaks for all: so it is where the choice depends on load alone.
    pub(super) fn one_speaks_for_all(&self) -> bool {
        matches!(self.decider, Decider::Baseline(_))
    }

    /// How long a request waits at most.
    pub(super) fn deadline(&self) -> Duration {
        let wait = self.waiting.default_max_wait;
        if wait == Duration::ZERO { Waiting::MAX_WAIT } else { wait.min(Waiting::MAX_WAIT) }
    }

    /// When waiting becomes pointless.
    pub(super) fn limit(&self) -> Duration {
        self.deadline().min(self.slo.into())
    }

    /// Whether a request has waited as long as it may, or cannot get its first token within its SLO any more.
    pub(super) fn is_lost(&self, claim: &Claim, now: Duration, promise: Option<&Promise>) -> bool {
        let elapsed = now.saturating_sub(claim.arrived);
        if elapsed >= self.deadline() {
            return true;
        }
        if !self.waiting.shed_unreachable {
            return false;
        }
        let left_s = Duration::from(self.slo).as_secs_f64() - elapsed.as_secs_f64();
        let is_safe = |promise: &Promise| {
            promise.best_s + f64::from(claim.prompt.tokens()) / promise.input_tps <= left_s
        };
        if promise.is_some_and(is_safe) {
            return false;
        }
        let request = self.request(claim, elapsed);
        let algorithm = match &self.decider {
            Decider::Ours(algorithm) => algorithm,
            Decider::Baseline(_) => &Algorithm::Random,
        };
        let target = self.knowledge.target();
        best_ttft(target, algorithm, &request, &claim.exclusions, self.state.loads())
            .is_some_and(|best| best.0 > left_s)
    }

    pub(super) fn promise(&self) -> Promise {
        let target = self.knowledge.target();
        let nothing = RoutingRequest::default();
        let best =
            best_ttft(target, &Algorithm::Random, &nothing, &Exclusions::default(), self.state.loads());
        let input_tps = target.clusters.iter().map(|cluster| cluster.stats.last_mean_input_tps.0);
        Promise {
            best_s: best.map_or(f64::INFINITY, |best| best.0),
            input_tps: input_tps.fold(f64::INFINITY, f64::min),
        }
    }

    fn send(&mut self, cluster: usize, running: Running, is_overflow: bool) -> Sent {
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

    fn wait(&self, until: Duration, elapsed: Duration) -> Verdict {
        if elapsed >= self.deadline() { Verdict::Refused } else { Verdict::Wait(until) }
    }

    fn request<'a>(&self, claim: &'a Claim, elapsed: Duration) -> RoutingRequest<'a> {
        RoutingRequest {
            input_tokens: Tokens(claim.prompt.tokens().into()),
            affinity_key: Some(&claim.key),
            slo: Some(self.slo),
            elapsed,
            ..RoutingRequest::default()
        }
    }
}
