//! From the stats of a cluster's active backends to those of the cluster, as a pure function: queues and
//! throughputs add up, what members share is as in the latest report, a round-trip time is the mean.

use stargate_routing::{Accounting, ClusterStats, Nanos, RoomShare, Tokens, TokensPerSecond};

use crate::{
    learn::ASSUMED_INPUT_TPS,
    registry::{Model, ModelStats, Rate, Reporting, Requests, TokenCount},
};

/// One active backend, as one target sees it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// As reported last.
    pub stats: &'a ModelStats,
    /// Position of that report among all: the greatest is the latest.
    pub report: u64,
    /// Prefill throughput in tokens per second: reported, measured or assumed.
    pub input_tps: f64,
    /// Round-trip time as routing sees it, once measured.
    pub rtt: Option<Nanos>,
}

/// The stats of the cluster that `members` make; which room is whose, they do not tell.
pub fn aggregate(members: &[Member<'_>]) -> ClusterStats {
    let requests =
        |of: fn(&ModelStats) -> Option<Requests>| sum(members, |stats| of(stats).map(Requests::get));
    let count = |of: fn(&ModelStats) -> Option<Requests>| latest(members, of).map_or(0, Requests::get);
    let tokens =
        |of: fn(&ModelStats) -> Option<TokenCount>| latest(members, of).map(|count| Tokens(count.get()));
    ClusterStats {
        last_mean_input_tps: TokensPerSecond(members.iter().map(|member| member.input_tps).sum()),
        max_input_tps: all_or_none(members),
        output_tps: TokensPerSecond(
            members.iter().filter_map(|member| member.stats.output_tps).map(Rate::get).sum(),
        ),
        max_output_tps: latest(members, |stats| stats.max_output_tps)
            .map(|rate| TokensPerSecond(rate.get()))
            .unwrap_or_default(),
        queue_size: requests(|stats| stats.queue_size),
        queued_input: Tokens(sum(members, |stats| stats.queued_input_size.map(TokenCount::get))),
        input_processing_queries: requests(|stats| stats.input_processing_queries),
        output_generation_queries: requests(|stats| stats.output_generation_queries),
        num_running_queries: count(|stats| stats.num_running_queries),
        max_engine_concurrency: count(|stats| stats.max_engine_concurrency),
        total_query_input: tokens(|stats| stats.total_query_input_size).unwrap_or_default(),
        queue_time_estimates: estimates(members),
        kv_capacity: tokens(|stats| stats.kv_cache_capacity_tokens),
        kv_used: tokens(|stats| stats.kv_cache_used_tokens),
        kv_free: tokens(|stats| stats.kv_cache_free_tokens),
        rtt: mean_rtt(members),
        accounting: accounting(members),
        room_share: RoomShare::default(),
    }
}

/// What a backend whose throughput nobody knows is taken for: as fast as the fastest known one of its target,
/// so that it gets requests, and with them an estimate of its own. A lower assumption would keep it from ever
/// being tried beside a known one.
pub(crate) fn assumed_input_tps<'a>(models: impl Iterator<Item = &'a Model>) -> f64 {
    models.filter_map(Model::input_tps).reduce(f64::max).unwrap_or(ASSUMED_INPUT_TPS)
}

fn sum(members: &[Member<'_>], of: impl Fn(&ModelStats) -> Option<u64>) -> u64 {
    members.iter().filter_map(|member| of(member.stats)).fold(0, u64::saturating_add)
}

/// The value of the latest report that has one. A backend withdraws a value by leaving it out, since its
/// reports replace each other whole.
fn latest<'a, T>(members: &[Member<'a>], of: impl Fn(&'a ModelStats) -> Option<T>) -> Option<T> {
    members
        .iter()
        .filter_map(|member| Some((member.report, of(member.stats)?)))
        .max_by_key(|(report, _)| *report)
        .map(|(_, value)| value)
}

fn all_or_none(members: &[Member<'_>]) -> Option<TokensPerSecond> {
    let rates: Option<Vec<f64>> = members
        .iter()
        .map(|member| member.stats.max_input_tps.map(Rate::get).filter(|tps| *tps > 0.0))
        .collect();
    rates.filter(|rates| !rates.is_empty()).map(|rates| TokensPerSecond(rates.iter().sum()))
}

fn estimates(members: &[Member<'_>]) -> Box<[(u32, Nanos)]> {
    const NANOS_PER_MS: f64 = 1e6;
    latest(members, |stats| stats.queue_time_estimate_ms_by_priority.as_ref())
        .map(|estimates| {
            estimates.iter().map(|(priority, ms)| (priority, Nanos((ms * NANOS_PER_MS) as u64))).collect()
        })
        .unwrap_or_default()
}

/// By reservations only where every member's stats follow what is sent to it. A reservation ends after a round trip,
/// or once it is handed over: at a member that is polled it would be gone long before the report that shows it.
fn accounting(members: &[Member<'_>]) -> Accounting {
    let follows = |member: &Member<'_>| member.stats.reporting() != Reporting::Polled;
    if !members.is_empty() && members.iter().all(follows) {
        Accounting::Reservations
    } else {
        Accounting::InFlight
    }
}

/// Over the members whose time has been measured; 0 while none has.
fn mean_rtt(members: &[Member<'_>]) -> Nanos {
    let (mut sum, mut count) = (0u128, 0u128);
    for rtt in members.iter().filter_map(|member| member.rtt) {
        sum += u128::from(rtt.0);
        count += 1;
    }
    Nanos(sum.checked_div(count).map_or(0, |mean| u64::try_from(mean).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests;
