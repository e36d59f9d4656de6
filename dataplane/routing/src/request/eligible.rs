//! Which clusters a request may still go to.
//!
//! Nearly every request has excluded nothing: then all clusters are eligible, and finding that out costs
//! nothing. A retry pays one pass over the target and remembers the few positions to skip, so that every
//! algorithm sees eligible clusters as the gapless ranks 0..count.

use crate::{Cluster, ClusterIndex, Exclusions};

/// The eligible clusters of one target in one request: all positions below `end` that are not in `skipped`.
#[derive(Debug)]
pub(crate) struct Eligible {
    end: usize,
    skipped: [u32; SKIPPED_MAX],
    skipped_len: usize,
}

/// Uids are unique in a target, so at most [`Exclusions::CAPACITY`] clusters are excluded as such, and at
/// most as many lose all of their backends.
const SKIPPED_MAX: usize = 2 * Exclusions::CAPACITY;

// === impl Eligible ===

impl Eligible {
    /// A cluster is eligible when it is not excluded and has a backend that is not.
    pub(crate) fn new(clusters: &[Cluster], exclusions: &Exclusions) -> Self {
        let mut eligible = Self { end: clusters.len(), skipped: [0; SKIPPED_MAX], skipped_len: 0 };
        if exclusions.is_empty() {
            return eligible;
        }
        for (index, cluster) in clusters.iter().enumerate() {
            if is_eligible(cluster, exclusions) {
                continue;
            }
            let Some(slot) = eligible.skipped.get_mut(eligible.skipped_len) else {
                // Only a target that repeats uids comes here. Nothing excluded is ever selected, even so.
                eligible.end = index;
                break;
            };
            *slot = index as u32;
            eligible.skipped_len += 1;
        }
        eligible
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        (self.end - self.skipped_len) as u32
    }

    /// The eligible cluster that has `rank` eligible ones before it; `rank` is below `count`.
    pub(crate) fn nth(&self, rank: u32) -> ClusterIndex {
        debug_assert!(rank < self.count());
        let mut index = rank as usize;
        for excluded in self.excluded() {
            if excluded > index {
                break;
            }
            index += 1;
        }
        ClusterIndex(index)
    }

    /// Whether the cluster is one of them.
    pub(crate) fn has(&self, cluster: ClusterIndex) -> bool {
        cluster.0 < self.end && self.excluded().all(|excluded| excluded != cluster.0)
    }

    /// The positions of all eligible clusters, ascending.
    pub(crate) fn indices(&self) -> impl Iterator<Item = usize> {
        let mut excluded = self.excluded();
        // Positions are below this: with nothing excluded, all that is left of it is one comparison each.
        let mut next_excluded = excluded.next().unwrap_or(usize::MAX);
        (0..self.end).filter(move |index| {
            let is_eligible = *index != next_excluded;
            if !is_eligible {
                next_excluded = excluded.next().unwrap_or(usize::MAX);
            }
            is_eligible
        })
    }

    /// The positions of the clusters that are not eligible, ascending.
    pub(crate) fn excluded(&self) -> impl Iterator<Item = usize> {
        self.skipped[..self.skipped_len].iter().map(|index| *index as usize)
    }
}

fn is_eligible(cluster: &Cluster, exclusions: &Exclusions) -> bool {
    !exclusions.has_cluster(cluster.uid)
        && cluster.backends.iter().any(|backend| !exclusions.has_backend(backend.uid))
}

#[cfg(test)]
mod tests;
