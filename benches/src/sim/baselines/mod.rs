//! Policies of other routers, in the simulator only: what ours are compared with.

use std::time::Duration;

use super::{engine::Engine, model::Prompt};

/// One gateway's policy. Each gateway has one of its own; they share nothing.
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
    /// Reported, with this gateway's reservations added.
    pub(super) running: u64,
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
