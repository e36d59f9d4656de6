//! The consistent-hash ring that wait-and-widen takes affinity groups from.
//!
//! Every cluster has some points on a circle of 2^64 positions, and a key's group is the first clusters
//! clockwise from its own position. A cluster that comes or goes changes only the groups that it enters or
//! leaves (Karger et al., "Consistent Hashing and Random Trees", 1997). Points depend on the seed and the
//! cluster's id alone, the key's position also on its target; all are part of the protocol between gateways.
//!
//! A ring is built when a core first needs it, and again when clusters come or go: one hash and one place in a
//! sort for each point, some 0.1 ms for 20 clusters of 150 points and 10 ms for 1000. It is the one thing that
//! a decision allocates, once per core, target, seed and change.

pub(crate) mod cache;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{Cluster, Seed, fields::field::Whole};

/// The points of one list of clusters, in order.
#[derive(Debug)]
pub(crate) struct AffinityRing {
    points: Box<[u64]>,
    /// The position in the list of the cluster that a point is of.
    owners: Box<[u16]>,
    /// Hashes of the listed clusters' ids, by which the list is known again.
    id_hashes: Box<[u64]>,
}

/// Points of a ring, 10 bytes each. A list of more than 6 990 clusters of 150 points gets fewer for each: it
/// needs no more to be even.
pub(crate) const POINTS_MAX: usize = 1 << 20;

/// Clusters of a list that are on its ring.
const CLUSTERS_MAX: usize = u16::MAX as usize;

/// Points of one cluster on a consistent-hash ring, within 1..=1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VirtualNodes(u16);

/// Collects distinct clusters. Keeps its room from key to key.
#[derive(Debug, Default)]
pub(crate) struct GroupScratch {
    group: Vec<u16>,
    /// The last turn in which the cluster was collected.
    seen: Vec<u32>,
    turn: u32,
}

// === impl VirtualNodes ===

impl VirtualNodes {
    /// The most.
    pub const MAX: u16 = 1024;

    /// `None` outside 1..=1024.
    pub fn new(count: u64) -> Option<Self> {
        u16::try_from(count).ok().filter(|count| (1..=Self::MAX).contains(count)).map(Self)
    }

    /// The count.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl Whole for VirtualNodes {
    fn get(&self) -> Option<u64> {
        Some(self.0.into())
    }

    fn set(&mut self, value: u64) {
        *self = Self::new(value).unwrap_or_default();
    }
}

impl Default for VirtualNodes {
    /// Evens the clusters' shares of a ring out to within about a tenth.
    fn default() -> Self {
        Self(150)
    }
}

// === impl AffinityRing ===

impl AffinityRing {
    pub(crate) fn build(clusters: &[Cluster], seed: &Seed, virtual_nodes: VirtualNodes) -> Self {
        let clusters = &clusters[..clusters.len().min(CLUSTERS_MAX)];
        let per_cluster = Self::points_per_cluster(clusters.len(), virtual_nodes);
        let mut points: Vec<(u64, u16)> = Vec::with_capacity(clusters.len() * per_cluster as usize);
        for (owner, cluster) in clusters.iter().enumerate() {
            points.extend((0..per_cluster).map(|node| (point(seed, cluster.id_hash, node), owner as u16)));
        }
        // Of equal points the one of the lesser cluster id comes first, as clusters are ordered by it.
        points.sort_unstable();
        Self {
            points: points.iter().map(|(point, _)| *point).collect(),
            owners: points.iter().map(|(_, owner)| *owner).collect(),
            id_hashes: clusters.iter().map(|cluster| cluster.id_hash).collect(),
        }
    }

    /// The first `count` distinct clusters clockwise from `position`; all of them when there are no more.
    pub(crate) fn group<'s>(&self, position: u64, count: usize, scratch: &'s mut GroupScratch) -> &'s [u16] {
        let count = count.min(self.id_hashes.len());
        scratch.begin(self.id_hashes.len());
        let first = self.points.partition_point(|point| *point < position);
        let (before, after) = self.owners.split_at(first);
        for owner in after.iter().chain(before) {
            if scratch.group.len() == count {
                break;
            }
            scratch.collect(*owner);
        }
        &scratch.group
    }

    pub(crate) fn points(&self) -> usize {
        self.points.len()
    }

    /// Where the points lie in memory: a ring that was built anew has others.
    #[cfg(test)]
    fn first_point(&self) -> *const u64 {
        self.points.as_ptr()
    }

    fn has_length_of(&self, clusters: &[Cluster]) -> bool {
        clusters.len().min(CLUSTERS_MAX) == self.id_hashes.len()
    }

    fn is_of(&self, clusters: &[Cluster]) -> bool {
        self.has_length_of(clusters)
            && clusters.iter().zip(&self.id_hashes).all(|(cluster, id_hash)| cluster.id_hash == *id_hash)
    }

    fn points_per_cluster(clusters: usize, virtual_nodes: VirtualNodes) -> u16 {
        let affordable = POINTS_MAX / clusters.max(1);
        u16::try_from(affordable).unwrap_or(u16::MAX).min(virtual_nodes.get())
    }
}

/// One point of a cluster.
fn point(seed: &Seed, id_hash: u64, node: u16) -> u64 {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&id_hash.to_le_bytes());
    bytes[8..].copy_from_slice(&u32::from(node).to_le_bytes());
    xxh3_64_with_seed(&bytes, seed.hash())
}

// === impl GroupScratch ===

impl GroupScratch {
    fn begin(&mut self, clusters: usize) {
        self.group.clear();
        if self.seen.len() < clusters {
            self.seen.resize(clusters, 0);
            // However large the group turns out, it has room.
            self.group.reserve(clusters);
        }
        self.turn = self.turn.wrapping_add(1);
        if self.turn == 0 {
            self.seen.fill(0);
            self.turn = 1;
        }
    }

    fn collect(&mut self, owner: u16) {
        let seen = &mut self.seen[usize::from(owner)];
        if *seen != self.turn {
            *seen = self.turn;
            self.group.push(owner);
        }
    }
}

#[cfg(test)]
mod tests;
