//! What wait-and-widen is configured by.

use super::ring::VirtualNodes;
use crate::Widening;

/// Parameters of wait-and-widen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitAndWidenParameters {
    /// Buckets, capacity and the affinity wait.
    pub widening: Widening,
    /// Clusters in the affinity group of a key; 0 is no group.
    pub affinity_group: u32,
    /// Points of each cluster on the ring that affinity groups are taken from.
    pub virtual_nodes: VirtualNodes,
}
