//! The scenarios, and one round of each: every contestant in turn, under the same load.

use std::{net::SocketAddr, rc::Rc, time::Duration};

use serde::Serialize;

use super::contestant::{Contestant, Engines, Kind};
use crate::{
    http::url::Url,
    load::{
        measure::{Pace, Plan, Until, measure},
        message::{MessageOptions, Target},
        open::Arrivals,
        report::Report,
    },
};

/// Load before each measurement: pools fill, clocks rise.
const WARMUP: Duration = Duration::from_millis(500);

/// Nothing of an answer for this long is a failure.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Output tokens of a JSON answer; with them it has about 415 bytes, head included.
const JSON_OUTPUT_TOKENS: u64 = 4;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scenario {
    /// JSON requests: cost in a closed loop, latency in an open one.
    Json,
    /// SSE streams at a steady rate.
    Sse,
}

/// Sizes of the load.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sizes {
    /// Connections of the JSON scenario.
    pub(crate) connections: usize,
    /// JSON requests of one closed loop.
    pub(crate) requests: u64,
    /// Requests a second of the open loop.
    pub(crate) open_rate: f64,
    pub(crate) open_seconds: f64,
    /// Concurrent streams of the SSE scenario.
    pub(crate) streams: usize,
    pub(crate) chunks_per_s: f64,
    /// Variation of the engines' token intervals.
    pub(crate) jitter: f64,
    pub(crate) stream_seconds: f64,
    /// Bytes of a JSON request body.
    pub(crate) body_bytes: usize,
}

/// What one contestant showed in one round. Costs are the proxy's; on the direct way the engine's.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) kind: Kind,
    pub(crate) failed: u64,
    pub(crate) unsent: u64,
    pub(crate) rss_kb: f64,
    /// JSON: closed loop.
    pub(crate) cpu_s_per_100k_requests: Option<f64>,
    pub(crate) requests_per_s: Option<f64>,
    /// JSON: open loop.
    pub(crate) cpu_s_per_100k_requests_open: Option<f64>,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    /// SSE.
    pub(crate) cpu_s_per_100k_chunks: Option<f64>,
    pub(crate) chunks_per_s: Option<f64>,
    pub(crate) chunk_gap_p99_us: Option<f64>,
}

/// One contestant's turn.
pub(crate) async fn turn(
    scenario: Scenario,
    sizes: &Sizes,
    contestant: &Contestant,
    engines: &Engines,
    seed: u64,
) -> anyhow::Result<Measured> {
    let pid = contestant.process.as_ref().map_or(engines.process.pid(), crate::child::Started::pid);
    let load = Load { sizes, addresses: &contestant.addresses, pid, seed };
    match scenario {
        Scenario::Json => {
            let closed = load.json(Pace::Closed(Until::Requests(sizes.requests))).await?;
            let time = Duration::from_secs_f64(sizes.open_seconds);
            let pace = Pace::Open { rate: sizes.open_rate, arrivals: Arrivals::Poisson, time };
            let open = load.json(pace).await?;
            Ok(Measured {
                failed: closed.failed + open.failed,
                unsent: open.open.as_ref().map_or(0, |open| open.unsent),
                cpu_s_per_100k_requests: closed.processes[0].cpu_s_per_100k_requests,
                requests_per_s: Some(closed.requests_per_s),
                cpu_s_per_100k_requests_open: open.processes[0].cpu_s_per_100k_requests,
                p50_us: Some(open.total.p50_us),
                p99_us: Some(open.total.p99_us),
                ..Measured::of(contestant.kind, &open)
            })
        }
        Scenario::Sse => {
            let report = load.sse().await?;
            Ok(Measured {
                failed: report.failed,
                cpu_s_per_100k_chunks: report.processes[0].cpu_s_per_100k_chunks,
                chunks_per_s: Some(report.sse_chunks_per_s),
                chunk_gap_p99_us: report.chunk_gap.as_ref().map(|gap| gap.p99_us),
                ..Measured::of(contestant.kind, &report)
            })
        }
    }
}

// === impl Measured ===

impl Measured {
    fn of(kind: Kind, report: &Report) -> Self {
        Self {
            kind,
            failed: 0,
            unsent: 0,
            rss_kb: report.processes[0].rss_bytes as f64 / 1024.0,
            cpu_s_per_100k_requests: None,
            requests_per_s: None,
            cpu_s_per_100k_requests_open: None,
            p50_us: None,
            p99_us: None,
            cpu_s_per_100k_chunks: None,
            chunks_per_s: None,
            chunk_gap_p99_us: None,
        }
    }
}

/// The generator's settings for one turn.
struct Load<'a> {
    sizes: &'a Sizes,
    addresses: &'a [SocketAddr],
    pid: u32,
    seed: u64,
}

// === impl Load ===

impl Load<'_> {
    async fn json(&self, pace: Pace) -> anyhow::Result<Report> {
        measure(&self.plan(false, JSON_OUTPUT_TOKENS, self.sizes.connections, pace, WARMUP)?).await
    }

    async fn sse(&self) -> anyhow::Result<Report> {
        let tokens = (self.sizes.chunks_per_s * self.sizes.stream_seconds).round() as u64;
        // Each connection carries one stream: the window is exactly their lives.
        let pace = Pace::Closed(Until::Requests(self.sizes.streams as u64));
        measure(&self.plan(true, tokens, self.sizes.streams, pace, Duration::ZERO)?).await
    }

    fn plan(
        &self,
        stream: bool,
        max_tokens: u64,
        connections: usize,
        pace: Pace,
        warmup: Duration,
    ) -> anyhow::Result<Plan> {
        let options = MessageOptions {
            model: "mock".to_owned(),
            stream,
            body_bytes: self.sizes.body_bytes,
            max_tokens,
            affinity_keys: 0,
            shuffled: false,
            chunks_per_s: None,
            headers: Vec::new(),
        };
        let targets = self
            .addresses
            .iter()
            .map(|address| {
                let url: Url = format!("http://{address}").parse()?;
                Ok(Rc::new(Target::new(&url, &options)))
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Plan {
            targets,
            connections,
            pace,
            warmup,
            timeout: ANSWER_TIMEOUT,
            goal: None,
            pids: vec![self.pid],
            seed: self.seed,
        })
    }
}
