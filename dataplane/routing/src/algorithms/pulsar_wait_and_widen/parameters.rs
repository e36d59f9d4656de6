//! What pulsar-wait-and-widen is configured by, and the bounds that follow for one key.

use std::time::Duration;

use super::bands::Bands;
use crate::{
    FieldError, RendezvousWeight, Seconds, Slot, Widening,
    fields::{
        configured::Configured,
        field::{Field, Place, words},
    },
    names::names,
    request::WAIT_MS_MAX,
    selection::{
        moment::Moment,
        widening::{Draft, Widens},
    },
};

/// Parameters of pulsar-wait-and-widen.
#[derive(Clone, Debug, PartialEq)]
pub struct PulsarWaitAndWidenParameters {
    /// Buckets, capacity and the affinity wait.
    pub widening: Widening,
    /// First ranks that make the affinity group; at least 1.
    pub affinity_group: u32,
    /// What a cluster's share of keys is proportional to.
    pub weight: RendezvousWeight,
    /// Whether a cluster without enough reported free KV tokens is passed over.
    pub consider_kv_free_tokens: bool,
    /// When the first rank is taken at once.
    pub primary_admission: PrimaryAdmission,
    /// Requests beyond the slots of a cluster that overflow may queue there.
    pub fallback_max_queued: u64,
    /// Share of the affinity wait that depends on the key, within 0..=1; see
    /// [`PulsarWaitAndWidenParameters::affinity_wait_of`].
    pub affinity_wait_spread: f64,
    /// Between the openings of two bands of ranks; zero opens all at once, `None` is the affinity wait.
    pub band_widen_interval: Option<Duration>,
}

/// When pulsar-wait-and-widen takes the first rank at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrimaryAdmission {
    /// Whenever it is eligible, full or not.
    #[default]
    Eligible,
    /// When it has capacity as well.
    Capacity,
}

// === impl PulsarWaitAndWidenParameters ===

impl PulsarWaitAndWidenParameters {
    /// How long the affinity group is held for the keys of a slot: from `1 - spread` of the affinity wait to all of it,
    /// evenly over the slots.
    ///
    /// Where all keys wait alike, what overflows from a full primary is a little of every key, and finds every other
    /// cache cold. Where some give up early and others late, it is always the same keys that overflow, as many as it
    /// takes, by whatever gateway, and their second home is warm: the wait at the primary grows until enough of its keys
    /// have left.
    pub fn affinity_wait_of(&self, slot: Slot) -> Duration {
        let wait = self.widening.affinity_wait;
        if self.affinity_wait_spread == 0.0 {
            return wait;
        }
        let place = (f64::from(slot.number()) + 0.5) / Slot::COUNT as f64;
        wait.mul_f64(1.0 - self.affinity_wait_spread * (1.0 - place))
    }

    /// When the affinity group is given up, counted from the arrival: after the wait of the key. Where waits are spread
    /// over the keys, what it would wait in the queue of its home counts as waited: `queue_delay_at_home` is that of its
    /// primary for the request, `None` where that cannot be selected.
    ///
    /// So it moves with that queue: a request that waits may be held for longer, or for less long, than its last decision
    /// said. It is decided again with every report, and learns so.
    pub fn affinity_wait_ends_at(&self, slot: Slot, queue_delay_at_home: Option<Seconds>) -> Duration {
        let wait = self.affinity_wait_of(slot);
        if self.affinity_wait_spread == 0.0 {
            return wait;
        }
        // A queue of work that nobody knows the speed of has no end.
        let as_waited = |delay: Seconds| delay.to_duration().unwrap_or(Duration::MAX);
        wait.saturating_sub(queue_delay_at_home.map_or(Duration::ZERO, as_waited))
    }

    /// Ranks beyond the affinity group, which begin to open when that is given up.
    pub(crate) fn bands(&self, since: Moment) -> Bands {
        let interval = self.band_widen_interval.unwrap_or(self.widening.affinity_wait);
        Bands::new(self.affinity_group_ranks(), since, interval.into())
    }

    /// Ranks in the affinity group: at least the primary.
    pub(crate) fn affinity_group_ranks(&self) -> usize {
        self.affinity_group.max(1) as usize
    }
}

impl Default for PulsarWaitAndWidenParameters {
    fn default() -> Self {
        Self {
            widening: Widening::default(),
            affinity_group: 1,
            weight: RendezvousWeight::default(),
            consider_kv_free_tokens: false,
            primary_admission: PrimaryAdmission::default(),
            fallback_max_queued: 0,
            affinity_wait_spread: 0.0,
            band_widen_interval: None,
        }
    }
}

// === impl PrimaryAdmission ===

names!(PrimaryAdmission {
    Eligible = "eligible",
    Capacity = "capacity",
});

impl Widens for PulsarWaitAndWidenParameters {
    fn widening(&self) -> &Widening {
        &self.widening
    }

    fn widening_mut(&mut self) -> &mut Widening {
        &mut self.widening
    }
}

impl Configured for PulsarWaitAndWidenParameters {
    type Draft = Draft<Self>;

    const FIELDS: &'static [Field<Self::Draft>] = &[
        Self::Draft::SEED,
        Field { name: "rendezvous_weight", place: Place::Word { at: |draft| &mut draft.parameters.weight } },
        Field {
            name: "consider_kv_free_tokens",
            place: Place::Flag { at: |draft| &mut draft.parameters.consider_kv_free_tokens },
        },
        Self::Draft::N,
        Self::Draft::COMPARATOR,
        Field {
            name: "primary_admission",
            place: Place::Word { at: |draft| &mut draft.parameters.primary_admission },
        },
        Self::Draft::MAX_QUEUED,
        Field {
            name: "fallback_max_queued",
            place: Place::Whole {
                at: |draft| &mut draft.parameters.fallback_max_queued,
                min: 0,
                max: u64::MAX,
            },
        },
        Field {
            name: "cache_affinity_wait_spread",
            place: Place::Number {
                at: |draft| &mut draft.parameters.affinity_wait_spread,
                min: 0.0,
                max: 1.0,
            },
        },
        Self::Draft::QUEUE_FLOOR,
        Self::Draft::QUEUE_CEIL,
        Self::Draft::BUCKET_SIZE,
        Self::Draft::UNLOCK_FACTOR,
        Self::Draft::IGNORE_QUEUE_TIME,
        Self::Draft::IGNORE_INPUT_PROCESSING_TIME,
        Self::Draft::UNKNOWN_CONCURRENCY,
        Field {
            name: "cache_affinity_backend_selection_count",
            place: Place::Whole {
                at: |draft| &mut draft.parameters.affinity_group,
                min: 0,
                max: u32::MAX as u64,
            },
        },
        Self::Draft::AFFINITY_WAIT,
        Self::Draft::AFFINITY_SCALE,
        Field {
            name: "band_widen_interval_ms",
            place: Place::Whole {
                at: |draft| &mut draft.parameters.band_widen_interval,
                min: 0,
                max: WAIT_MS_MAX,
            },
        },
    ];

    fn draft(&self) -> Self::Draft {
        Draft::new(self.clone())
    }

    fn of_draft(draft: Self::Draft) -> Result<Self, FieldError> {
        let parameters = draft.build()?;
        // There is no such thing as no primary.
        Ok(Self { affinity_group: parameters.affinity_group.max(1), ..parameters })
    }
}

words!(PrimaryAdmission);
