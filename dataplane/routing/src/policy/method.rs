//! The fields of a method: its algorithm's parameters and its admission.

use std::time::Duration;

use crate::{
    Admission, Algorithm, AlgorithmKind, Comparator, FieldError, Method, PowerOfNParameters,
    PrimaryAdmission, PulsarParameters, PulsarWaitAndWidenParameters, QueueSlo, RendezvousWeight,
    SampleCount, Scalar, Seed, UnknownConcurrency, VirtualNodes, WaitAndWidenParameters, WaitOrder, Waiting,
    Widening,
    fields::{
        excerpt,
        field::{Field, Place, Word},
        listed,
    },
};

/// One day, the longest time of a field that has no bound of its own, in milliseconds.
const DAY_MS: u64 = 86_400_000;
/// The longest wait, in milliseconds.
pub(super) const WAIT_MS_MAX: u64 = Waiting::MAX_WAIT.as_millis() as u64;

const FLOOR: &str = "max_queue_time_floor_ms";
const CEIL: &str = "max_queue_time_ceil_ms";

/// Every value that any method has.
#[derive(Clone)]
pub(super) struct Draft {
    seed: String,
    sample_count: u64,
    comparator: Comparator,
    weight: RendezvousWeight,
    consider_kv_free_tokens: bool,
    max_queued: u64,
    queue_floor_ms: Option<u64>,
    queue_ceil_ms: Option<u64>,
    bucket_ms: u64,
    unlock_factor: f64,
    ignore_queue_time: bool,
    ignore_input_processing_time: bool,
    unknown_concurrency: UnknownConcurrency,
    group: u64,
    virtual_nodes: u64,
    wait_ms: u64,
    scale: f64,
    primary_admission: PrimaryAdmission,
    fallback_max_queued: u64,
    wait_spread: f64,
    band_ms: Option<u64>,
    require_cache_affinity_key: bool,
    require_input_tokens: bool,
    max_input_work_seconds: Option<f64>,
}

/// A field, and the algorithms that have it.
struct Row {
    field: Field<Draft>,
    of: &'static [AlgorithmKind],
}

const POWER: &[AlgorithmKind] = &[AlgorithmKind::PowerOfN];
const SEEDED: &[AlgorithmKind] =
    &[AlgorithmKind::Pulsar, AlgorithmKind::WaitAndWiden, AlgorithmKind::PulsarWaitAndWiden];
const COMPARING: &[AlgorithmKind] = &[
    AlgorithmKind::PowerOfN,
    AlgorithmKind::Pulsar,
    AlgorithmKind::WaitAndWiden,
    AlgorithmKind::PulsarWaitAndWiden,
];
const RANKING: &[AlgorithmKind] = &[AlgorithmKind::Pulsar, AlgorithmKind::PulsarWaitAndWiden];
const WIDENING: &[AlgorithmKind] = &[AlgorithmKind::WaitAndWiden, AlgorithmKind::PulsarWaitAndWiden];
const RING: &[AlgorithmKind] = &[AlgorithmKind::WaitAndWiden];
const BANDS: &[AlgorithmKind] = &[AlgorithmKind::PulsarWaitAndWiden];

const fn row(of: &'static [AlgorithmKind], name: &'static str, place: Place<Draft>) -> Row {
    Row { field: Field { name, place }, of }
}

const SAMPLES_MAX: u64 = SampleCount::MAX as u64;

/// The table.
const ROWS: &[Row] = &[
    row(
        POWER,
        "sample_count",
        Place::Whole { at: |draft| &mut draft.sample_count, min: 1, max: SAMPLES_MAX },
    ),
    row(SEEDED, "seed", Place::Text { at: |draft| &mut draft.seed }),
    row(
        RANKING,
        "rendezvous_weight",
        Place::Word {
            read: |draft, text| Word::put(&mut draft.weight, text),
            write: |draft| draft.weight.as_str(),
            words: RendezvousWeight::words,
        },
    ),
    row(RANKING, "consider_kv_free_tokens", Place::Flag { at: |draft| &mut draft.consider_kv_free_tokens }),
    row(WIDENING, "n", Place::Whole { at: |draft| &mut draft.sample_count, min: 1, max: SAMPLES_MAX }),
    row(
        COMPARING,
        "comparator",
        Place::Word {
            read: |draft, text| Word::put(&mut draft.comparator, text),
            write: |draft| draft.comparator.as_str(),
            words: Comparator::words,
        },
    ),
    row(
        BANDS,
        "primary_admission",
        Place::Word {
            read: |draft, text| Word::put(&mut draft.primary_admission, text),
            write: |draft| draft.primary_admission.as_str(),
            words: PrimaryAdmission::words,
        },
    ),
    row(WIDENING, "max_queued", Place::Whole { at: |draft| &mut draft.max_queued, min: 0, max: u64::MAX }),
    row(
        BANDS,
        "fallback_max_queued",
        Place::Whole { at: |draft| &mut draft.fallback_max_queued, min: 0, max: u64::MAX },
    ),
    row(
        BANDS,
        "cache_affinity_wait_spread",
        Place::Number { at: |draft| &mut draft.wait_spread, min: 0.0, max: 1.0 },
    ),
    row(WIDENING, FLOOR, Place::OptionalWhole { at: |draft| &mut draft.queue_floor_ms, min: 0, max: DAY_MS }),
    row(WIDENING, CEIL, Place::OptionalWhole { at: |draft| &mut draft.queue_ceil_ms, min: 0, max: DAY_MS }),
    row(
        WIDENING,
        "ttft_bucket_size_ms",
        Place::Whole { at: |draft| &mut draft.bucket_ms, min: 1, max: DAY_MS },
    ),
    row(
        WIDENING,
        "next_bucket_unlock_factor",
        Place::Number { at: |draft| &mut draft.unlock_factor, min: 0.0, max: f64::MAX },
    ),
    row(WIDENING, "ignore_queue_time", Place::Flag { at: |draft| &mut draft.ignore_queue_time }),
    row(
        WIDENING,
        "ignore_input_processing_time",
        Place::Flag { at: |draft| &mut draft.ignore_input_processing_time },
    ),
    row(
        WIDENING,
        "unknown_concurrency",
        Place::Word {
            read: |draft, text| Word::put(&mut draft.unknown_concurrency, text),
            write: |draft| draft.unknown_concurrency.as_str(),
            words: UnknownConcurrency::words,
        },
    ),
    row(
        WIDENING,
        "cache_affinity_backend_selection_count",
        Place::Whole { at: |draft| &mut draft.group, min: 0, max: u32::MAX as u64 },
    ),
    row(
        RING,
        "cache_affinity_virtual_nodes",
        Place::Whole { at: |draft| &mut draft.virtual_nodes, min: 1, max: VirtualNodes::MAX as u64 },
    ),
    row(
        WIDENING,
        "cache_affinity_wait_ms",
        Place::Whole { at: |draft| &mut draft.wait_ms, min: 0, max: WAIT_MS_MAX },
    ),
    row(
        WIDENING,
        "cache_affinity_input_tokens_scale",
        Place::Number { at: |draft| &mut draft.scale, min: 0.0, max: 1.0 },
    ),
    row(
        BANDS,
        "band_widen_interval_ms",
        Place::OptionalWhole { at: |draft| &mut draft.band_ms, min: 0, max: WAIT_MS_MAX },
    ),
    row(
        &AlgorithmKind::ALL,
        "require_cache_affinity_key",
        Place::Flag { at: |draft| &mut draft.require_cache_affinity_key },
    ),
    row(
        &AlgorithmKind::ALL,
        "require_input_tokens",
        Place::Flag { at: |draft| &mut draft.require_input_tokens },
    ),
    row(
        &AlgorithmKind::ALL,
        "max_input_work_seconds",
        Place::OptionalPositive { at: |draft| &mut draft.max_input_work_seconds },
    ),
];

// === impl Method ===

impl Method {
    /// The algorithm with its defaults, changed by `fields`. A name that comes twice is taken as it comes last.
    ///
    /// # Errors
    /// The first field that is unknown, another algorithm's, or out of its bounds; or that does not go with
    /// the others.
    pub fn with_fields<'a>(
        kind: AlgorithmKind,
        fields: impl IntoIterator<Item = (&'a str, Scalar<'a>)>,
    ) -> Result<Self, FieldError> {
        let defaults = Self { algorithm: kind.with_defaults(), admission: Admission::default() };
        defaults.overlay(fields)
    }

    /// This method, changed by `fields`; everything else stays.
    ///
    /// # Errors
    /// As [`Method::with_fields`].
    pub fn overlay<'a>(
        &self,
        fields: impl IntoIterator<Item = (&'a str, Scalar<'a>)>,
    ) -> Result<Self, FieldError> {
        let kind = self.algorithm.kind();
        let mut draft = Draft::of(self);
        for (name, value) in fields {
            find(kind, name)?.read(&mut draft, &value)?;
        }
        draft.build(kind)
    }

    /// Every field with its value, in the order of the table; those that are not set are left out.
    pub fn fields(&self) -> Vec<(&'static str, Scalar<'static>)> {
        let mut draft = Draft::of(self);
        rows(self.algorithm.kind())
            .filter_map(|row| Some((row.field.name, row.field.write(&mut draft)?)))
            .collect()
    }

    /// Names of the fields that a method of this kind has.
    pub fn field_names(kind: AlgorithmKind) -> impl Iterator<Item = &'static str> {
        rows(kind).map(|row| row.field.name)
    }
}

fn rows(kind: AlgorithmKind) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.of.contains(&kind))
}

fn find(kind: AlgorithmKind, name: &str) -> Result<&'static Field<Draft>, FieldError> {
    let all = || ROWS.iter().filter(|row| row.field.name == name);
    if let Some(row) = all().find(|row| row.of.contains(&kind)) {
        return Ok(&row.field);
    }
    let others: Vec<&str> = all().flat_map(|row| row.of).map(|kind| kind.as_str()).collect();
    let found = if others.is_empty() {
        "an unknown field".to_owned()
    } else {
        format!("a field of {}, which {} does not use", others.join(", "), kind.as_str())
    };
    let allowed = format!("for {}: {}", kind.as_str(), listed(Method::field_names(kind)));
    Err(FieldError { field: excerpt(name), found, allowed })
}

// === impl Draft ===

impl Draft {
    fn of(method: &Method) -> Self {
        let Admission { require_cache_affinity_key, require_input_tokens, max_input_work_seconds } =
            method.admission;
        let draft =
            Self { require_cache_affinity_key, require_input_tokens, max_input_work_seconds, ..Self::new() };
        match &method.algorithm {
            Algorithm::PowerOfN(PowerOfNParameters { sample_count, comparator }) => {
                Self { sample_count: sample_count.get() as u64, comparator: *comparator, ..draft }
            }
            Algorithm::RoundRobin | Algorithm::Random => draft,
            Algorithm::Pulsar(PulsarParameters { seed, weight, consider_kv_free_tokens, comparator }) => {
                Self {
                    seed: seed.as_str().to_owned(),
                    weight: *weight,
                    consider_kv_free_tokens: *consider_kv_free_tokens,
                    comparator: *comparator,
                    ..draft
                }
            }
            Algorithm::WaitAndWiden(WaitAndWidenParameters { widening, affinity_group, virtual_nodes }) => {
                Self {
                    group: u64::from(*affinity_group),
                    virtual_nodes: u64::from(virtual_nodes.get()),
                    ..draft.with_widening(widening)
                }
            }
            Algorithm::PulsarWaitAndWiden(parameters) => Self {
                group: u64::from(parameters.affinity_group),
                weight: parameters.weight,
                consider_kv_free_tokens: parameters.consider_kv_free_tokens,
                primary_admission: parameters.primary_admission,
                fallback_max_queued: parameters.fallback_max_queued,
                wait_spread: parameters.affinity_wait_spread,
                band_ms: parameters.band_widen_interval.map(millis),
                ..draft.with_widening(&parameters.widening)
            },
        }
    }

    /// Values that no algorithm reads before they are set from one.
    fn new() -> Self {
        Self {
            seed: String::new(),
            sample_count: 1,
            comparator: Comparator::default(),
            weight: RendezvousWeight::default(),
            consider_kv_free_tokens: false,
            max_queued: 0,
            queue_floor_ms: None,
            queue_ceil_ms: None,
            bucket_ms: 1,
            unlock_factor: 0.0,
            ignore_queue_time: false,
            ignore_input_processing_time: false,
            unknown_concurrency: UnknownConcurrency::default(),
            group: 0,
            virtual_nodes: 1,
            wait_ms: 0,
            scale: 1.0,
            primary_admission: PrimaryAdmission::default(),
            fallback_max_queued: 0,
            wait_spread: 0.0,
            band_ms: None,
            require_cache_affinity_key: false,
            require_input_tokens: false,
            max_input_work_seconds: None,
        }
    }

    fn with_widening(self, widening: &Widening) -> Self {
        Self {
            seed: widening.seed.as_str().to_owned(),
            sample_count: widening.sample_count.get() as u64,
            comparator: widening.comparator,
            max_queued: widening.max_queued,
            queue_floor_ms: widening.queue_slo.map(|slo| millis(slo.floor())),
            queue_ceil_ms: widening.queue_slo.map(|slo| millis(slo.ceil())),
            bucket_ms: millis(widening.ttft_bucket_size),
            unlock_factor: widening.next_bucket_unlock_factor,
            ignore_queue_time: widening.ignore_queue_time,
            ignore_input_processing_time: widening.ignore_input_processing_time,
            unknown_concurrency: widening.unknown_concurrency,
            wait_ms: millis(widening.affinity_wait),
            scale: widening.affinity_input_tokens_scale,
            ..self
        }
    }

    fn build(self, kind: AlgorithmKind) -> Result<Method, FieldError> {
        let admission = Admission {
            require_cache_affinity_key: self.require_cache_affinity_key,
            require_input_tokens: self.require_input_tokens,
            max_input_work_seconds: self.max_input_work_seconds,
        };
        let sample_count = SampleCount::new(self.sample_count).unwrap_or_default();
        let algorithm = match kind {
            AlgorithmKind::PowerOfN => {
                Algorithm::PowerOfN(PowerOfNParameters { sample_count, comparator: self.comparator })
            }
            AlgorithmKind::RoundRobin => Algorithm::RoundRobin,
            AlgorithmKind::Random => Algorithm::Random,
            AlgorithmKind::Pulsar => Algorithm::Pulsar(PulsarParameters {
                seed: Seed::new(&self.seed),
                weight: self.weight,
                consider_kv_free_tokens: self.consider_kv_free_tokens,
                comparator: self.comparator,
            }),
            AlgorithmKind::WaitAndWiden => Algorithm::WaitAndWiden(WaitAndWidenParameters {
                widening: self.widening(sample_count)?,
                affinity_group: self.group as u32,
                virtual_nodes: VirtualNodes::new(self.virtual_nodes).unwrap_or_default(),
            }),
            AlgorithmKind::PulsarWaitAndWiden => {
                Algorithm::PulsarWaitAndWiden(PulsarWaitAndWidenParameters {
                    widening: self.widening(sample_count)?,
                    // There is no such thing as no primary.
                    affinity_group: self.group.max(1) as u32,
                    weight: self.weight,
                    consider_kv_free_tokens: self.consider_kv_free_tokens,
                    primary_admission: self.primary_admission,
                    fallback_max_queued: self.fallback_max_queued,
                    affinity_wait_spread: self.wait_spread,
                    band_widen_interval: self.band_ms.map(Duration::from_millis),
                })
            }
        };
        Ok(Method { algorithm, admission })
    }

    fn widening(&self, sample_count: SampleCount) -> Result<Widening, FieldError> {
        Ok(Widening {
            seed: Seed::new(&self.seed),
            sample_count,
            comparator: self.comparator,
            max_queued: self.max_queued,
            queue_slo: self.queue_slo()?,
            ttft_bucket_size: Duration::from_millis(self.bucket_ms),
            next_bucket_unlock_factor: self.unlock_factor,
            ignore_queue_time: self.ignore_queue_time,
            ignore_input_processing_time: self.ignore_input_processing_time,
            unknown_concurrency: self.unknown_concurrency,
            affinity_wait: Duration::from_millis(self.wait_ms),
            affinity_input_tokens_scale: self.scale,
        })
    }

    fn queue_slo(&self) -> Result<Option<QueueSlo>, FieldError> {
        let alone = |field, value, other| {
            FieldError::new(
                field,
                format!("{value} without `{other}`"),
                format!("`{FLOOR}` and `{CEIL}` together, or neither"),
            )
        };
        match (self.queue_floor_ms, self.queue_ceil_ms) {
            (None, None) => Ok(None),
            (Some(floor), None) => Err(alone(FLOOR, floor, CEIL)),
            (None, Some(ceil)) => Err(alone(CEIL, ceil, FLOOR)),
            (Some(floor), Some(ceil)) => {
                match QueueSlo::new(Duration::from_millis(floor), Duration::from_millis(ceil)) {
                    Some(slo) => Ok(Some(slo)),
                    None => Err(FieldError::new(
                        FLOOR,
                        format!("{floor} above `{CEIL}` = {ceil}"),
                        format!("at most `{CEIL}`"),
                    )),
                }
            }
        }
    }
}

/// Times come from whole milliseconds, and so are whole milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

// === impl Word ===

macro_rules! word {
    ($($kind:ident),*) => {
        $(impl Word for $kind {
            const ALL: &'static [Self] = &Self::ALL;
            fn word(self) -> &'static str {
                self.as_str()
            }
        })*
    };
}

word!(Comparator, RendezvousWeight, UnknownConcurrency, PrimaryAdmission, WaitOrder);
