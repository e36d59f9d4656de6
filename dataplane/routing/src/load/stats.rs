//! What a cluster reports, and by what rule this gateway's own load is to be added to it. Knows nothing of that load.

use crate::{Nanos, Seconds, Tokens, TokensPerSecond};

/// How what this gateway sent to a cluster is added to what the cluster reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    /// The larger of the report and what this gateway has in flight there: for stats that are polled, come at an
    /// interval, or are not reported.
    #[default]
    InFlight,
    /// The report and the reservations pending: for stats that follow every change, and for those that say which
    /// attempts they include.
    Reservations,
}

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
    /// How this gateway's own load is added.
    pub accounting: Accounting,
    /// What of its room this gateway may take for those who wait.
    pub room_share: RoomShare,
}

/// How much of the room that a report shows is this gateway's, when requests wait for it.
///
/// A report reaches all gateways, and all who wait for that cluster anywhere would take the one place that it shows. So
/// those who wait are given, of what a report shows, the gateway's share, rounded up or down by a draw, such that all
/// gateways together take about what there is. What has ended here since the report is this gateway's to replace, and
/// requests that have just come are not held back: these come one by one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoomShare {
    /// This gateway's part of what the target's clusters run, above 0; 1 where it knows of no other gateway.
    pub share: f32,
    /// Within 0..1, drawn anew for a report when what was sent after the last draw has had the time to be in it.
    pub draw: f32,
}

/// Reported counts less what has ended since.
#[derive(Clone, Copy)]
pub(super) struct Left {
    pub(super) queue_size: u64,
    pub(super) num_running_queries: u64,
    pub(super) queued_input: Tokens,
}

// === impl ClusterStats ===

impl ClusterStats {
    /// Free KV cache: as reported, else what capacity and use leave. `None` when neither is known.
    pub fn kv_free_tokens(&self) -> Option<Tokens> {
        let left = || Some(Tokens(self.kv_capacity?.0.saturating_sub(self.kv_used?.0)));
        self.kv_free.or_else(left)
    }

    /// Whether that much input is known to fit into the free KV cache.
    pub fn has_kv_for(&self, input: Tokens) -> bool {
        self.kv_free_tokens().is_some_and(|free| free >= input)
    }

    /// Whether estimates of queue time by priority are published.
    #[inline]
    pub(crate) fn has_queue_time_estimates(&self) -> bool {
        !self.queue_time_estimates.is_empty()
    }

    /// What is left of the counts when `ended` of the requests that they include have ended.
    ///
    /// One that ended freed a slot that a queued one took, with its share of the queued input; only when none was
    /// queued does one less run.
    #[cold]
    pub(super) fn less_ended(&self, ended: u64) -> Left {
        let Self { queue_size, num_running_queries, queued_input: Tokens(queued_input), .. } = *self;
        let advanced = ended.min(queue_size);
        let share = u128::from(queued_input) * u128::from(advanced) / u128::from(queue_size.max(1));
        Left {
            queue_size: queue_size - advanced,
            num_running_queries: num_running_queries.saturating_sub(ended - advanced),
            queued_input: Tokens(queued_input - share as u64),
        }
    }

    /// The published estimate that applies to `priority`: the entry with the greatest priority that is not
    /// above it. Where all entries are less urgent, nothing is ahead of the request.
    pub(super) fn queue_time_estimate(&self, priority: u32) -> Seconds {
        let after = self.queue_time_estimates.partition_point(|(entry, _)| *entry <= priority);
        match after.checked_sub(1) {
            Some(last) => self.queue_time_estimates[last].1.into(),
            None => Seconds::ZERO,
        }
    }
}

// === impl RoomShare ===

impl RoomShare {
    /// Places of `room` that are this gateway's: on average over draws its share, exactly.
    pub(super) fn of(self, room: u64) -> u64 {
        (room as f64 * f64::from(self.share) + f64::from(self.draw)) as u64
    }
}

impl Default for RoomShare {
    /// All of it.
    fn default() -> Self {
        Self { share: 1.0, draw: 0.0 }
    }
}

// === impl Left ===

impl Left {
    #[inline]
    pub(super) fn all_of(reported: &ClusterStats) -> Self {
        let ClusterStats { queue_size, num_running_queries, queued_input, .. } = *reported;
        Self { queue_size, num_running_queries, queued_input }
    }
}
