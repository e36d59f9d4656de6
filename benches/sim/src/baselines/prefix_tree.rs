//! Cache-aware by a prefix tree: the default of SGLang's router, and of SMG and vllm-router, which come from it.
//!
//! A gateway keeps an approximate tree of what it has sent where ([`tree`]). While loads are even, a request goes to
//! the cluster that shares most of its prompt, where that is more than `cache_threshold` (0.3) of it; else to the one
//! with the smallest tree, or by `otherwise = "least-load"`, as SMG does now, the least loaded. Loads are uneven when
//! the most and the fewest requests in flight of this gateway's own are more than `balance_abs_threshold` (64) apart,
//! and the most is more than `balance_rel_threshold` (1.5) times the fewest: then the least loaded gets it. The
//! defaults are those of the routers' command lines; `max_tree_tokens` is a cluster's part of the tree, for 2^26
//! characters of 4 a token.
//!
//! Simplified: prefixes are told apart as finely as [`Prompt`](crate::model::Prompt) does, not by characters.
//! Trees are trimmed when they have grown, not every two minutes. Where the best match may not be chosen the next best
//! is, and ties are random, where the originals take the first cluster that is healthy. A tree outlives its cluster's
//! cache.

mod tree;

use anyhow::ensure;
use serde::Deserialize;

use self::tree::{Match, Tree};
use super::{
    Asked, Baseline, Choice, View,
    candidates::{eligible, is_eligible, least},
};

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    cache_threshold: f64,
    balance_abs_threshold: u64,
    balance_rel_threshold: f64,
    max_tree_tokens: u64,
    otherwise: Otherwise,
}

/// Where a request goes that no cluster shares enough of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Otherwise {
    #[default]
    SmallestTree,
    LeastLoad,
}

pub(super) struct PrefixTree {
    parameters: Parameters,
    tree: Tree,
}

// === impl Parameters ===

impl Default for Parameters {
    fn default() -> Self {
        Self {
            cache_threshold: 0.3,
            balance_abs_threshold: 64,
            balance_rel_threshold: 1.5,
            max_tree_tokens: 1 << 24,
            otherwise: Otherwise::default(),
        }
    }
}

impl Parameters {
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        let Self { cache_threshold, balance_rel_threshold: relative, max_tree_tokens, .. } = *self;
        ensure!(
            (0.0..=1.0).contains(&cache_threshold),
            "cache_threshold is {cache_threshold}; it is within 0 to 1"
        );
        ensure!(
            relative.is_finite() && relative >= 1.0,
            "balance_rel_threshold is {relative}; it is at least 1"
        );
        ensure!(max_tree_tokens > 0, "max_tree_tokens is 0; it is at least 1");
        Ok(())
    }
}

// === impl PrefixTree ===

impl PrefixTree {
    pub(super) fn new(parameters: Parameters, clusters: usize) -> Self {
        Self { parameters, tree: Tree::new(clusters, parameters.max_tree_tokens) }
    }

    /// Whether loads are so uneven that caches count for nothing.
    fn is_uneven(&self, view: &View<'_>, request: &Asked<'_>) -> bool {
        let loads = eligible(view, request).map(|cluster| view.clusters[cluster].in_flight);
        let (fewest, most) =
            loads.fold((u64::MAX, 0), |(fewest, most), load| (fewest.min(load), most.max(load)));
        most.saturating_sub(fewest) > self.parameters.balance_abs_threshold
            && most as f64 > fewest as f64 * self.parameters.balance_rel_threshold
    }

    /// The cluster that shares most of the prompt, where it is enough.
    fn matching(&self, view: &View<'_>, request: &Asked<'_>, rng: &mut fastrand::Rng) -> Option<usize> {
        let may_take = |cluster| is_eligible(view, request, cluster);
        let Match { cluster, tokens } = self.tree.best_match(request.prompt, may_take, rng)?;
        let threshold = self.parameters.cache_threshold * f64::from(request.prompt.tokens());
        (f64::from(tokens) > threshold).then_some(cluster)
    }
}

impl Baseline for PrefixTree {
    fn choose(&mut self, view: &View<'_>, request: &Asked<'_>, rng: &mut fastrand::Rng) -> Choice {
        let matching = self.matching(view, request, rng);
        let load = |cluster: usize| view.clusters[cluster].in_flight;
        let is_uneven = self.is_uneven(view, request);
        if let (Some(cluster), false) = (matching, is_uneven) {
            return Choice::Send { cluster, is_overflow: false };
        }
        let candidates = eligible(view, request);
        let chosen = match self.parameters.otherwise {
            Otherwise::SmallestTree if !is_uneven => {
                least(candidates, |cluster| self.tree.tokens(cluster), rng)
            }
            _ => least(candidates, load, rng),
        };
        let Some(cluster) = chosen else { return Choice::Full };
        Choice::Send { cluster, is_overflow: matching.is_some_and(|matching| matching != cluster) }
    }

    fn sent(&mut self, cluster: usize, request: &Asked<'_>) {
        self.tree.insert(cluster, request.prompt);
    }
}

#[cfg(test)]
mod tests;
