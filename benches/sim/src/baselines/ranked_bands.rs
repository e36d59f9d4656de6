//! The instant ranked-band walk: NVIDIA Stargate's published multi-region pulsar without waiting.
//!
//! A session ranks the clusters by weighted rendezvous hashing. Bands of 1, 2, 4, 8, … ranks are tried in order, all in
//! the same moment; in the first band with a cluster that runs fewer than its slots and `max_queued` (4), the better of
//! two random such clusters is taken, by the expected time to first token. With room nowhere the request waits, and
//! then goes to whoever has room first. So a full fleet serves everybody where nothing is cached: the collapse to be
//! shown.
//!
//! A cluster weighs what its reported throughput has been at most, as the published `max-input-tps` does; one without
//! is not ranked. One that has failed keeps its rank. The hash is our own, not the published one.

use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    Asked, Baseline, Choice, ClusterView, View,
    candidates::{better_of_two, is_eligible},
};

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    /// Requests that a cluster may have beyond its slots.
    max_queued: u64,
}

pub(super) struct RankedBands {
    max_queued: u64,
    /// By cluster.
    ranked: Vec<Weighed>,
    /// The clusters of the request at hand by descending score; kept for its room.
    ranking: Vec<Scored>,
}

#[derive(Clone, Copy)]
struct Weighed {
    hash: u64,
    /// The highest throughput that was reported so far.
    weight: f64,
}

#[derive(Clone, Copy)]
struct Scored {
    score: f64,
    cluster: usize,
}

// === impl Parameters ===

impl Default for Parameters {
    fn default() -> Self {
        Self { max_queued: 4 }
    }
}

// === impl RankedBands ===

impl RankedBands {
    /// With the same `seed` all gateways rank alike.
    pub(super) fn new(parameters: Parameters, clusters: usize, seed: u64) -> Self {
        let weighed =
            |cluster: usize| Weighed { hash: xxh3_64_with_seed(&cluster.to_le_bytes(), seed), weight: 0.0 };
        Self {
            max_queued: parameters.max_queued,
            ranked: (0..clusters).map(weighed).collect(),
            ranking: Vec::with_capacity(clusters),
        }
    }

    fn score_all(&mut self, view: &View<'_>, session: u32) {
        self.ranking.clear();
        for ((cluster, seen), weighed) in view.clusters.iter().enumerate().zip(&mut self.ranked) {
            weighed.weight = weighed.weight.max(seen.input_tps);
            if seen.is_routable && weighed.weight > 0.0 {
                self.ranking.push(Scored { score: weighed.score(session), cluster });
            }
        }
    }
}

impl Baseline for RankedBands {
    fn choose(&mut self, view: &View<'_>, request: &Asked<'_>, rng: &mut fastrand::Rng) -> Choice {
        self.score_all(view, request.prompt.session);
        let max_queued = self.max_queued;
        let may_take = |scored: &&Scored| {
            is_eligible(view, request, scored.cluster) && has_room(&view.clusters[scored.cluster], max_queued)
        };
        // Most often the first rank has room, and the others need not be sorted.
        let first = self.ranking.iter().max_by(|a, b| a.score.total_cmp(&b.score));
        if let Some(&Scored { cluster, .. }) = first.filter(may_take) {
            return Choice::Send { cluster, is_overflow: false };
        }
        let mut ranking = std::mem::take(&mut self.ranking);
        ranking.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.cluster.cmp(&b.cluster)));
        let ttft = |cluster: usize| expected_ttft_s(&view.clusters[cluster], request.prompt.tokens());
        let mut choice = Choice::Full;
        let (mut from, mut width) = (1, 2);
        while from < ranking.len() && choice == Choice::Full {
            let band = &ranking[from..ranking.len().min(from + width)];
            let with_room = band.iter().filter(may_take).map(|scored| scored.cluster);
            if let Some(cluster) = better_of_two(with_room, ttft, rng) {
                choice = Choice::Send { cluster, is_overflow: true };
            }
            (from, width) = (from + width, 2 * width);
        }
        self.ranking = ranking;
        choice
    }
}

/// A cluster that reports no slots counts as free.
fn has_room(cluster: &ClusterView, max_queued: u64) -> bool {
    cluster.slots == 0 || cluster.running < cluster.slots + max_queued
}

/// In seconds. A free slot means no wait, as published.
fn expected_ttft_s(cluster: &ClusterView, tokens: u32) -> f64 {
    let is_free = cluster.slots == 0 || cluster.running < cluster.slots;
    let queue_s = if is_free { 0.0 } else { cluster.prefill_s(cluster.queued_tokens) };
    cluster.rtt.as_secs_f64() + queue_s + cluster.prefill_s(tokens.into())
}

// === impl Weighed ===

impl Weighed {
    /// Weight / −ln u for a u that is random to cluster and session, within 0 and 1.
    fn score(&self, session: u32) -> f64 {
        let hash = xxh3_64_with_seed(&session.to_le_bytes(), self.hash);
        let uniform = ((hash >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
        self.weight / -uniform.ln()
    }
}

#[cfg(test)]
mod tests;
