//! random: a uniformly random eligible cluster.

use super::question::Question;
use crate::selection::choice::{Choice, NoChoice};

/// Any of the eligible clusters.
pub(crate) fn choose(question: &Question<'_>, rng: &mut fastrand::Rng) -> Result<Choice, NoChoice> {
    match question.eligible.count() {
        0 => Err(NoChoice::NONE_ELIGIBLE),
        count => Ok(Choice::whatever_its_load(question.eligible.nth(rng.u32(0..count)))),
    }
}

#[cfg(test)]
mod tests;
