//! What one core keeps from decision to decision: randomness, and room to work in.

/// One core's state. Decisions differ by it in nothing but their random choices.
#[derive(Debug)]
pub struct DecisionState {
    pub(crate) rng: fastrand::Rng,
}

// === impl DecisionState ===

impl DecisionState {
    /// A state whose random choices follow from `seed`.
    pub fn with_seed(seed: u64) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed) }
    }

    /// A state of its own randomness.
    pub fn new() -> Self {
        Self { rng: fastrand::Rng::new() }
    }
}

impl Default for DecisionState {
    fn default() -> Self {
        Self::new()
    }
}
