//! What an algorithm sees of a target: its clusters, and what is known of their rankings. It does not see what is configured
//! for the target beside its own parameters.

use std::sync::Arc;

use super::table::RankingTable;
use crate::{Cluster, TargetName};

/// The clusters of one target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fleet<'a> {
    pub(crate) name: &'a Arc<TargetName>,
    pub(crate) clusters: &'a [Cluster],
    /// Stands for the list of clusters and their weights; 0 says nothing of them.
    pub(crate) revision: u64,
    /// Their rankings under one seed and weight, where these were made.
    pub(crate) table: Option<&'a RankingTable>,
}
