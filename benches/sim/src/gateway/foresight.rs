//! What a gateway can tell of those who wait without deciding each: that a request is not late yet, and that it waits on.
//!
//! Deciding all of them whenever something happens is what a run would mostly consist of. Whatever is told here is what the
//! decision would say (but for until when it waits at the latest, where only more room could end its wait before), and a
//! test has runs come to the same without it.

use std::{cell::Cell, time::Duration};

use stargate_routing::{
    Algorithm, Claim, CoreLoads, EffectiveStats, Exclusions, Hold, PrimaryAdmission,
    PulsarWaitAndWidenParameters, Ranking, RoutingRequest, Seconds, Slot, Target, UnavailableReason,
    WaitReason, WaitedFor, best_ttft,
};

/// Where a key is at home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    /// Of the target that this holds for.
    revision: u64,
    slot: Slot,
    /// Its primary, by position in the target; `None` where nothing is ranked.
    primary: Option<usize>,
}

/// What tells without another look at the clusters that a request is not late yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    /// The best time to first token of a request without input, in seconds.
    best_s: f64,
    /// Of the slowest cluster, in tokens/s.
    input_tps: f64,
}

/// What can be told of the clusters as they are now.
#[derive(Debug)]
pub(super) struct Foresight {
    pub(super) promise: Promise,
    /// By position in the target: whether it has room for its own keys, and for how long they queue there.
    homes: Vec<(bool, Seconds)>,
    /// Whether any cluster has room for other keys.
    is_open: bool,
}

// === impl Promise ===

impl Promise {
    fn new(target: &Target, loads: &CoreLoads) -> Self {
        let nothing = RoutingRequest::default();
        let best = best_ttft(target, &Algorithm::Random, &nothing, &Exclusions::default(), loads);
        let input_tps = target.clusters.iter().map(|cluster| cluster.stats.last_mean_input_tps.0);
        Self {
            best_s: best.map_or(f64::INFINITY, |best| best.0),
            input_tps: input_tps.fold(f64::INFINITY, f64::min),
        }
    }

    /// A time to first token that some cluster keeps, if that is within what the request's SLO leaves.
    pub(super) fn in_time(&self, request: &RoutingRequest<'_>, exclusions: &Exclusions) -> Option<Duration> {
        if !exclusions.is_empty() {
            return None;
        }
        let best_s = self.best_s + request.input_tokens.0 as f64 / self.input_tps;
        let best = Duration::try_from_secs_f64(best_s).ok()?;
        (request.elapsed + best <= Duration::from(request.slo?)).then_some(best)
    }
}

// === impl Foresight ===

impl Foresight {
    pub(super) fn new(target: &Target, algorithm: Option<&Algorithm>, loads: &CoreLoads) -> Self {
        // What is kept from other cores is told, so that one look finds all.
        loads.flush();
        let mut foresight = Self { promise: Promise::new(target, loads), homes: Vec::new(), is_open: false };
        let Some(parameters) = algorithm.and_then(foreseeable) else { return foresight };
        let unknown = parameters.widening.unknown_concurrency;
        for cluster in &target.clusters {
            let stats = EffectiveStats::new(&cluster.stats, &cluster.load, 0);
            let has_room = stats.has_room(parameters.widening.max_queued, unknown, true);
            foresight.homes.push((has_room, stats.queue_delay()));
            foresight.is_open |= stats.has_room(parameters.fallback_max_queued, unknown, true);
        }
        foresight
    }

    /// How one waits on by `algorithm` that is held like this; `None` where only a decision tells.
    pub(super) fn hold(
        &self,
        algorithm: &Algorithm,
        target: &Target,
        home: &Cell<Option<Home>>,
        claim: &Claim<'_>,
        held: Hold,
        now: Duration,
    ) -> Option<Hold> {
        let parameters = foreseeable(algorithm)?;
        let known = home.get().filter(|home| home.revision == target.ranking_revision);
        let found = known.or_else(|| Some(Home::new(target, parameters, claim.request.affinity_key?)))?;
        home.set(Some(found));
        let (has_room, queue_delay) = self.homes[found.primary?];
        if has_room {
            return None;
        }
        let until = parameters.affinity_wait_ends_at(found.slot, Some(queue_delay));
        if claim.elapsed_at(now) < until {
            return Some(Hold { until, reason: WaitedFor::Opening(WaitReason::Affinity) });
        }
        let waits_for_room = !self.is_open && !claim.patience.is_final(UnavailableReason::NoCapacity);
        waits_for_room.then_some(held)
    }
}

/// The parameters by which it is told here how a request waits: of the one algorithm that is run with many waiters, where
/// a key has one home, and goes there only while that has room.
fn foreseeable(algorithm: &Algorithm) -> Option<&PulsarWaitAndWidenParameters> {
    match algorithm {
        Algorithm::PulsarWaitAndWiden(parameters) => {
            let has_one_home = parameters.affinity_group <= 1 && !parameters.consider_kv_free_tokens;
            let is_full_at_times = parameters.primary_admission == PrimaryAdmission::Capacity
                || parameters.widening.queue_slo.is_some();
            (has_one_home && is_full_at_times).then_some(parameters)
        }
        Algorithm::PowerOfN(_)
        | Algorithm::RoundRobin
        | Algorithm::Random
        | Algorithm::Pulsar(_)
        | Algorithm::WaitAndWiden(_) => None,
    }
}

// === impl Home ===

impl Home {
    fn new(target: &Target, parameters: &PulsarWaitAndWidenParameters, key: &[u8]) -> Self {
        let ranking = Ranking::new(target, &parameters.widening.seed, parameters.weight, key);
        Self {
            revision: target.ranking_revision,
            slot: ranking.slot(),
            primary: ranking.to_vec().first().map(|cluster| cluster.0),
        }
    }
}
