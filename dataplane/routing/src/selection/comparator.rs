//! What a comparator makes of a candidate, and who wins.
//!
//! A cost has the comparator's own unit (seconds, a ratio, a count) and is only ever compared with costs of
//! the same comparator. Infinite ones compare as such, so that a candidate of unknown capacity loses to
//! every known one and ties with its like.

use std::cmp::Ordering;

use crate::{EffectiveStats, RoutingRequest, fields::field::words, names::names};

/// Who wins among sampled candidates; lower is better, ties are broken at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comparator {
    /// Time to first token: rtt + queue delay + prefill.
    #[default]
    Ttft,
    /// Time to first token, counting queued work even while a slot is free.
    TtftBacklog,
    /// Queue delay alone.
    QueueTime,
    /// (queued + request tokens) / capacity.
    InputWorkSeconds,
    /// running / max(concurrency, 1).
    Utilization,
    /// Requests queued.
    NumRequestsQueued,
}

/// The best candidate so far; among equal ones each is kept with the same probability.
#[derive(Debug)]
pub(crate) struct Best<C> {
    leader: Option<(C, f64)>,
    /// Candidates that cost as much as the leader, itself included.
    tied: u32,
}

// === impl Comparator ===

names!(Comparator {
    Ttft = "ttft",
    TtftBacklog = "ttft-backlog",
    QueueTime = "queue-time",
    InputWorkSeconds = "input-work-seconds",
    Utilization = "utilization",
    NumRequestsQueued = "num-requests-queued",
});

impl Comparator {
    /// What `stats` cost `request`, whose own prefill counts `prefill_scale` times where it is part of a time
    /// to first token; lower is better.
    pub(crate) fn cost(
        self,
        stats: &EffectiveStats<'_>,
        request: &RoutingRequest<'_>,
        prefill_scale: f64,
    ) -> f64 {
        let first_token_after =
            |wait| stats.first_token_after(wait, stats.prefill(request.input_tokens, prefill_scale)).0;
        match self {
            Self::Ttft => first_token_after(stats.queue_delay()),
            Self::TtftBacklog => first_token_after(stats.backlog()),
            Self::QueueTime => stats.queue_delay().0,
            Self::InputWorkSeconds => {
                let work = stats.queued_input.saturating_add(request.input_tokens);
                work.work_at(stats.reported.last_mean_input_tps).0
            }
            Self::Utilization => {
                let slots = stats.reported.max_engine_concurrency.max(1);
                stats.num_running_queries as f64 / slots as f64
            }
            Self::NumRequestsQueued => stats.queue_size as f64,
        }
    }
}

// === impl Best ===

impl<C> Best<C> {
    pub(crate) fn new() -> Self {
        Self { leader: None, tied: 0 }
    }

    /// Considers one more candidate.
    pub(crate) fn offer(&mut self, candidate: C, cost: f64, rng: &mut fastrand::Rng) {
        let order = match self.leader {
            None => Ordering::Less,
            Some((_, lowest)) => compare(cost, lowest),
        };
        match order {
            Ordering::Less => {
                self.leader = Some((candidate, cost));
                self.tied = 1;
            }
            // The i-th of equals takes the lead with probability 1/i: all are equally likely in the end.
            Ordering::Equal => {
                self.tied += 1;
                if rng.u32(0..self.tied) == 0 {
                    self.leader = Some((candidate, cost));
                }
            }
            Ordering::Greater => {}
        }
    }

    /// The winner; `None` when nothing was offered.
    pub(crate) fn winner(self) -> Option<C> {
        self.leader.map(|(candidate, _)| candidate)
    }
}

/// A total order in which NaN is worse than anything else.
fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

words!(Comparator);

#[cfg(test)]
mod tests;
