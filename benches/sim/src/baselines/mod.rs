//! Policies of other routers, in the simulator only: what ours are compared with.
//!
//! Each file has one policy, says whose it is, and what was left out of it. They decide by the same views as our
//! gateways do, at the same moments; only [`prequal`] and [`oracle`] look at engines, as their modules say.

mod bounded_loads;
mod candidates;
mod least_request;
mod oracle;
mod power_of_two;
mod prefix_tree;
mod prequal;
mod ranked_bands;
mod round_robin;
mod spec;
#[cfg(test)]
mod testing;

use std::time::Duration;

pub(super) use self::spec::BaselineSpec;
use super::{engine::Engine, model::Prompt};

/// One gateway's policy. Each gateway has one of its own; only oracles tell each other anything.
pub(super) trait Baseline {
    /// Chooses a cluster for a request; called again for a waiter when something has changed.
    fn choose(&mut self, view: &View<'_>, request: &Asked<'_>, rng: &mut fastrand::Rng) -> Choice;

    /// The request was sent to what was chosen.
    fn sent(&mut self, _cluster: usize, _request: &Asked<'_>) {}

    /// An attempt at this cluster has ended.
    fn ended(&mut self, _cluster: usize) {}
}

/// What a gateway knows when it chooses.
pub(super) struct View<'a> {
    pub(super) now: Duration,
    /// By index; the same clusters for the whole run.
    pub(super) clusters: &'a [ClusterView],
    /// The engines as they really are, by the same index: for an oracle, and for what a probe would find.
    pub(super) engines: &'a [Engine],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ClusterView {
    /// Whether it is registered and alive, as far as the gateway knows.
    pub(super) is_routable: bool,
    /// Reported, with this gateway's reservations added: requests that the engine has, in slots or in its queue.
    pub(super) running: u64,
    /// Those of them that have no slot.
    pub(super) queued: u64,
    pub(super) queued_tokens: u64,
    pub(super) slots: u64,
    /// Prefill throughput as reported, in input tokens/s.
    pub(super) input_tps: f64,
    pub(super) rtt: Duration,
    /// Requests that this gateway has sent there and that have not ended.
    pub(super) in_flight: u64,
}

pub(super) struct Asked<'a> {
    pub(super) prompt: &'a Prompt,
    /// Since its arrival at the gateway.
    pub(super) elapsed: Duration,
    /// Clusters that have failed for it.
    pub(super) excluded: &'a [usize],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Send {
        cluster: usize,
        /// Beyond where the key belongs.
        is_overflow: bool,
    },
    /// There is no place: the request waits as long as it may.
    Full,
}

// === impl ClusterView ===

impl ClusterView {
    /// Seconds until it has computed so many prompt tokens; without a throughput, never.
    fn prefill_s(&self, tokens: u64) -> f64 {
        if tokens == 0 {
            0.0
        } else if self.input_tps > 0.0 {
            tokens as f64 / self.input_tps
        } else {
            f64::INFINITY
        }
    }
}

// === impl Choice ===

impl Choice {
    /// To this cluster, for a policy by which keys belong nowhere; no cluster is no place.
    fn anywhere(cluster: Option<usize>) -> Self {
        cluster.map_or(Self::Full, |cluster| Self::Send { cluster, is_overflow: false })
    }
}
