//! A cluster's stats with this gateway's own load added, for one request: the counts that a decision compares, and the
//! times that follow from them.

use std::hint::select_unpredictable;

use super::{
    ClusterLoad, LoadReading,
    counter::Amount,
    stats::{Accounting, ClusterStats, Left},
};
use crate::{Seconds, Tokens, fields::field::words, names::names};

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

/// What a cluster counts as that reports no `max_engine_concurrency`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownConcurrency {
    /// It always has capacity.
    #[default]
    Free,
    /// It never has.
    Full,
}

// === impl EffectiveStats ===

impl<'a> EffectiveStats<'a> {
    /// For a request of `priority`, by the load that all cores know of.
    pub fn new(reported: &'a ClusterStats, load: &ClusterLoad, priority: u32) -> Self {
        Self::with_load(reported, load.read(reported, priority), priority)
    }

    /// For a request of `priority`, by what was read of the load for that priority.
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

    /// Whether it has capacity, and a place of it is this gateway's to take where the request may be one of many that would
    /// take the same room, here and in other gateways. Of those, one that this refuses may be taken on the next report.
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

    /// Time to first token that counts the backlog even while a slot is free: a free slot does not make prefill parallel.
    pub fn ttft_backlog(&self, input: Tokens) -> Seconds {
        self.first_token_after(self.backlog(), self.prefill(input, 1.0))
    }

    /// rtt + `wait` + `prefill`.
    pub(crate) fn first_token_after(&self, wait: Seconds, prefill: Seconds) -> Seconds {
        Seconds::from(self.reported.rtt) + wait + prefill
    }
}

// === impl UnknownConcurrency ===

names!(UnknownConcurrency {
    Free = "free",
    Full = "full",
});

words!(UnknownConcurrency);

#[cfg(test)]
mod tests;
