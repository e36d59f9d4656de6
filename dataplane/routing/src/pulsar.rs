//! pulsar: the first eligible cluster of the key's weighted rendezvous ranking.
//!
//! Every key ranks all clusters, each by a score that depends on nothing but the key, the cluster's id and
//! its weight. So keys fall to clusters in proportion to their weights, and one that leaves or changes moves
//! only the keys that it must (Thaler and Ravishankar, 1998; with weights: Schindelhauer and Schomaker,
//! 2005). Load never enters: where a key goes is decided by where its prefix is cached.
//!
//! The hashes are part of the protocol between gateways: another version, host or restart must rank alike,
//! or every warm cache is lost. A test pins them.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    Cluster, ClusterIndex, PulsarParameters, RendezvousWeight, RoutingRequest, SampleCount, Target,
    TargetName, decide::Choice, eligible::Eligible, power_of_n,
};

/// A key's random number for one cluster, within 2^-53..=1 − 2^-53.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Draw(f64);

/// One key's ranking of a target's clusters. Nothing is sorted: it tells the score of each.
struct Ranking<'a> {
    clusters: &'a [Cluster],
    weight: RendezvousWeight,
    key_hash: u64,
}

/// `None` when no cluster that is left has a weight and, where they count, enough free KV tokens.
pub(crate) fn choose(
    target: &Target,
    eligible: &Eligible,
    parameters: &PulsarParameters,
    request: &RoutingRequest<'_>,
    rng: &mut fastrand::Rng,
) -> Option<Choice> {
    let Some(affinity_key) = request.affinity_key else {
        let comparator = parameters.comparator;
        return power_of_n::choose(&target.clusters, eligible, SampleCount::TWO, comparator, request, rng)
            .map(Choice::unranked);
    };
    let key_hash = hash_key(parameters.seed.hash(), &target.name, affinity_key);
    let ranking = Ranking { clusters: &target.clusters, weight: parameters.weight, key_hash };
    let is_feasible = |index: usize| {
        let free = target.clusters[index].stats.kv_free_tokens();
        !parameters.consider_kv_free_tokens || free.is_some_and(|free| free >= request.input_tokens)
    };
    ranking.walk(eligible, is_feasible)
}

/// Hashes what a ranking belongs to. Each part is hashed with the hash of those before it as its seed, so
/// that no two splits of the same bytes are alike, and no routing key is not an empty one.
fn hash_key(seed: u64, target: &TargetName, affinity_key: &[u8]) -> u64 {
    let scope = match &target.routing_key {
        None => seed,
        Some(routing_key) => xxh3_64_with_seed(routing_key.as_bytes(), seed),
    };
    xxh3_64_with_seed(affinity_key, xxh3_64_with_seed(target.model.as_bytes(), scope))
}

/// Combines the hashes of a key and of a cluster id, both uniform already: the finaliser of `SplitMix64`
/// (Steele, Lea and Flood, 2014), a bijection in which every input bit reaches every output bit.
fn mix(key_hash: u64, id_hash: u64) -> u64 {
    let mut hash = key_hash ^ id_hash;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

// === impl Ranking ===

impl Ranking<'_> {
    /// The first cluster that is eligible and feasible.
    ///
    /// That is the one of the best score among these, and its rank is one more than the number of others that
    /// score better.
    fn walk(&self, eligible: &Eligible, is_feasible: impl Fn(usize) -> bool) -> Option<Choice> {
        let mut first = None;
        let mut first_score = f64::NEG_INFINITY;
        let mut passed_infeasible = false;
        for index in eligible.indices() {
            // Clusters come in the order of their ids, so that the first of equals stays ahead.
            let Some(score) = self.score_from(first_score, index).filter(|score| *score > first_score) else {
                continue;
            };
            if is_feasible(index) {
                first = Some(index);
                first_score = score;
            } else {
                passed_infeasible = true;
            }
        }
        let first = first?;
        let is_ahead = |index: &usize| {
            self.score_from(first_score, *index)
                .is_some_and(|score| score.total_cmp(&first_score).then(first.cmp(index)).is_gt())
        };
        let mut rank = 1 + eligible.excluded().filter(is_ahead).count();
        let mut after_kv_skip = false;
        if passed_infeasible {
            let infeasible = eligible.indices().filter(|index| !is_feasible(*index)).filter(is_ahead).count();
            after_kv_skip = infeasible > 0;
            rank += infeasible;
        }
        Some(Choice { cluster: ClusterIndex(first), rank: rank as u32, after_kv_skip })
    }

    /// The score of a cluster, unless it is ineligible for want of a weight, or scores below `floor`.
    fn score_from(&self, floor: f64, index: usize) -> Option<f64> {
        let cluster = &self.clusters[index];
        let weight = cluster.rendezvous.get(self.weight)?;
        let draw = Draw::new(self.key_hash, cluster.id_hash);
        if draw.may_reach(floor, weight) { Some(draw.score(weight)) } else { None }
    }
}

// === impl Draw ===

impl Draw {
    const STEP: f64 = 1.0 / (1_u64 << 52) as f64;

    /// Far above the rounding of the operations that it covers for, and so small that next to no logarithm is
    /// taken in vain.
    const MARGIN: f64 = 1.0 + 1.0 / (1_u64 << 40) as f64;

    fn new(key_hash: u64, id_hash: u64) -> Self {
        // 52 bits and a half are 53, the precision of an f64: no rounding reaches 1.
        Self(((mix(key_hash, id_hash) >> 12) as f64 + 0.5) * Self::STEP)
    }

    fn score(self, weight: f64) -> f64 {
        weight / -self.0.ln()
    }

    /// False only when the score at `weight` is below `score`. As −ln u ≥ 1 − u, weight / (1 − u) bounds it
    /// from above; a draw near 1, as winners are, is near that bound. So a walk takes few logarithms, which
    /// are nearly all that it costs otherwise: about as many as the score of the leader is beaten.
    fn may_reach(self, score: f64, weight: f64) -> bool {
        // An infinite score is that of any weight that overflows; finite, it compares with each of them.
        (1.0 - self.0) * score.min(f64::MAX) <= weight * Self::MARGIN
    }
}

#[cfg(test)]
mod tests;
