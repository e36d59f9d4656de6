//! How a cluster is chosen: an algorithm with its parameters. Values are valid by construction.

pub(crate) mod power_of_n;
pub(crate) mod pulsar;
pub(crate) mod pulsar_wait_and_widen;
pub(crate) mod random;
pub(crate) mod round_robin;
pub(crate) mod wait_and_widen;

use std::{sync::Arc, time::Duration};

use xxhash_rust::xxh3::xxh3_64;

use crate::{Seconds, Slot};

/// A routing algorithm with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Algorithm {
    /// Samples distinct eligible clusters uniformly; the comparator picks.
    PowerOfN(PowerOfNParameters),
    /// Eligible clusters in turn.
    RoundRobin,
    /// A uniformly random eligible cluster.
    Random,
    /// The first eligible cluster of the key's weighted rendezvous ranking.
    Pulsar(PulsarParameters),
    /// Buckets of time to first token that open with waiting, behind an affinity group.
    WaitAndWiden(WaitAndWidenParameters),
    /// The same over bands of the key's ranking.
    PulsarWaitAndWiden(PulsarWaitAndWidenParameters),
}

/// Which algorithm, without its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as in Algorithm")]
pub enum AlgorithmKind {
    PowerOfN,
    RoundRobin,
    Random,
    Pulsar,
    WaitAndWiden,
    PulsarWaitAndWiden,
}

/// Parameters of power-of-n.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PowerOfNParameters {
    /// How many to sample.
    pub sample_count: SampleCount,
    /// Who wins.
    pub comparator: Comparator,
}

/// Parameters of pulsar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PulsarParameters {
    /// Enters every ranking hash: another seed is another ranking.
    pub seed: Seed,
    /// What a cluster's share of keys is proportional to.
    pub weight: RendezvousWeight,
    /// Whether a cluster without enough reported free KV tokens is walked past.
    pub consider_kv_free_tokens: bool,
    /// Decides for requests that have no affinity key, and so no ranking: a sample of two by this
    /// comparator, among all clusters that are not excluded, whatever their weight and free KV tokens.
    pub comparator: Comparator,
}

/// Parameters of wait-and-widen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitAndWidenParameters {
    /// Buckets, capacity and the affinity wait.
    pub widening: Widening,
    /// Clusters in the affinity group of a key; 0 is no group.
    pub affinity_group: u32,
    /// Points of each cluster on the ring that affinity groups are taken from.
    pub virtual_nodes: VirtualNodes,
}

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

/// Bounds of the queue delay that is allowed: from the floor at arrival to the ceiling at the request's SLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSlo {
    floor: Duration,
    ceil: Duration,
}

/// Which reported capacity weighs a cluster in rendezvous hashing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RendezvousWeight {
    /// `max_input_tps`.
    #[default]
    MaxInputTps,
    /// `last_mean_input_tps`.
    LastMeanInputTps,
}

/// Who wins among sampled candidates; lower is better, ties are broken at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comparator {
    /// Time to first token: rtt + queue delay + prefill.
    #[default]
    Ttft,
    /// The same, counting queued work even while a slot is free.
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

/// What a cluster counts as that reports no `max_engine_concurrency`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownConcurrency {
    /// It always has capacity.
    #[default]
    Free,
    /// It never has.
    Full,
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

/// A sample size within 1..=64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleCount(u8);

/// Points of one cluster on a consistent-hash ring, within 1..=1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VirtualNodes(u16);

/// What operators change to get other rankings and groups: any text, empty by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    text: Arc<str>,
    hash: u64,
}

// === impl Algorithm ===

impl Algorithm {
    /// Which one it is.
    pub fn kind(&self) -> AlgorithmKind {
        match self {
            Self::PowerOfN(_) => AlgorithmKind::PowerOfN,
            Self::RoundRobin => AlgorithmKind::RoundRobin,
            Self::Random => AlgorithmKind::Random,
            Self::Pulsar(_) => AlgorithmKind::Pulsar,
            Self::WaitAndWiden(_) => AlgorithmKind::WaitAndWiden,
            Self::PulsarWaitAndWiden(_) => AlgorithmKind::PulsarWaitAndWiden,
        }
    }

    /// The seed and the weight that it ranks clusters by; `None` when it has no rendezvous ranking.
    pub fn ranked_by(&self) -> Option<(&Seed, RendezvousWeight)> {
        match self {
            Self::Pulsar(parameters) => Some((&parameters.seed, parameters.weight)),
            Self::PulsarWaitAndWiden(parameters) => Some((&parameters.widening.seed, parameters.weight)),
            Self::PowerOfN(_) | Self::RoundRobin | Self::Random | Self::WaitAndWiden(_) => None,
        }
    }
}

impl Default for Algorithm {
    fn default() -> Self {
        Self::PowerOfN(PowerOfNParameters::default())
    }
}

// === impl AlgorithmKind ===

impl AlgorithmKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::PowerOfN,
        Self::RoundRobin,
        Self::Random,
        Self::Pulsar,
        Self::WaitAndWiden,
        Self::PulsarWaitAndWiden,
    ];

    /// Its name in configuration, metrics and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PowerOfN => "power-of-n",
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::Pulsar => "pulsar",
            Self::WaitAndWiden => "wait-and-widen",
            Self::PulsarWaitAndWiden => "pulsar-wait-and-widen",
        }
    }

    /// Reads a name or one of the field's aliases. Case is ignored, `_` reads as `-`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().replace('_', "-").as_str() {
            "power-of-n" | "powerofn" | "powerof2" | "power-of-two" => Some(Self::PowerOfN),
            "round-robin" => Some(Self::RoundRobin),
            "random" => Some(Self::Random),
            "pulsar" => Some(Self::Pulsar),
            "wait-and-widen" | "groq-multiregion" => Some(Self::WaitAndWiden),
            "pulsar-wait-and-widen" | "pulsar-multiregion" => Some(Self::PulsarWaitAndWiden),
            _ => None,
        }
    }

    /// The algorithm with default parameters.
    pub fn with_defaults(self) -> Algorithm {
        match self {
            Self::PowerOfN => Algorithm::PowerOfN(PowerOfNParameters::default()),
            Self::RoundRobin => Algorithm::RoundRobin,
            Self::Random => Algorithm::Random,
            Self::Pulsar => Algorithm::Pulsar(PulsarParameters::default()),
            Self::WaitAndWiden => Algorithm::WaitAndWiden(WaitAndWidenParameters::default()),
            Self::PulsarWaitAndWiden => {
                Algorithm::PulsarWaitAndWiden(PulsarWaitAndWidenParameters::default())
            }
        }
    }
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

    /// Ranks in the affinity group: at least the primary.
    pub(crate) fn affinity_group_ranks(&self) -> usize {
        self.affinity_group.max(1) as usize
    }
}

// === impl QueueSlo ===

impl QueueSlo {
    /// `None` when the floor is above the ceiling.
    pub fn new(floor: Duration, ceil: Duration) -> Option<Self> {
        (floor <= ceil).then_some(Self { floor, ceil })
    }

    /// The delay allowed at arrival.
    pub fn floor(self) -> Duration {
        self.floor
    }

    /// The delay allowed from the SLO on, and without one.
    pub fn ceil(self) -> Duration {
        self.ceil
    }
}

// === impl RendezvousWeight ===

impl RendezvousWeight {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::MaxInputTps, Self::LastMeanInputTps];

    /// Its name in configuration and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MaxInputTps => "max-input-tps",
            Self::LastMeanInputTps => "last-mean-input-tps",
        }
    }
}

// === impl Comparator ===

impl Comparator {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Ttft,
        Self::TtftBacklog,
        Self::QueueTime,
        Self::InputWorkSeconds,
        Self::Utilization,
        Self::NumRequestsQueued,
    ];

    /// Its name in configuration and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::TtftBacklog => "ttft-backlog",
            Self::QueueTime => "queue-time",
            Self::InputWorkSeconds => "input-work-seconds",
            Self::Utilization => "utilization",
            Self::NumRequestsQueued => "num-requests-queued",
        }
    }
}

// === impl UnknownConcurrency ===

impl UnknownConcurrency {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Free, Self::Full];

    /// Its name in configuration and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Full => "full",
        }
    }
}

// === impl PrimaryAdmission ===

impl PrimaryAdmission {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Eligible, Self::Capacity];

    /// Its name in configuration and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Eligible => "eligible",
            Self::Capacity => "capacity",
        }
    }
}

// === impl SampleCount ===

impl SampleCount {
    /// The largest sample.
    pub const MAX: u8 = 64;

    /// Both of "the power of two choices" (Mitzenmacher, 2001).
    pub(crate) const TWO: Self = Self(2);

    /// `None` outside 1..=64.
    pub fn new(count: u64) -> Option<Self> {
        u8::try_from(count).ok().filter(|count| (1..=Self::MAX).contains(count)).map(Self)
    }

    /// The count.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl Default for SampleCount {
    fn default() -> Self {
        Self::TWO
    }
}

// === impl VirtualNodes ===

impl VirtualNodes {
    /// The most.
    pub const MAX: u16 = 1024;

    /// `None` outside 1..=1024.
    pub fn new(count: u64) -> Option<Self> {
        u16::try_from(count).ok().filter(|count| (1..=Self::MAX).contains(count)).map(Self)
    }

    /// The count.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl Default for VirtualNodes {
    /// Evens the clusters' shares of a ring out to within about a tenth.
    fn default() -> Self {
        Self(150)
    }
}

// === impl Seed ===

impl Seed {
    /// A seed of this text.
    pub fn new(text: &str) -> Self {
        // The empty seed is none: its hash starts every chain at 0.
        Self { text: text.into(), hash: if text.is_empty() { 0 } else { xxh3_64(text.as_bytes()) } }
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What enters hashes.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

impl Default for Seed {
    fn default() -> Self {
        Self::new("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_counts_are_within_1_and_64() {
        for (count, expected) in
            [(0, None), (1, Some(1)), (64, Some(64)), (65, None), (257, None), (u64::MAX, None)]
        {
            assert_eq!(SampleCount::new(count).map(SampleCount::get), expected, "{count}");
        }
        assert_eq!(SampleCount::default().get(), 2);
    }

    #[test]
    fn virtual_nodes_are_within_1_and_1024() {
        for (count, expected) in [(0, None), (1, Some(1)), (1024, Some(1024)), (1025, None), (65_537, None)] {
            assert_eq!(VirtualNodes::new(count).map(VirtualNodes::get), expected, "{count}");
        }
        assert_eq!(VirtualNodes::default().get(), 150);
    }

    #[test]
    fn a_floor_above_the_ceiling_is_no_queue_slo() {
        let ms = Duration::from_millis;
        assert!(QueueSlo::new(ms(3), ms(2)).is_none());
        let equal = QueueSlo::new(ms(2), ms(2)).unwrap();
        assert_eq!((equal.floor(), equal.ceil()), (ms(2), ms(2)));
    }

    #[test]
    fn names_and_aliases_are_read() {
        for kind in AlgorithmKind::ALL {
            assert_eq!(AlgorithmKind::parse(kind.as_str()), Some(kind));
            assert_eq!(AlgorithmKind::parse(&kind.as_str().to_uppercase().replace('-', "_")), Some(kind));
            assert_eq!(kind.with_defaults().kind(), kind);
        }
        for (alias, kind) in [
            ("powerOfN", AlgorithmKind::PowerOfN),
            ("powerOf2", AlgorithmKind::PowerOfN),
            ("power-of-two", AlgorithmKind::PowerOfN),
            ("groq_multiregion", AlgorithmKind::WaitAndWiden),
            ("pulsar-multiregion", AlgorithmKind::PulsarWaitAndWiden),
        ] {
            assert_eq!(AlgorithmKind::parse(alias), Some(kind), "{alias}");
        }
        assert_eq!(AlgorithmKind::parse("best"), None);
    }
}
