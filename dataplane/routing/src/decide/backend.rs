//! Which backend of the chosen cluster takes the request: those that are not excluded, in turn.

use std::sync::Arc;

use crate::{Backend, Cluster, Exclusions};

/// `None` when every backend is excluded. A single candidate takes no turn, and so touches no counter that
/// cores share; without `takes_turn` none does.
pub(crate) fn choose<'a>(
    cluster: &'a Cluster,
    exclusions: &Exclusions,
    takes_turn: bool,
) -> Option<&'a Arc<Backend>> {
    let turn = |candidates: usize| match candidates {
        1 => Some(0),
        _ if takes_turn => (cluster.load.next_backend() as usize).checked_rem(candidates),
        _ => (cluster.load.peek_backend() as usize).checked_rem(candidates),
    };
    if exclusions.is_empty() {
        return cluster.backends.get(turn(cluster.backends.len())?);
    }
    let mut candidates = cluster.backends.iter().filter(|backend| !exclusions.has_backend(backend.uid));
    let count = candidates.clone().count();
    candidates.nth(turn(count)?)
}

#[cfg(test)]
mod tests;
