//! A cluster's stats, what they amount to with this gateway's own load added, and the times that follow.

use crate::{ClusterLoad, Nanos, Tokens, TokensPerSecond};

/// Stats of one (target, cluster), aggregated over its active backends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterStats {
    /// Prefill throughput; sticky. Not valid when never reported.
    pub last_mean_input_tps: TokensPerSecond,
    /// Highest prefill throughput of this model generation; `None` unless every backend reports one.
    pub max_input_tps: Option<TokensPerSecond>,
    /// Decode throughput now.
    pub output_tps: TokensPerSecond,
    /// Highest decode throughput.
    pub max_output_tps: TokensPerSecond,
    /// Requests queued in the engines.
    pub queue_size: u64,
    /// Input tokens queued in the engines.
    pub queued_input: Tokens,
    /// Requests in prefill.
    pub input_processing_queries: u64,
    /// Requests in decode.
    pub output_generation_queries: u64,
    /// Requests running.
    pub num_running_queries: u64,
    /// Slots; 0 when not reported.
    pub max_engine_concurrency: u64,
    /// Input tokens of all running and queued requests.
    pub total_query_input: Tokens,
    /// (priority, estimated queue time) ordered by priority; empty when not published.
    pub queue_time_estimates: Box<[(u32, Nanos)]>,
    /// KV cache capacity.
    pub kv_capacity: Option<Tokens>,
    /// KV cache in use.
    pub kv_used: Option<Tokens>,
    /// KV cache free.
    pub kv_free: Option<Tokens>,
    /// Mean smoothed round-trip time to the active backends.
    pub rtt: Nanos,
}

/// Stats with this gateway's own load added: what a decision compares.
#[derive(Clone, Copy, Debug)]
pub struct EffectiveStats<'a> {
    /// What was reported.
    pub reported: &'a ClusterStats,
    /// Requests queued.
    pub queue_size: u64,
    /// Requests running.
    pub num_running_queries: u64,
    /// Input tokens queued.
    pub queued_input: Tokens,
}

impl<'a> EffectiveStats<'a> {
    /// The larger of what the cluster reports and what this gateway has in flight on it.
    pub fn new(reported: &'a ClusterStats, load: &ClusterLoad) -> Self {
        Self {
            reported,
            queue_size: reported.queue_size.max(load.queued()),
            num_running_queries: reported.num_running_queries.max(load.running()),
            queued_input: reported.queued_input.max(load.queued_input()),
        }
    }
}
