//! What an algorithm comes to: a cluster, or why none.

use super::candidate::Picked;
use crate::{ClusterIndex, Decision, UnavailableReason, Wait, load::Attempts};

/// A cluster that an algorithm settled on, and how it came there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) cluster: ClusterIndex,
    pub(crate) rank: u32,
    pub(crate) is_fallback: bool,
    pub(crate) after_kv_skip: bool,
    /// The attempts that were seen there when it was chosen; `None` when load did not matter. Its stats are not carried
    /// along: to read them again takes less time than to copy them.
    pub(crate) seen: Option<Attempts>,
}

/// Why no cluster was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoChoice {
    /// One will be, at a known time or sooner.
    Wait(Wait),
    /// None can be, as things are.
    Unavailable(UnavailableReason),
}

// === impl Choice ===

impl Choice {
    /// What was selected for its load.
    pub(crate) fn selected(picked: Picked, rank: u32, is_fallback: bool) -> Self {
        Self { rank, is_fallback, seen: Some(picked.seen), ..Self::whatever_its_load(picked.cluster) }
    }

    /// The first choice, whatever its load is.
    pub(crate) fn whatever_its_load(cluster: ClusterIndex) -> Self {
        Self { cluster, rank: 1, is_fallback: false, after_kv_skip: false, seen: None }
    }
}

// === impl NoChoice ===

impl NoChoice {
    /// No candidate satisfies what the algorithm needs.
    pub(crate) const NONE_ELIGIBLE: Self = Self::Unavailable(UnavailableReason::NoEligibleCandidate);
}

impl From<NoChoice> for Decision {
    fn from(value: NoChoice) -> Self {
        match value {
            NoChoice::Wait(wait) => Self::Wait(wait),
            NoChoice::Unavailable(reason) => Self::Unavailable(reason),
        }
    }
}
