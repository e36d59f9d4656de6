//! Prequal (Wydrowski, Kleinberg, Rumble and Archer, NSDI 2024), Google's: requests go by what probes have found a
//! moment ago.
//!
//! Each request has `probes` (3) different random clusters asked, in the background: it is routed by answers that are
//! there already. [`pool`] has the rules by which answers are kept and the best one is taken. Where it has fewer than
//! two to choose from, a random cluster is taken. An answer is usable one round trip after its question; it then says
//! what the engine had when the question was *sent*, which is half a round trip older than a real answer would be.
//!
//! Parameters as in the paper: `pool_size` 16, `age_limit_ms` 1000, `hot_quantile` 0.84, `removals` 1 a request. How
//! many requests an answer is used for follows from them and from the number of clusters n: max(1, 2 / ((1 −
//! pool_size/n) · probes − removals)); where probes do not outrun removals it is not bounded.
//!
//! Simplified: servers measure the latency of past requests at their present load. Here it is computed: round trip, and
//! queued and own prompt tokens by the throughput that is reported. Gateways without requests do not probe.

mod pool;

use std::time::Duration;

use anyhow::ensure;
use serde::Deserialize;

use self::pool::{Answer, Pool};
use super::{
    Asked, Baseline, Choice, View,
    candidates::{any, eligible, is_eligible},
};

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    pool_size: usize,
    /// For each request; fractions are rounded at random.
    probes: f64,
    /// Answers that are dropped for each request, besides those that are used up; fractions are rounded at random.
    removals: f64,
    age_limit_ms: u64,
    /// Of requests in flight, over recent answers: a cluster above it is hot.
    hot_quantile: f64,
}

pub(super) struct Prequal {
    parameters: Parameters,
    /// For how many requests an answer is used on average; not bounded without.
    uses: Option<f64>,
    pool: Pool,
    /// Answers that have not come yet.
    on_the_way: Vec<Answer>,
}

// === impl Parameters ===

impl Default for Parameters {
    fn default() -> Self {
        Self { pool_size: 16, probes: 3.0, removals: 1.0, age_limit_ms: 1000, hot_quantile: 0.84 }
    }
}

impl Parameters {
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        let Self { pool_size, probes, removals, age_limit_ms, hot_quantile } = *self;
        ensure!((2..=1024).contains(&pool_size), "pool_size is {pool_size}; it is within 2 to 1024");
        ensure!((0.0..=64.0).contains(&probes), "probes is {probes}; it is within 0 to 64");
        ensure!((0.0..=64.0).contains(&removals), "removals is {removals}; it is within 0 to 64");
        ensure!(age_limit_ms > 0, "age_limit_ms is 0; it is at least 1");
        ensure!((0.0..=1.0).contains(&hot_quantile), "hot_quantile is {hot_quantile}; it is within 0 to 1");
        Ok(())
    }

    /// How many requests an answer is used for, so that one answer a request is gained in the pool.
    fn uses(&self, clusters: usize) -> Option<f64> {
        // An answer of a cluster that is in the pool already replaces one.
        let gained = (1.0 - self.pool_size as f64 / clusters as f64) * self.probes - self.removals;
        (gained > 0.0).then(|| (2.0 / gained).max(1.0))
    }
}

// === impl Prequal ===

impl Prequal {
    pub(super) fn new(parameters: Parameters, clusters: usize) -> Self {
        let age_limit = Duration::from_millis(parameters.age_limit_ms);
        Self {
            parameters,
            uses: parameters.uses(clusters),
            pool: Pool::new(parameters.pool_size, age_limit, parameters.hot_quantile),
            on_the_way: Vec::new(),
        }
    }

    fn receive(&mut self, now: Duration) {
        let Self { on_the_way, pool, .. } = self;
        on_the_way.retain(|answer| {
            let is_here = answer.received <= now;
            if is_here {
                pool.receive(*answer);
            }
            !is_here
        });
    }

    fn probe(&mut self, view: &View<'_>, request: &Asked<'_>, rng: &mut fastrand::Rng) {
        let candidates = eligible(view, request);
        let mut left = candidates.clone().count();
        let mut wanted = rounded(self.parameters.probes, rng).min(left);
        for cluster in candidates {
            // Each subset of the wanted size with the same probability (Knuth's selection sampling).
            if rng.usize(..left) < wanted {
                wanted -= 1;
                let uses_left = self.uses.map_or(usize::MAX, |uses| rounded(uses, rng));
                self.on_the_way.extend(answer(view, request, cluster, uses_left));
            }
            left -= 1;
        }
    }
}

/// What a probe of this cluster finds.
fn answer(view: &View<'_>, request: &Asked<'_>, cluster: usize, uses_left: usize) -> Option<Answer> {
    let (seen, engine) = (&view.clusters[cluster], view.engines.get(cluster)?.state());
    let prefill_s = seen.prefill_s(engine.queued_tokens + u64::from(request.prompt.tokens()));
    Some(Answer {
        cluster,
        received: view.now + seen.rtt,
        in_flight: engine.running + engine.queued,
        latency_s: seen.rtt.as_secs_f64() + prefill_s,
        uses_left,
    })
}

/// Rounded up with the probability of its fraction, so that the mean is kept.
fn rounded(number: f64, rng: &mut fastrand::Rng) -> usize {
    number.floor() as usize + usize::from(rng.f64() < number.fract())
}

impl Baseline for Prequal {
    fn choose(&mut self, view: &View<'_>, request: &Asked<'_>, rng: &mut fastrand::Rng) -> Choice {
        self.receive(view.now);
        self.pool.forget_old(view.now);
        self.probe(view, request, rng);
        let chosen = self.pool.take_best(|cluster| is_eligible(view, request, cluster), rng);
        for _ in 0..rounded(self.parameters.removals, rng) {
            self.pool.remove();
        }
        Choice::anywhere(chosen.or_else(|| any(eligible(view, request), rng)))
    }
}

#[cfg(test)]
mod tests;
