//! What both widening algorithms are configured by: buckets, capacity, bounds of the queue, the affinity wait.

use std::time::Duration;

use super::{comparator::Comparator, queue_slo::QueueSlo, sample::SampleCount};
use crate::{Seed, UnknownConcurrency};

/// What both widening algorithms share.
#[derive(Clone, Debug, PartialEq)]
pub struct Widening {
    /// Enters every hash of the affinity group: another seed is another group.
    pub seed: Seed,
    /// How many unlocked candidates are sampled.
    pub sample_count: SampleCount,
    /// Who wins among these.
    pub comparator: Comparator,
    /// Requests beyond the slots of a cluster that may queue there.
    pub max_queued: u64,
    /// Bounds of the queue delay that is allowed.
    pub queue_slo: Option<QueueSlo>,
    /// Widest difference of time to first token within one bucket.
    pub ttft_bucket_size: Duration,
    /// Share of the gap between two buckets that the later one is waited for; finite, not negative.
    pub next_bucket_unlock_factor: f64,
    /// Leaves the queue delay out of bucket formation.
    pub ignore_queue_time: bool,
    /// Leaves the request's own prefill out of bucket formation.
    pub ignore_input_processing_time: bool,
    /// What a cluster counts as that reports no concurrency.
    pub unknown_concurrency: UnknownConcurrency,
    /// How long from its arrival a request is held for its affinity group.
    pub affinity_wait: Duration,
    /// Multiplies the request's own prefill inside the affinity group; 0..=1.
    pub affinity_input_tokens_scale: f64,
}

// === impl Widening ===

impl Default for Widening {
    fn default() -> Self {
        Self {
            seed: Seed::default(),
            sample_count: SampleCount::default(),
            comparator: Comparator::default(),
            max_queued: 0,
            queue_slo: None,
            ttft_bucket_size: Duration::from_millis(20),
            next_bucket_unlock_factor: 0.25,
            ignore_queue_time: false,
            ignore_input_processing_time: false,
            unknown_concurrency: UnknownConcurrency::default(),
            affinity_wait: Duration::ZERO,
            affinity_input_tokens_scale: 1.0,
        }
    }
}
