//! Which of this gateway's attempts a backend's latest report already counts: the exact handover of a
//! reservation to reported stats.
//!
//! A core numbers its attempts at each backend from 1, without gaps, and stamps each with its number. A publisher
//! that has seen a number knows by it which others are still on their way.

use std::sync::Arc;

use crate::{BackendUid, ClusterUid};

/// What the latest report of one model by one backend says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inclusion {
    /// Position of that report among all that the control plane took: the greater is the later.
    pub report: u64,
    /// By core, ordered by `core`; a core that is not there has nothing included.
    pub cores: Box<[CoreInclusion]>,
}

/// The attempts of one core that a report includes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreInclusion {
    /// CPU number of the core.
    pub core: u32,
    /// Everything up to this number is included, but for the exceptions.
    pub through: u64,
    /// Numbers below `through` that are not included, in order.
    pub except: Box<[u64]>,
}

/// The inclusions that a snapshot holds: one a (target, backend) that publishes them, also while it has included
/// nothing yet. Copies share what they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inclusions {
    ordered: Arc<[(ClusterUid, BackendUid, Arc<Inclusion>)]>,
}

// === impl Inclusion ===

impl Inclusion {
    /// What is included of this core's attempts; `None` when nothing is.
    pub fn of_core(&self, core: u32) -> Option<&CoreInclusion> {
        let index = self.cores.binary_search_by_key(&core, |entry| entry.core).ok()?;
        self.cores.get(index)
    }
}

// === impl CoreInclusion ===

impl CoreInclusion {
    /// Whether the attempt of this number is included.
    pub fn includes(&self, sequence: u64) -> bool {
        sequence <= self.through && self.except.binary_search(&sequence).is_err()
    }
}

// === impl Inclusions ===

impl Inclusions {
    /// Of these, in any order; of two for one (target, backend) one is kept.
    pub fn new(mut entries: Vec<(ClusterUid, BackendUid, Arc<Inclusion>)>) -> Self {
        entries.sort_by_key(|(cluster, backend, _)| (*cluster, *backend));
        entries.dedup_by_key(|(cluster, backend, _)| (*cluster, *backend));
        Self { ordered: entries.into() }
    }

    /// The inclusion of this backend in this (target, cluster), where it publishes one.
    pub fn get(&self, cluster: ClusterUid, backend: BackendUid) -> Option<&Arc<Inclusion>> {
        let key = (cluster, backend);
        let index = self.ordered.binary_search_by_key(&key, |(cluster, backend, _)| (*cluster, *backend));
        Some(&self.ordered[index.ok()?].2)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ordered.len()
    }

    /// Whether nobody says which attempts its stats include.
    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// Whether they are copies of one another: then nothing in them differs. Others may be equal even so.
    pub fn is_copy_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.ordered, &other.ordered) || (self.is_empty() && other.is_empty())
    }

    /// All of them, ordered by cluster and backend.
    pub fn iter(&self) -> impl Iterator<Item = (ClusterUid, BackendUid, &Arc<Inclusion>)> {
        self.ordered.iter().map(|(cluster, backend, inclusion)| (*cluster, *backend, inclusion))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_not_included_and_nothing_is_beyond_the_highest() {
        let core = CoreInclusion { core: 3, through: 5, except: [2, 4].into() };
        let included: Vec<u64> = (1..=7).filter(|sequence| core.includes(*sequence)).collect();
        assert_eq!(included, [1, 3, 5]);
        let inclusion = Inclusion { report: 1, cores: [core.clone()].into() };
        assert_eq!(inclusion.of_core(3), Some(&core));
        assert_eq!(inclusion.of_core(2), None);
    }

    #[test]
    fn an_inclusion_is_found_by_cluster_and_backend() {
        let at = |report| Arc::new(Inclusion { report, ..Inclusion::default() });
        let entry = |cluster, backend, report| (ClusterUid(cluster), BackendUid(backend), at(report));
        let all = Inclusions::new(vec![entry(2, 1, 21), entry(1, 2, 12), entry(1, 1, 11)]);
        assert_eq!(all.get(ClusterUid(1), BackendUid(2)).unwrap().report, 12);
        assert_eq!(all.get(ClusterUid(2), BackendUid(1)).unwrap().report, 21);
        assert_eq!(all.get(ClusterUid(2), BackendUid(2)), None);
        let order: Vec<u64> = all.iter().map(|(.., inclusion)| inclusion.report).collect();
        assert_eq!(order, [11, 12, 21]);
    }
}
