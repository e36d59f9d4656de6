//! A cluster's stats, what they amount to with this gateway's own load added, and the times that follow.

use std::hint::select_unpredictable;

use crate::{
    ClusterLoad, Nanos, Seconds, Tokens, TokensPerSecond, UnknownConcurrency,
    load::{Amount, LoadReading},
};

/// How what this gateway sent to a cluster is added to what the cluster reports (ROUTING.md section 9).
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

/// Stats with this gateway's own load added, as they are for a request of one priority: what a decision compares.
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
    priority: u32,
    /// Reserved tokens that come on top of the published estimate for this priority.
    reserved_ahead: Tokens,
}

/// Reported counts less what has ended since.
#[derive(Clone, Copy)]
struct Left {
    queue_size: u64,
    num_running_queries: u64,
    queued_input: Tokens,
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
    fn less_ended(&self, ended: u64) -> Left {
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
    fn queue_time_estimate(&self, priority: u32) -> Seconds {
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
    fn of(self, room: u64) -> u64 {
        (room as f64 * f64::from(self.share) + f64::from(self.draw)) as u64
    }
}

impl Default for RoomShare {
    /// All of it.
    fn default() -> Self {
        Self { share: 1.0, draw: 0.0 }
    }
}

// === impl EffectiveStats ===

impl<'a> EffectiveStats<'a> {
    /// For a request of `priority`, by the load that all cores know of.
    pub fn new(reported: &'a ClusterStats, load: &ClusterLoad, priority: u32) -> Self {
        Self::with_load(reported, load.read(reported, priority), priority)
    }

    /// The same, by what was read of the load for this priority before.
    #[inline]
    pub(crate) fn with_load(reported: &'a ClusterStats, load: LoadReading, priority: u32) -> Self {
        let LoadReading { sent: Amount { attempts, tokens }, ended, reserved_ahead } = load;
        match reported.accounting {
            Accounting::InFlight => Self {
                reported,
                queue_size: reported.queue_size.max(attempts.queued()),
                num_running_queries: reported.num_running_queries.max(attempts.running()),
                queued_input: reported.queued_input.max(tokens),
                priority,
                reserved_ahead,
            },
            Accounting::Reservations => {
                let left = if ended == 0 { Left::all_of(reported) } else { reported.less_ended(ended) };
                Self {
                    reported,
                    queue_size: left.queue_size.saturating_add(attempts.queued()),
                    num_running_queries: left.num_running_queries.saturating_add(attempts.running()),
                    queued_input: left.queued_input.saturating_add(tokens),
                    priority,
                    reserved_ahead,
                }
            }
        }
    }

    /// Whether fewer run than there are slots and places in a queue of `max_queued`. A cluster that reports no
    /// concurrency counts as `unknown` says.
    #[inline]
    pub fn has_capacity(&self, max_queued: u64, unknown: UnknownConcurrency) -> bool {
        match self.reported.max_engine_concurrency {
            0 => unknown == UnknownConcurrency::Free,
            slots => self.num_running_queries < slots.saturating_add(max_queued),
        }
    }

    /// The same for a request that may be one of many that would take the same room, here and in other gateways. Of those,
    /// one that this refuses may be taken on the next report.
    #[inline]
    pub fn has_room(&self, max_queued: u64, unknown: UnknownConcurrency, is_one_of_many: bool) -> bool {
        self.has_capacity(max_queued, unknown) && (!is_one_of_many || self.is_our_turn(max_queued))
    }

    /// Whether the report shows so little room that all gateways' overflow until the next one would fill it: less than an
    /// eighth of the places.
    #[inline]
    pub(crate) fn shows_little_room(&self, max_queued: u64) -> bool {
        let places = self.reported.max_engine_concurrency.saturating_add(max_queued);
        places.saturating_sub(self.reported.num_running_queries) < places / 8
    }

    /// Whether one more is within this gateway's share of the room that the report shows.
    fn is_our_turn(&self, max_queued: u64) -> bool {
        let reported = self.reported;
        if reported.room_share.share >= 1.0
            || reported.accounting == Accounting::InFlight
            || reported.max_engine_concurrency == 0
        {
            return true;
        }
        let places = reported.max_engine_concurrency.saturating_add(max_queued);
        let room = places.saturating_sub(reported.num_running_queries);
        match self.num_running_queries.checked_sub(reported.num_running_queries) {
            // More has ended here since the report than was sent: that is ours to replace.
            None => true,
            Some(added) => added < reported.room_share.of(room),
        }
    }

    /// How long the request waits before its prefill starts. A free slot means no wait, however large the active
    /// prefill is.
    #[inline]
    pub fn queue_delay(&self) -> Seconds {
        // Both are at hand, as a slot is free as good as at random: a wrong guess costs more than a division.
        let is_free = self.num_running_queries < self.reported.max_engine_concurrency;
        // As integers, for which there is such a choice without a branch.
        Seconds(f64::from_bits(select_unpredictable(is_free, 0, self.backlog().0.to_bits())))
    }

    /// The queue delay as it is when no slot is free: the published estimate for the request's priority and what
    /// was reserved since at it or before it, or the queued input at the cluster's throughput where no estimate
    /// is published.
    #[inline]
    pub fn backlog(&self) -> Seconds {
        let throughput = self.reported.last_mean_input_tps;
        if self.reported.has_queue_time_estimates() {
            self.reported.queue_time_estimate(self.priority) + self.reserved_ahead.work_at(throughput)
        } else {
            self.queued_input.work_at(throughput)
        }
    }

    /// How long the prefill of a request of `input` tokens takes, times `scale`. Without a valid capacity it
    /// has no bound, even at scale 0.
    #[inline]
    pub fn prefill(&self, input: Tokens, scale: f64) -> Seconds {
        let unscaled = input.work_at(self.reported.last_mean_input_tps);
        if unscaled.is_finite() { Seconds(unscaled.0 * scale) } else { unscaled }
    }

    /// Time to first token of a request of `input` tokens: rtt + queue delay + its own prefill.
    pub fn ttft(&self, input: Tokens) -> Seconds {
        self.first_token_after(self.queue_delay(), self.prefill(input, 1.0))
    }

    /// The same, counting the backlog even while a slot is free: a free slot does not make prefill parallel.
    pub fn ttft_backlog(&self, input: Tokens) -> Seconds {
        self.first_token_after(self.backlog(), self.prefill(input, 1.0))
    }

    /// rtt + `wait` + `prefill`.
    pub(crate) fn first_token_after(&self, wait: Seconds, prefill: Seconds) -> Seconds {
        Seconds::from(self.reported.rtt) + wait + prefill
    }
}

// === impl Left ===

impl Left {
    #[inline]
    fn all_of(reported: &ClusterStats) -> Self {
        let ClusterStats { queue_size, num_running_queries, queued_input, .. } = *reported;
        Self { queue_size, num_running_queries, queued_input }
    }
}

#[cfg(test)]
mod tests;
