//! The shape of an explanation: plain data, for answers and tables.

use std::{sync::Arc, time::Duration};

use crate::{AdmissionRefusal, AlgorithmKind, ClusterIndex, Decision, Seconds, Tokens};

/// A decision and what it was made of.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What was decided. Where chance plays a part, one of the decisions that are possible.
    pub decision: Decision,
    /// How.
    pub algorithm: AlgorithmKind,
    /// Whether the request would be let in on its arrival.
    pub admission: Result<(), AdmissionRefusal>,
    /// The best time to first token of any cluster that may be selected, by which waiters are given up;
    /// `None` when it has no bound or there is no such cluster.
    pub best_ttft: Option<Seconds>,
    /// The queue delay that is allowed now; `None` when it has no bound.
    pub queue_delay_allowed: Option<Seconds>,
    /// When, counted from the arrival, the request stops being held for its affinity group; `None` without one.
    pub affinity_wait_ends: Option<Duration>,
    /// The slot of the affinity key, for algorithms that rank.
    pub slot: Option<u32>,
    /// One row for each cluster of the target, in its order.
    pub clusters: Vec<ExplainedCluster>,
}

/// One cluster, as a decision saw it.
#[derive(Clone, Debug)]
pub struct ExplainedCluster {
    /// Its position in the target.
    pub cluster: ClusterIndex,
    /// What operators call it.
    pub cluster_id: Arc<str>,
    /// What became of it.
    pub verdict: Verdict,
    /// Whether it, or every backend of it, has failed within this request.
    pub is_excluded: bool,
    /// Requests running: the larger of what it reports and what this gateway has in flight.
    pub num_running_queries: u64,
    /// Its slots; 0 when not reported.
    pub max_engine_concurrency: u64,
    /// Requests queued, likewise the larger.
    pub queue_size: u64,
    /// Input tokens queued, likewise the larger.
    pub queued_input: Tokens,
    /// Round-trip time.
    pub rtt: Seconds,
    /// How long the request would wait there before its prefill.
    pub queue_delay: Seconds,
    /// How long its prefill would take.
    pub prefill: Seconds,
    /// The sum of these three.
    pub ttft: Seconds,
    /// Free KV tokens, as far as known.
    pub kv_free: Option<Tokens>,
    /// Whether these are enough; `None` when the algorithm does not ask.
    pub is_kv_feasible: Option<bool>,
    /// Its weight in the ranking; `None` without one.
    pub weight: Option<f64>,
    /// Position in the key's full ranking, from 1; `None` without a ranking, a key or a weight.
    pub rank: Option<u32>,
    /// Whether it is in the key's affinity group.
    pub is_in_group: bool,
    /// The band of its rank, where ranks open in bands.
    pub band: Option<Band>,
    /// How it fares in the affinity group.
    pub in_group: Option<Candidacy>,
    /// How it fares in the set beyond the group, or the only one. Before that is open, as if it were as soon
    /// as it is.
    pub in_open_set: Option<Candidacy>,
    /// Its cost by the comparator in the set where it was sampled last; lower is better.
    pub cost: Option<f64>,
}

/// The ranks that open together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// 0 for the affinity group, then 1, 2, ….
    pub number: u32,
    /// When it opens, counted from the arrival.
    pub opens_at: Duration,
}

/// How a candidate fares in one set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidacy {
    /// The request's own prefill, scaled as in this set.
    pub prefill: Seconds,
    /// The time that its bucket is found by, less what bucket formation ignores.
    pub bucket_ttft: Seconds,
    /// Its bucket, from 1.
    pub bucket: u32,
    /// When that opens, counted from the arrival; `None` when it never does.
    pub unlocks_at: Option<Duration>,
    /// Whether it is open.
    pub is_unlocked: bool,
    /// Requests beyond its slots that may queue there.
    pub max_queued: u64,
    /// Whether it has capacity under that.
    pub has_capacity: bool,
    /// Whether its queue delay is allowed.
    pub is_queue_delay_allowed: bool,
    /// Whether it was sampled.
    pub is_sampled: bool,
}

/// What became of a cluster, and why it was not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It was chosen.
    Chosen,
    /// It has failed within this request.
    Excluded,
    /// It has no weight, and so no rank.
    NoWeight,
    /// Its free KV tokens are unknown or too few.
    KvShort,
    /// A better-ranked cluster was taken.
    RankedLower,
    /// Its set was not looked at: the primary or the group had a place, or the request is held for the group.
    NotConsidered,
    /// Its band of ranks is not open yet.
    BandLocked,
    /// Its bucket is not open yet.
    BucketLocked,
    /// It has no capacity, or none of this gateway's for one who waits.
    Full,
    /// Its queue delay is longer than is allowed, or than the key waits.
    QueueTooLong,
    /// It was not among those sampled.
    NotSampled,
    /// It was sampled, and another was better or won the tie.
    Outdone,
    /// It was not its turn.
    NotItsTurn,
}

// === impl Explanation ===

impl Explanation {
    /// The row of the chosen cluster.
    pub fn chosen(&self) -> Option<&ExplainedCluster> {
        self.clusters.iter().find(|row| row.verdict == Verdict::Chosen)
    }
}

// === impl Verdict ===

impl Verdict {
    /// Its name in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chosen => "chosen",
            Self::Excluded => "excluded",
            Self::NoWeight => "no_weight",
            Self::KvShort => "kv_short",
            Self::RankedLower => "ranked_lower",
            Self::NotConsidered => "not_considered",
            Self::BandLocked => "band_locked",
            Self::BucketLocked => "bucket_locked",
            Self::Full => "full",
            Self::QueueTooLong => "queue_too_long",
            Self::NotSampled => "not_sampled",
            Self::Outdone => "outdone",
            Self::NotItsTurn => "not_its_turn",
        }
    }
}
