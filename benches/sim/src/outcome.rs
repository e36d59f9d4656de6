//! What one run came to, over the measured time of its clients.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

/// One run: a scenario at one point of its axes, under one policy, with one seed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) scenario: String,
    /// The values of the scenario's axes, by name, in words: `{"load": "1.3", "reports": "heartbeat 1 s"}`.
    pub(super) point: BTreeMap<String, String>,
    pub(super) policy: String,
    pub(super) seed: u64,
    /// Requests a second that clients sent.
    pub(super) offered_per_s: f64,
    /// Requests a second that ended whole.
    pub(super) completed_per_s: f64,
    /// Of these, those whose first token came within the SLO.
    pub(super) goodput_per_s: f64,
    /// The most that any routing could make of the engines: the lesser of what was offered and what they do with every
    /// shared prefix cached.
    pub(super) bound_per_s: f64,
    /// Requests a second that were refused at once or given up on by a gateway.
    pub(super) rejected_per_s: f64,
    /// Requests a second that clients gave up on.
    pub(super) timed_out_per_s: f64,
    /// From arrival at the gateway to the first token's arrival there; of requests that got one.
    pub(super) ttft_ms: Quantiles,
    /// From arrival to the last token.
    pub(super) e2e_ms: Quantiles,
    /// Prompt tokens found in caches, of all prompt tokens that were prefilled.
    pub(super) token_reuse: f64,
    /// Requests sent beyond their affinity group, of all sent.
    pub(super) overflow_share: f64,
    /// Attempts at engines for each request that was sent.
    pub(super) attempts_per_request: f64,
    /// Jain's index of what share of its requests each session got served in time: 1 when all fare alike.
    pub(super) fairness: f64,
    /// Requests that reached an engine without a free slot while another had one, of all that reached one.
    pub(super) misrouted_share: f64,
    /// Requests that found no free slot in their engine, of the same.
    pub(super) queued_share: f64,
    /// Slots taken, of all, over the measured time.
    pub(super) busy_share: f64,
    /// Second by second from the start of the run, the warm-up included.
    pub(super) seconds: Vec<Second>,
    /// CPU time of this run: how fast the simulator is, and the one figure that depends on the machine.
    #[serde(skip)]
    pub(super) cpu_time: Duration,
}

/// Of a distribution, in ms.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Quantiles {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) mean: f64,
}

/// One second of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Second {
    pub(super) offered: u32,
    /// Requests that ended in it whole and whose first token had come within the SLO.
    pub(super) good: u32,
    pub(super) rejected: u32,
    /// Prompt tokens of the requests that began in it, and those of them found in caches.
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: u64,
    /// Requests that wait in gateways, at its end.
    pub(super) waiting: u32,
}
