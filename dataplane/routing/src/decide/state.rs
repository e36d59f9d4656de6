//! What one core keeps from decision to decision: its load, randomness, and room to work in.

use std::rc::Rc;

use crate::{CoreLoads, algorithms::workspace::Workspace};

/// One core's state. But for the load that only this core knows of, decisions differ by it in nothing but their
/// random choices.
#[derive(Debug)]
pub struct DecisionState {
    pub(crate) loads: Rc<CoreLoads>,
    pub(crate) work: Workspace,
}

// === impl DecisionState ===

impl DecisionState {
    /// A state whose random choices follow from `seed`, of a core that shares clusters with no other.
    pub fn with_seed(seed: u64) -> Self {
        Self::with_rng(fastrand::Rng::with_seed(seed))
    }

    /// A state of its own randomness, of a core that shares clusters with no other. Decisions that are not acted on
    /// see by it what all cores know.
    pub fn new() -> Self {
        Self::with_rng(fastrand::Rng::new())
    }

    /// This state, for the core that these loads are of.
    #[must_use]
    pub fn with_loads(self, loads: CoreLoads) -> Self {
        Self { loads: Rc::new(loads), ..self }
    }

    /// What the core has sent to clusters.
    pub fn loads(&self) -> &Rc<CoreLoads> {
        &self.loads
    }

    fn with_rng(rng: fastrand::Rng) -> Self {
        Self { loads: Rc::default(), work: Workspace::new(rng) }
    }
}

impl Default for DecisionState {
    fn default() -> Self {
        Self::new()
    }
}
