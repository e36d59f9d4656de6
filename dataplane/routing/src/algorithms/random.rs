//! random: a uniformly random eligible cluster.

use crate::{ClusterIndex, request::eligible::Eligible};

/// `None` when none is eligible.
pub(crate) fn choose(eligible: &Eligible, rng: &mut fastrand::Rng) -> Option<ClusterIndex> {
    match eligible.count() {
        0 => None,
        count => Some(eligible.nth(rng.u32(0..count))),
    }
}

#[cfg(test)]
mod tests;
