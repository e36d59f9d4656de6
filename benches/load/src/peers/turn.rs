//! One contestant's turn: the load of a scenario, and the account of it.

use std::{net::SocketAddr, rc::Rc, time::Duration};

use anyhow::Context;
use stargate_wire::http::url::Url;

use super::{
    contestant::Contestant,
    measured::{Measured, Quantity},
    scenario::{Scenario, Sizes},
    stage::Engines,
};
use crate::{
    child::Started,
    generator::{
        body::MessageOptions,
        conversation::Conversations,
        measure::{Pace, Plan, Until, measure},
        message::Target,
        open::Arrivals,
        report::{ProcessCost, Report},
        streams::{self, Hold, StreamsPlan},
    },
};

/// Load before each measurement: pools fill, clocks rise.
const WARMUP: Duration = Duration::from_millis(500);
const WARMUP_REQUESTS: u64 = 20_000;

/// Nothing of an answer for this long is a failure.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Output tokens of a JSON answer; with them it has about 415 bytes, head included.
const JSON_OUTPUT_TOKENS: u64 = 4;

/// Output tokens of a stream that is cut while it is open: more than it lives for.
const OPEN_STREAM_TOKENS: u64 = 10_000;

/// Between the last stream's opening and the reading of memory: what opening took has been given back by then.
const SETTLE: Duration = Duration::from_secs(1);

/// An open loop of which a larger share was never sent shows no latency.
const UNSENT_SHARE_MAX: f64 = 0.01;

/// Streams that are being opened at one time. More would overflow queues of connections, which is not what is asked.
const OPENING_AT_ONCE: usize = 64;

/// Requests one at a time, for the latency of long prompts: so many, within this time.
const SINGLE_REQUESTS: u64 = 200;
const SINGLE_TIME: Duration = Duration::from_secs(1);

/// Conversations for each connection, so that two requests of one are rarely under way together.
const CONVERSATIONS_PER_CONNECTION: u64 = 4;

/// Numbers of conversations that one load may use, and loads of one turn.
const CONVERSATIONS_PER_LOAD: u64 = 1_000_000;
const LOADS_PER_TURN: u64 = 2;

/// Puts a scenario's load on a contestant.
pub(super) async fn turn(
    scenario: Scenario,
    sizes: &Sizes,
    contestant: &Contestant,
    engines: &Engines,
    round: u32,
) -> anyhow::Result<Measured> {
    let pid = contestant.process.as_ref().map_or(engines.process.pid(), Started::pid);
    let load = |number: u64, connections: usize| Load {
        addresses: &contestant.addresses,
        pid,
        seed: round.into(),
        first_conversation: (u64::from(round) * LOADS_PER_TURN + number) * CONVERSATIONS_PER_LOAD,
        connections,
        stream: false,
        output_tokens: JSON_OUTPUT_TOKENS,
        body_bytes: sizes.body_bytes,
    };
    let within = Until::RequestsWithin(sizes.requests, Duration::from_secs_f64(sizes.turn_seconds));
    let mut measured = Measured::new(contestant.kind);
    match scenario {
        Scenario::Json => {
            let closed = load(0, sizes.connections).closed(within).await?;
            measured.set_closed(&closed, cost(&closed)?);
            let time = Duration::from_secs_f64(sizes.open_seconds);
            let pace = Pace::Open { rate: sizes.open_rate, arrivals: Arrivals::Poisson, time };
            let open = load(1, sizes.connections).requests(pace, WARMUP).await?;
            measured.set(Quantity::CpuSPer100kRequestsOpen, cost(&open)?.cpu_s_per_100k_requests);
            measured.unsent = open.open.as_ref().map_or(0, |open| open.unsent);
            // Of those that could not keep up, latencies tell how long they were asked to.
            let kept_up = (measured.unsent as f64) < UNSENT_SHARE_MAX * open.completed as f64;
            measured.set(Quantity::P50Us, kept_up.then_some(open.total.p50_us));
            measured.set(Quantity::P99Us, kept_up.then_some(open.total.p99_us));
            measured.set(Quantity::RssKb, kilobytes(cost(&open)?.rss_bytes));
            measured.count_failures(&open.errors);
        }
        Scenario::Sse => {
            let output_tokens = (sizes.chunks_per_s * sizes.stream_seconds).round() as u64;
            let load = Load { stream: true, output_tokens, ..load(0, sizes.sse_streams) };
            // Each connection carries one stream: the window is exactly their lives.
            let pace = Pace::Closed(Until::Requests(sizes.sse_streams as u64));
            let report = load.requests(pace, Duration::ZERO).await?;
            measured.set(Quantity::CpuSPer100kChunks, cost(&report)?.cpu_s_per_100k_chunks);
            measured.set(Quantity::ChunksPerS, report.sse_chunks_per_s);
            measured.set(Quantity::ChunkGapP99Us, report.chunk_gap.as_ref().map(|gap| gap.p99_us));
            measured.set(Quantity::RssKb, kilobytes(cost(&report)?.rss_bytes));
            measured.count_failures(&report.errors);
        }
        Scenario::Streams => {
            let load =
                Load { stream: true, output_tokens: OPEN_STREAM_TOKENS, ..load(0, sizes.open_streams) };
            let report = streams::hold(&StreamsPlan {
                targets: load.targets()?,
                streams: sizes.open_streams,
                ramp_per_s: sizes.ramp,
                opening_at_once: OPENING_AT_ONCE,
                opening_timeout: Duration::from_secs_f64(sizes.opening_seconds),
                settle: SETTLE,
                hold: Hold::UntilRead,
                timeout: ANSWER_TIMEOUT,
                pids: vec![pid],
            })
            .await?;
            let memory = report.processes.first().context("no process was accounted for")?;
            measured.set(Quantity::StreamsHeld, report.open_when_sampled as f64);
            measured.set(Quantity::RssKbBefore, kilobytes(memory.rss_bytes_before));
            measured.set(Quantity::RssKb, kilobytes(memory.rss_bytes_open));
            measured.set(Quantity::RssKbPerStream, memory.rss_bytes_per_stream.map(|bytes| bytes / 1024.0));
            measured.count_failures(&report.errors);
            measured.unsent = report.never_opened;
        }
        Scenario::Prompts { body_bytes } => {
            let closed = Load { body_bytes, ..load(0, sizes.prompt_connections) }.closed(within).await?;
            measured.set_closed(&closed, cost(&closed)?);
            let pace = Pace::Closed(Until::RequestsWithin(SINGLE_REQUESTS, SINGLE_TIME));
            let single = Load { body_bytes, ..load(1, 1) }.requests(pace, Duration::ZERO).await?;
            measured.set(Quantity::P50Us, (single.completed > 0).then_some(single.total.p50_us));
            measured.set(Quantity::RssKb, kilobytes(cost(&single)?.rss_bytes));
            measured.count_failures(&single.errors);
        }
        Scenario::Backends { .. } => {
            let closed = load(0, sizes.connections).closed(within).await?;
            measured.set_closed(&closed, cost(&closed)?);
            measured.set(Quantity::RssKb, kilobytes(cost(&closed)?.rss_bytes));
        }
    }
    Ok(measured)
}

fn cost(report: &Report) -> anyhow::Result<&ProcessCost> {
    report.processes.first().context("no process was accounted for")
}

fn kilobytes(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

/// One load on one contestant.
struct Load<'a> {
    addresses: &'a [SocketAddr],
    pid: u32,
    seed: u64,
    /// Loads with other numbers share no conversation.
    first_conversation: u64,
    connections: usize,
    stream: bool,
    output_tokens: u64,
    body_bytes: usize,
}

// === impl Load ===

impl Load<'_> {
    /// A closed loop, after another to warm up: neither has half of a request of the other's in its account.
    async fn closed(&self, until: Until) -> anyhow::Result<Report> {
        let first_conversation = self.first_conversation + CONVERSATIONS_PER_LOAD / 2;
        let warmup = Pace::Closed(Until::RequestsWithin(WARMUP_REQUESTS, WARMUP));
        Load { first_conversation, ..*self }.requests(warmup, Duration::ZERO).await?;
        self.requests(Pace::Closed(until), Duration::ZERO).await
    }

    async fn requests(&self, pace: Pace, warmup: Duration) -> anyhow::Result<Report> {
        let plan = Plan {
            targets: self.targets()?,
            connections: self.connections,
            pace,
            warmup,
            timeout: ANSWER_TIMEOUT,
            goal: None,
            pids: vec![self.pid],
            seed: self.seed,
        };
        measure(&plan).await
    }

    /// No more of them than there are connections.
    fn targets(&self) -> anyhow::Result<Vec<Rc<Target>>> {
        let options = MessageOptions {
            model: "mock".to_owned(),
            stream: self.stream,
            body_bytes: self.body_bytes,
            max_tokens: self.output_tokens,
            affinity_keys: 0,
            shuffled: false,
            chunks_per_s: None,
            headers: Vec::new(),
        };
        let conversations = Conversations {
            at_once: CONVERSATIONS_PER_CONNECTION * self.connections as u64,
            first: self.first_conversation,
        };
        self.addresses
            .iter()
            .take(self.connections)
            .map(|address| {
                let url: Url = format!("http://{address}").parse()?;
                Ok(Rc::new(Target::of_conversations(&url, &options, conversations)))
            })
            .collect()
    }
}
