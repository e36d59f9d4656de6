//! Who is let in: what a request must bring, and how much work may be ahead of it, before it is routed.
//!
//! Asked once, when the request has arrived. It is never asked again of a request that waits or is retried.

use std::fmt;

use crate::{
    Admission, Algorithm, Cluster, CoreLoads, Exclusions, Method, RoutingRequest, Seconds, Target, Tokens,
    TokensPerSecond, names::names, request::eligible::Eligible,
};

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdmissionRefusal {
    /// It has no affinity key (the client's fault).
    AffinityKeyRequired,
    /// It does not say how many input tokens it has (the client's fault).
    InputTokensRequired,
    /// The work ahead of it, its own included, takes longer than is allowed.
    InputWorkLimitExceeded,
    /// No cluster that it may go to has a capacity to tell that by.
    InputWorkCapacityUnavailable,
}

/// Lets a request in that is going to be routed by `method`, or says why not.
///
/// The eligible clusters, whose work counts, are those that the algorithm can select: for the pulsar kinds and
/// a request with a key, those with a weight and, where that counts, enough free KV tokens. Their load is what the
/// core of `loads` knows of it.
pub fn admit(
    target: &Target,
    method: &Method,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    loads: &CoreLoads,
) -> Result<(), AdmissionRefusal> {
    let Admission { require_cache_affinity_key, require_input_tokens, max_input_work_seconds } =
        method.admission;
    if require_cache_affinity_key && request.affinity_key.is_none() {
        return Err(AdmissionRefusal::AffinityKeyRequired);
    }
    if require_input_tokens && !request.input_tokens_given {
        return Err(AdmissionRefusal::InputTokensRequired);
    }
    let Some(limit) = max_input_work_seconds else { return Ok(()) };
    match input_work(target, &method.algorithm, request, exclusions, loads) {
        None => Err(AdmissionRefusal::InputWorkCapacityUnavailable),
        Some(work) if work > Seconds(limit) => Err(AdmissionRefusal::InputWorkLimitExceeded),
        Some(_) => Ok(()),
    }
}

/// How long all eligible clusters together take for what is queued on them and for the request; `None` when
/// none has a valid capacity.
pub(crate) fn input_work(
    target: &Target,
    algorithm: &Algorithm,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    loads: &CoreLoads,
) -> Option<Seconds> {
    let unflushed = loads.unflushed();
    let mut work = request.input_tokens;
    let mut capacity = 0.0;
    for index in Eligible::new(&target.clusters, exclusions).indices() {
        let cluster = &target.clusters[index];
        if !is_weighted(cluster, algorithm, request) || !is_kv_feasible(cluster, algorithm, request) {
            continue;
        }
        work = work.saturating_add(unflushed.effective(cluster, request.priority).queued_input);
        if cluster.stats.last_mean_input_tps.is_valid() {
            capacity += cluster.stats.last_mean_input_tps.0;
        }
    }
    (capacity > 0.0).then(|| work_at(work, capacity))
}

/// A sum of valid capacities may overflow to infinity, and is enough for anything then.
fn work_at(work: Tokens, capacity: f64) -> Seconds {
    work.work_at(TokensPerSecond(capacity.min(f64::MAX)))
}

/// The best time to first token that any cluster offers now, at the request's full prefill: what a request
/// waits for in vain when it comes too late even so.
///
/// Clusters that are short of KV tokens count, as these may be free by then. `None` when no cluster can be
/// selected, or none of those that can has a valid capacity: then nothing is known.
pub fn best_ttft(
    target: &Target,
    algorithm: &Algorithm,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    loads: &CoreLoads,
) -> Option<Seconds> {
    let unflushed = loads.unflushed();
    let eligible = Eligible::new(&target.clusters, exclusions);
    let candidates = eligible.indices().map(|index| &target.clusters[index]);
    let candidates = candidates.filter(|cluster| is_weighted(cluster, algorithm, request));
    let ttft = |cluster: &Cluster| unflushed.effective(cluster, request.priority).ttft(request.input_tokens);
    let best = candidates.map(ttft).fold(Seconds::INFINITE, |a, b| if b < a { b } else { a });
    best.is_finite().then_some(best)
}

/// Whether the algorithm can rank the cluster, if it ranks for this request.
fn is_weighted(cluster: &Cluster, algorithm: &Algorithm, request: &RoutingRequest<'_>) -> bool {
    let Some((_, weight)) = algorithm.ranked_by() else { return true };
    request.affinity_key.is_none() || cluster.rendezvous.get(weight).is_some()
}

/// Whether the cluster has the KV tokens that the algorithm asks for, if it does for this request.
fn is_kv_feasible(cluster: &Cluster, algorithm: &Algorithm, request: &RoutingRequest<'_>) -> bool {
    !algorithm.considers_kv_free_tokens()
        || request.affinity_key.is_none()
        || cluster.stats.has_kv_for(request.input_tokens)
}

// === impl AdmissionRefusal ===

names!(AdmissionRefusal {
    AffinityKeyRequired = "affinity_key_required",
    InputTokensRequired = "input_tokens_required",
    InputWorkLimitExceeded = "input_work_limit_exceeded",
    InputWorkCapacityUnavailable = "input_work_capacity_unavailable",
});

impl fmt::Display for AdmissionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
