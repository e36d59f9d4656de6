//! What a cluster's share of affinity keys is proportional to.

use crate::{ClusterStats, TokensPerSecond, fields::field::words, names::names};

/// Which reported capacity weighs a cluster in rendezvous hashing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RendezvousWeight {
    /// `max_input_tps`.
    #[default]
    MaxInputTps,
    /// `last_mean_input_tps`.
    LastMeanInputTps,
}

/// A cluster's weights in rendezvous hashing; 0 where it has none. What was reported, held until it has moved
/// by more than noise, so that a wobble moves no key.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RendezvousWeights {
    /// By `max_input_tps`: finite and not negative.
    pub max_input_tps: f64,
    /// By `last_mean_input_tps`: finite and not negative.
    pub last_mean_input_tps: f64,
}

// === impl RendezvousWeight ===

names!(RendezvousWeight {
    MaxInputTps = "max-input-tps",
    LastMeanInputTps = "last-mean-input-tps",
});

// === impl RendezvousWeights ===

impl RendezvousWeights {
    /// The weights that `stats` report, nothing held.
    pub fn reported(stats: &ClusterStats) -> Self {
        let weight = |tps: TokensPerSecond| if tps.is_valid() { tps.0 } else { 0.0 };
        Self {
            max_input_tps: stats.max_input_tps.map_or(0.0, weight),
            last_mean_input_tps: weight(stats.last_mean_input_tps),
        }
    }

    /// One of them; `None` where the cluster has no such weight, and so no keys.
    pub fn get(self, weight: RendezvousWeight) -> Option<f64> {
        let value = match weight {
            RendezvousWeight::MaxInputTps => self.max_input_tps,
            RendezvousWeight::LastMeanInputTps => self.last_mean_input_tps,
        };
        (value > 0.0).then_some(value)
    }
}

words!(RendezvousWeight);
