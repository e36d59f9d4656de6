//! An oracle: no router's policy, but one that knows what no gateway can, as the yardstick for those that do not.
//!
//! It sees each engine's state and cache as they are, without delay, and what all gateways have on the way
//! ([`on_the_way`]). A request goes where rtt + wait + price × prefill is least, for the tokens that the cache there
//! really lacks. The price is 1 / (1 − the fleet's share of taken slots), at most `price_max` (2): prefill takes from
//! others what it costs, the more the fewer slots are free. So it minimises time to first token, and towards capacity
//! the work as well. A price of 1 throughout makes the median worse, since more caches hold the same; a higher one the
//! tail, since more requests wait.
//!
//! In overload it keeps caches warm, which is what goodput depends on. A cluster that has at least half of the prompt
//! cached has room for `ahead` (4) requests beyond its slots, so that none stands empty; any other only for those that
//! find a slot free when they arrive. Where the best cluster has no room, the request waits for it, and its waiting
//! counts against that cluster: after waiting about as long as a cold prefill is priced it takes a free slot anywhere.
//!
//! What it optimises is thus goodput first, and time to first token as far as that allows. It is a greedy rule, not a
//! proven optimum: it does not know which requests are to come, nor what a prompt evicts, and it does not hold one
//! request back for another. What no routing can exceed is the outcome's bound, not this.

mod on_the_way;

use std::{cell::RefCell, rc::Rc, time::Duration};

use anyhow::ensure;
use serde::Deserialize;

pub(super) use self::on_the_way::OnTheWay;
use super::{
    Asked, Baseline, Choice, View,
    candidates::{eligible, least},
};
use crate::model::EngineState;

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    /// Requests beyond its slots that a cluster may have that holds the prompt.
    ahead: u64,
    price_max: f64,
}

pub(super) struct Oracle {
    parameters: Parameters,
    shared: Rc<RefCell<OnTheWay>>,
    /// Of the request at hand; kept for its room.
    places: Vec<Place>,
    /// When what was chosen last arrives, and how many tokens it has to compute there.
    chosen: (Duration, u64),
}

/// One cluster, for one request.
#[derive(Clone, Copy, Debug)]
struct Place {
    cluster: usize,
    slots: u64,
    /// Requests that it will have when this one arrives, but for those that end until then.
    taken: u64,
    uncached: u64,
    has_room: bool,
    /// The parts of the cost, in seconds.
    rtt_s: f64,
    wait_s: f64,
    prefill_s: f64,
}

/// What an engine really is, for one request.
#[derive(Clone, Copy, Debug)]
struct Truth {
    state: EngineState,
    slots: u64,
    cached_tokens: u32,
}

// === impl Parameters ===

impl Default for Parameters {
    fn default() -> Self {
        Self { ahead: 4, price_max: 2.0 }
    }
}

impl Parameters {
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        let price_max = self.price_max;
        ensure!(price_max.is_finite() && price_max >= 1.0, "price_max is {price_max}; it is at least 1");
        Ok(())
    }
}

// === impl Oracle ===

impl Oracle {
    /// All gateways share what they have on the way.
    pub(super) fn new(parameters: Parameters, shared: Rc<RefCell<OnTheWay>>) -> Self {
        Self { parameters, shared, places: Vec::new(), chosen: (Duration::ZERO, 0) }
    }

    fn place(&self, view: &View<'_>, request: &Asked<'_>, cluster: usize, truth: Truth) -> Place {
        let (seen, shared) = (&view.clusters[cluster], self.shared.borrow());
        let (tokens, cached) = (request.prompt.tokens(), truth.cached_tokens);
        let uncached = u64::from(tokens.saturating_sub(cached));
        let taken = truth.state.running + truth.state.queued + shared.requests(cluster);
        // While a slot is free nobody queues, and what is in prefill is ahead of it; else it waits for a slot.
        let prefill_ahead_s = || seen.prefill_s(truth.state.queued_tokens + shared.tokens(cluster));
        let ends_per_s = shared.ends_per_s(cluster);
        let wait_s = match ends_per_s {
            Some(ends_per_s) if taken >= truth.slots => (taken + 1 - truth.slots) as f64 / ends_per_s,
            _ => prefill_ahead_s(),
        };
        let trip_s = seen.rtt.as_secs_f64() / 2.0;
        let end_meanwhile = (ends_per_s.unwrap_or(0.0) * trip_s).floor() as u64;
        let is_warm = cached > 0 && cached >= tokens / 2;
        let ahead = if is_warm { self.parameters.ahead } else { 0 };
        Place {
            cluster,
            slots: truth.slots,
            taken,
            uncached,
            has_room: taken < truth.slots + end_meanwhile + ahead,
            rtt_s: seen.rtt.as_secs_f64(),
            wait_s,
            prefill_s: seen.prefill_s(uncached),
        }
    }

    /// Chooses among `places`, of which there is one for each cluster that may be chosen.
    fn decide(&mut self, view: &View<'_>, request: &Asked<'_>, rng: &mut fastrand::Rng) -> Choice {
        let price = self.price();
        let elapsed_s = request.elapsed.as_secs_f64();
        let cost = |at: usize| {
            let place = &self.places[at];
            let waiting_s = if place.has_room { 0.0 } else { elapsed_s };
            place.rtt_s + place.wait_s + place.prefill_s * price + waiting_s
        };
        let least_uncached = self.places.iter().map(|place| place.uncached).min();
        // A full cluster is waited for only where the prompt is cached best.
        let is_candidate = |at: &usize| {
            let place = &self.places[*at];
            place.has_room || Some(place.uncached) == least_uncached
        };
        let best = least((0..self.places.len()).filter(is_candidate), cost, rng).map(|at| self.places[at]);
        let Some(Place { cluster, uncached, has_room: true, .. }) = best else { return Choice::Full };
        self.chosen = (view.now + view.clusters[cluster].rtt / 2, uncached);
        Choice::Send { cluster, is_overflow: Some(uncached) > least_uncached }
    }

    /// What a second of prefill costs.
    fn price(&self) -> f64 {
        let slots: u64 = self.places.iter().map(|place| place.slots).sum();
        let taken: u64 = self.places.iter().map(|place| place.taken.min(place.slots)).sum();
        // All slots over those that are free.
        (slots as f64 / slots.saturating_sub(taken) as f64).min(self.parameters.price_max)
    }
}

impl Baseline for Oracle {
    fn choose(&mut self, view: &View<'_>, request: &Asked<'_>, rng: &mut fastrand::Rng) -> Choice {
        self.shared.borrow_mut().arrive(view.now);
        self.places.clear();
        for cluster in eligible(view, request) {
            let Some(engine) = view.engines.get(cluster) else { continue };
            let cached_tokens = engine.cached_tokens(request.prompt);
            let truth = Truth { state: engine.state(), slots: engine.slots(), cached_tokens };
            let place = self.place(view, request, cluster, truth);
            self.shared.borrow_mut().see(cluster, place.taken, place.slots);
            self.places.push(place);
        }
        self.decide(view, request, rng)
    }

    fn sent(&mut self, cluster: usize, _request: &Asked<'_>) {
        let (arrives, tokens) = self.chosen;
        self.shared.borrow_mut().send(cluster, arrives, tokens);
    }

    fn ended(&mut self, cluster: usize) {
        self.shared.borrow_mut().end(cluster);
    }
}

#[cfg(test)]
mod tests;
