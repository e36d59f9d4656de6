//! What both widening algorithms are configured by: buckets, capacity, bounds of the queue, the affinity wait.

use std::time::Duration;

use super::{comparator::Comparator, queue_slo::QueueSlo, sample::SampleCount};
use crate::{
    FieldError, Seed, UnknownConcurrency,
    fields::field::{DAY_MS, Field, Place},
    request::WAIT_MS_MAX,
};

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

/// Parameters that contain a [`Widening`].
pub(crate) trait Widens {
    fn widening(&self) -> &Widening;
    fn widening_mut(&mut self) -> &mut Widening;
}

/// Such parameters while they are configured: the two bounds of the queue delay may come in any order.
pub(crate) struct Draft<P> {
    pub(crate) parameters: P,
    queue_floor: Option<Duration>,
    queue_ceil: Option<Duration>,
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

// === impl Draft ===

const FLOOR: &str = "max_queue_time_floor_ms";
const CEIL: &str = "max_queue_time_ceil_ms";

/// Their fields; each algorithm lists them among its own.
impl<P: Widens> Draft<P> {
    pub(crate) const SEED: Field<Self> =
        Field { name: "seed", place: Place::Text { at: |draft| &mut draft.widening().seed } };
    pub(crate) const N: Field<Self> =
        Field { name: "n", place: SampleCount::place(|draft| &mut draft.widening().sample_count) };
    pub(crate) const COMPARATOR: Field<Self> =
        Field { name: "comparator", place: Place::Word { at: |draft| &mut draft.widening().comparator } };
    pub(crate) const MAX_QUEUED: Field<Self> = Field {
        name: "max_queued",
        place: Place::Whole { at: |draft| &mut draft.widening().max_queued, min: 0, max: u64::MAX },
    };
    pub(crate) const QUEUE_FLOOR: Field<Self> = Field {
        name: FLOOR,
        place: Place::Whole { at: |draft| &mut draft.queue_floor, min: 0, max: DAY_MS },
    };
    pub(crate) const QUEUE_CEIL: Field<Self> =
        Field { name: CEIL, place: Place::Whole { at: |draft| &mut draft.queue_ceil, min: 0, max: DAY_MS } };
    pub(crate) const BUCKET_SIZE: Field<Self> = Field {
        name: "ttft_bucket_size_ms",
        place: Place::Whole { at: |draft| &mut draft.widening().ttft_bucket_size, min: 1, max: DAY_MS },
    };
    pub(crate) const UNLOCK_FACTOR: Field<Self> = Field {
        name: "next_bucket_unlock_factor",
        place: Place::Number {
            at: |draft| &mut draft.widening().next_bucket_unlock_factor,
            min: 0.0,
            max: f64::MAX,
        },
    };
    pub(crate) const IGNORE_QUEUE_TIME: Field<Self> = Field {
        name: "ignore_queue_time",
        place: Place::Flag { at: |draft| &mut draft.widening().ignore_queue_time },
    };
    pub(crate) const IGNORE_INPUT_PROCESSING_TIME: Field<Self> = Field {
        name: "ignore_input_processing_time",
        place: Place::Flag { at: |draft| &mut draft.widening().ignore_input_processing_time },
    };
    pub(crate) const UNKNOWN_CONCURRENCY: Field<Self> = Field {
        name: "unknown_concurrency",
        place: Place::Word { at: |draft| &mut draft.widening().unknown_concurrency },
    };
    pub(crate) const AFFINITY_WAIT: Field<Self> = Field {
        name: "cache_affinity_wait_ms",
        place: Place::Whole { at: |draft| &mut draft.widening().affinity_wait, min: 0, max: WAIT_MS_MAX },
    };
    pub(crate) const AFFINITY_SCALE: Field<Self> = Field {
        name: "cache_affinity_input_tokens_scale",
        place: Place::Number {
            at: |draft| &mut draft.widening().affinity_input_tokens_scale,
            min: 0.0,
            max: 1.0,
        },
    };

    pub(crate) fn new(parameters: P) -> Self {
        let slo = parameters.widening().queue_slo;
        Self { parameters, queue_floor: slo.map(QueueSlo::floor), queue_ceil: slo.map(QueueSlo::ceil) }
    }

    pub(crate) fn build(mut self) -> Result<P, FieldError> {
        self.widening().queue_slo = self.queue_slo()?;
        Ok(self.parameters)
    }

    fn widening(&mut self) -> &mut Widening {
        self.parameters.widening_mut()
    }

    fn queue_slo(&self) -> Result<Option<QueueSlo>, FieldError> {
        let alone = |field, value: Duration, other| {
            FieldError::new(
                field,
                format!("{} without `{other}`", value.as_millis()),
                format!("`{FLOOR}` and `{CEIL}` together, or neither"),
            )
        };
        match (self.queue_floor, self.queue_ceil) {
            (None, None) => Ok(None),
            (Some(floor), None) => Err(alone(FLOOR, floor, CEIL)),
            (None, Some(ceil)) => Err(alone(CEIL, ceil, FLOOR)),
            (Some(floor), Some(ceil)) => match QueueSlo::new(floor, ceil) {
                Some(slo) => Ok(Some(slo)),
                None => Err(FieldError::new(
                    FLOOR,
                    format!("{} above `{CEIL}` = {}", floor.as_millis(), ceil.as_millis()),
                    format!("at most `{CEIL}`"),
                )),
            },
        }
    }
}
