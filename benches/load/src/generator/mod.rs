//! `stargate-bench load`: drives an HTTP endpoint, verifies every answer to its last byte, and accounts for what it took.
//!
//! One thread. A closed loop measures throughput and cost, an open loop latency at a rate, `--streams` what many
//! concurrent SSE streams need.

pub(crate) mod body;
mod closed;
pub(crate) mod conversation;
mod failure;
mod link;
pub(crate) mod measure;
pub(crate) mod message;
pub(crate) mod open;
mod recorder;
pub(crate) mod report;
mod session;
mod sse;
pub(crate) mod streams;

use std::{fmt::Display, rc::Rc, time::Duration};

use anyhow::ensure;
use serde::Serialize;
use stargate_wire::{
    http::{request::decode_rate, url::Url},
    net::{
        cpu,
        runtime::{self, Driver},
    },
};

use self::{
    body::MessageOptions,
    measure::{Pace, Plan, Until},
    message::Target,
    open::Arrivals,
    streams::{Hold, StreamsPlan},
};

/// A closed loop without a stated end runs so long.
const DEFAULT_DURATION_S: f64 = 10.0;

/// Descriptors that the generator needs besides its connections.
const OTHER_DESCRIPTORS: u64 = 64;

/// Which loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Each connection sends its next request when the last one is answered.
    Closed,
    /// Requests are sent at --rate; latency counts from when they were due.
    Open,
}

/// Options of `load`.
#[derive(clap::Args)]
pub struct Args {
    /// Where to send requests; a URL without a path means /v1/chat/completions. Repeat it to spread connections.
    #[arg(long = "url", value_name = "http://ADDR[/path]", required = true)]
    urls: Vec<Url>,
    /// Which loop.
    #[arg(long, value_enum, default_value_t = Mode::Closed)]
    mode: Mode,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Requests a second of the open loop.
    #[arg(long, value_parser = positive, required_if_eq("mode", "open"))]
    rate: Option<f64>,
    /// How the open loop's requests are spread.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    arrivals: Arrivals,
    /// Stop after this many requests.
    #[arg(long, conflicts_with = "duration_s")]
    requests: Option<u64>,
    /// Stop after this time [default: 10].
    #[arg(long, value_parser = positive)]
    duration_s: Option<f64>,
    /// Load without measuring first.
    #[arg(long, default_value_t = 0.0, value_parser = not_negative)]
    warmup_s: f64,
    /// Ask for SSE streams.
    #[arg(long)]
    stream: bool,
    /// Size of a request's JSON body.
    #[arg(long, default_value_t = 1024)]
    body_bytes: usize,
    /// Model to ask for.
    #[arg(long, default_value = "mock")]
    model: String,
    /// Use this many values of x-cache-affinity-key in turn, each with a text of its own; 0 sends none.
    #[arg(long, default_value_t = 0)]
    affinity_keys: usize,
    /// Output tokens to ask for.
    #[arg(long, default_value_t = 16)]
    max_tokens: u64,
    /// Ask mock engines for this rate of tokens (x-mock-decode-tps), whatever theirs is; 0 is as fast as possible.
    #[arg(long, value_parser = decode_rate)]
    chunks_per_s: Option<f64>,
    /// A further request header; repeatable.
    #[arg(long = "header", value_name = "n: v", value_parser = header)]
    headers: Vec<String>,
    /// Count the cost of this process and its children; repeatable.
    #[arg(long = "pid", value_name = "PID")]
    pids: Vec<u32>,
    /// Pin the generator to this CPU.
    #[arg(long, value_name = "CPU")]
    core: Option<usize>,
    /// Nothing of an answer for this long is a failure.
    #[arg(long, default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
    /// Count the answers whose first byte comes within this time.
    #[arg(long, conflicts_with = "streams")]
    slo_ms: Option<u64>,
    /// Seed of the open loop's arrivals.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Open this many SSE streams, hold them until all complete, and report memory per stream.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
          conflicts_with_all = ["mode", "rate", "requests", "duration_s", "warmup_s", "connections"])]
    streams: Option<u32>,
    /// Streams opened a second, with --streams.
    #[arg(long, default_value_t = 2000.0, value_parser = positive, requires = "streams")]
    ramp: f64,
    /// Time between the last stream's opening and the reading of memory, with --streams.
    #[arg(long, default_value_t = 1000, requires = "streams")]
    settle_ms: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Exit with status 1 when any request failed or was never sent.
    #[arg(long)]
    strict: bool,
}

/// Runs a measurement and prints it.
pub fn run(args: Args, driver: Driver) -> anyhow::Result<()> {
    let descriptors = cpu::settle(args.core)?;
    let connections = args.streams.unwrap_or(args.connections);
    ensure!(
        u64::from(connections) + OTHER_DESCRIPTORS <= descriptors,
        "{connections} connections need more than the {descriptors} descriptors that this process may open"
    );
    let options = MessageOptions {
        model: args.model.clone(),
        stream: args.stream || args.streams.is_some(),
        body_bytes: args.body_bytes,
        max_tokens: args.max_tokens,
        affinity_keys: args.affinity_keys,
        shuffled: false,
        chunks_per_s: args.chunks_per_s,
        headers: args.headers.clone(),
    };
    let targets: Vec<Rc<Target>> = args.urls.iter().map(|url| Rc::new(Target::new(url, &options))).collect();
    let clean = if let Some(streams) = args.streams {
        let plan = StreamsPlan {
            targets,
            streams: streams as usize,
            ramp_per_s: args.ramp,
            opening_at_once: streams as usize,
            opening_timeout: Duration::MAX,
            settle: Duration::from_millis(args.settle_ms),
            hold: Hold::ToTheEnd,
            timeout: Duration::from_millis(args.timeout_ms),
            pids: args.pids,
        };
        let report = runtime::block_on(driver, || streams::hold(&plan))??;
        print(&report, args.json)?;
        report.failed == 0
    } else {
        let plan = Plan {
            targets,
            connections: args.connections as usize,
            pace: pace(&args)?,
            warmup: Duration::from_secs_f64(args.warmup_s),
            timeout: Duration::from_millis(args.timeout_ms),
            goal: args.slo_ms.map(Duration::from_millis),
            pids: args.pids,
            seed: args.seed,
        };
        let report = runtime::block_on(driver, || measure::measure(&plan))??;
        print(&report, args.json)?;
        report.failed == 0 && report.open.as_ref().is_none_or(|open| open.unsent == 0)
    };
    if args.strict && !clean {
        std::process::exit(1);
    }
    Ok(())
}

fn pace(args: &Args) -> anyhow::Result<Pace> {
    let time = args.duration_s.map(Duration::from_secs_f64);
    match (args.mode, args.rate) {
        (Mode::Open, Some(rate)) => {
            // A number of requests at a rate is a time.
            let time = match (time, args.requests) {
                (Some(time), _) => time,
                (None, Some(requests)) => Duration::from_secs_f64(requests as f64 / rate),
                (None, None) => Duration::from_secs_f64(DEFAULT_DURATION_S),
            };
            Ok(Pace::Open { rate, arrivals: args.arrivals, time })
        }
        (Mode::Open, None) => anyhow::bail!("--mode open needs --rate"),
        (Mode::Closed, Some(_)) => anyhow::bail!("--rate needs --mode open"),
        (Mode::Closed, None) => Ok(Pace::Closed(match (time, args.requests) {
            (None, Some(requests)) => Until::Requests(requests),
            (time, _) => Until::Time(time.unwrap_or(Duration::from_secs_f64(DEFAULT_DURATION_S))),
        })),
    }
}

fn print(report: &(impl Serialize + Display), json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        print!("{report}");
    }
    Ok(())
}

/// A number of the command line that is above 0.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0.0 && *number <= 1e9)
        .ok_or_else(|| "not within 0..=1e9, 0 excluded".to_owned())
}

fn not_negative(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number| (0.0..=1e9).contains(number))
        .ok_or_else(|| "not within 0..=1e9".to_owned())
}

fn header(text: &str) -> Result<String, String> {
    let (name, value) = text.split_once(':').ok_or("expected 'name: value'")?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) || value.contains(['\r', '\n', '\0']) {
        return Err("not a header that HTTP allows".to_owned());
    }
    Ok(text.to_owned())
}
