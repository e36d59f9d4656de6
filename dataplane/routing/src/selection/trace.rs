//! What a decision tells of itself while it is made.
//!
//! The live decision is the same code with [`NoTrace`], every call to which compiles to nothing.

use super::candidate::{Candidate, CandidateSet, SetKind};
use crate::ClusterIndex;

/// Hears of the steps of a decision.
pub(crate) trait Trace {
    /// Whether the decision moves the turns of round robin on. One that only explains leaves them alone.
    const TAKES_TURNS: bool;

    /// A set is about to be selected from.
    fn considers(&mut self, set: &CandidateSet, candidates: &[Candidate]);

    /// A candidate was sampled.
    fn samples(&mut self, set: SetKind, cluster: ClusterIndex, cost: f64);
}

/// Hears nothing.
pub(crate) struct NoTrace;

/// Hears nothing of a decision that nobody acts on.
pub(crate) struct DryRun;

// === impl DryRun ===

impl Trace for DryRun {
    const TAKES_TURNS: bool = false;

    fn considers(&mut self, _: &CandidateSet, _: &[Candidate]) {}

    fn samples(&mut self, _: SetKind, _: ClusterIndex, _: f64) {}
}

// === impl NoTrace ===

impl Trace for NoTrace {
    const TAKES_TURNS: bool = true;

    fn considers(&mut self, _: &CandidateSet, _: &[Candidate]) {}

    fn samples(&mut self, _: SetKind, _: ClusterIndex, _: f64) {}
}
