//! Who can be selected, in which set, and how it was when the decision looked at it. Plain values, which a trace is told of
//! and an explanation shows.

use super::{
    moment::{BucketTtft, Moment},
    widening::Widening,
};
use crate::{ClusterIndex, load::Attempts};

/// Which of its sets an algorithm selects from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetKind {
    /// The affinity group of the key.
    Group,
    /// What is open beyond it, the group included.
    Open,
}

/// A set of candidates, as far as what applies to them differs from set to set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CandidateSet {
    pub(crate) kind: SetKind,
    /// Multiplies the request's own prefill.
    pub(crate) prefill_scale: f64,
    /// Requests beyond the slots of a cluster that may queue there.
    pub(crate) max_queued: u64,
    /// When its buckets began to open.
    pub(crate) since: Moment,
    /// For keys that are at home elsewhere: of little room these take the gateway's share only, waiting or not.
    pub(crate) is_overflow: bool,
}

/// A cluster of the set, as it was when the decision looked at it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Candidate {
    pub(crate) cluster: u32,
    /// Whether it has capacity and its queue delay is allowed.
    pub(crate) is_admitting: bool,
    /// What its bucket is found by.
    pub(crate) bucket_ttft: BucketTtft,
    pub(crate) seen: Attempts,
}

/// Who was selected, and how many attempts were seen there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Picked {
    pub(crate) cluster: ClusterIndex,
    pub(crate) seen: Attempts,
}

/// The range of bucket times of some candidates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeRange {
    pub(crate) fastest: BucketTtft,
    pub(crate) slowest: BucketTtft,
}

// === impl CandidateSet ===

impl CandidateSet {
    /// An affinity group: its prefixes are cached, and its buckets open from the arrival on.
    pub(crate) fn group(widening: &Widening) -> Self {
        Self {
            kind: SetKind::Group,
            prefill_scale: widening.affinity_input_tokens_scale,
            max_queued: widening.max_queued,
            since: Moment::ZERO,
            is_overflow: false,
        }
    }

    /// What is open at full prefill from `since` on.
    pub(crate) fn open(max_queued: u64, since: Moment) -> Self {
        Self { kind: SetKind::Open, prefill_scale: 1.0, max_queued, since, is_overflow: false }
    }

    /// What is open from `since` on, at full prefill, to a key that is at home elsewhere.
    pub(crate) fn overflow(max_queued: u64, since: Moment) -> Self {
        Self { is_overflow: true, ..Self::open(max_queued, since) }
    }
}

// === impl Candidate ===

impl Candidate {
    pub(crate) fn cluster(&self) -> ClusterIndex {
        ClusterIndex(self.cluster as usize)
    }
}
