//! How a cluster is chosen, as configured per target. Values are valid by construction.

/// A routing algorithm with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Algorithm {
    /// Samples `sample_count` distinct eligible clusters uniformly; the comparator picks.
    PowerOfN {
        /// How many to sample.
        sample_count: SampleCount,
        /// Who wins.
        comparator: Comparator,
    },
    /// Eligible clusters in turn.
    RoundRobin,
    /// A uniformly random eligible cluster.
    Random,
    /// The first eligible cluster of the key's weighted rendezvous ranking.
    Pulsar(PulsarParameters),
}

/// Parameters of pulsar.
#[derive(Clone, Debug, PartialEq)]
pub struct PulsarParameters {
    /// Enters every ranking hash: another seed is another ranking.
    pub seed: u64,
    /// What a cluster's share of keys is proportional to.
    pub weight: RendezvousWeight,
    /// Whether a cluster without enough reported free KV tokens is walked past.
    pub consider_kv_free_tokens: bool,
    /// Decides for requests that have no affinity key, and so no ranking: a sample of two by this
    /// comparator, among all clusters that are not excluded, whatever their weight and free KV tokens.
    pub comparator: Comparator,
}

/// Which reported capacity weighs a cluster in rendezvous hashing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// A sample size within 1..=64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleCount(u8);

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

impl Default for Algorithm {
    fn default() -> Self {
        Self::PowerOfN { sample_count: SampleCount::default(), comparator: Comparator::default() }
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
}
