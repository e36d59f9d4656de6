//! round-robin: eligible clusters in turn.
//!
//! All cores draw from one cursor a target, so that the turns of the whole gateway are even, not only those
//! of each core. That is one contended counter a request; the other algorithms share nothing to choose.

pub(crate) mod cursor;

use super::question::Question;
use crate::selection::{
    choice::{Choice, NoChoice},
    trace::Trace,
};

/// The eligible cluster whose turn it is.
pub(crate) fn choose<T: Trace>(question: &Question<'_>, _: &T) -> Result<Choice, NoChoice> {
    let Question { round_robin: cursor, eligible, .. } = *question;
    let turn = if T::TAKES_TURNS { cursor.next() } else { cursor.peek() };
    let rank = turn.checked_rem(u64::from(eligible.count())).ok_or(NoChoice::NONE_ELIGIBLE)?;
    Ok(Choice::whatever_its_load(eligible.nth(rank as u32)))
}

#[cfg(test)]
mod tests;
