//! `stargate-bench compare`: the gateway against a direct connection, a bare relay and `HAProxy`, in alternating rounds.
//!
//! Proxies share one CPU, engines and the generator another. Contestants alternate within every round, so that what
//! disturbs the machine meets all of them; costs are the kernel's account of each process.

mod contestant;
mod rounds;
mod summary;

use std::{path::PathBuf, pin::pin};

use anyhow::{Context, ensure};
use serde_json::json;

use self::{
    contestant::{Other, Stage},
    rounds::{Measured, Scenario, Sizes},
    summary::Summary,
};
use crate::{
    net::{
        cpu,
        race::{First, race},
        runtime::{self, Driver},
        signals::Termination,
    },
    temp_folder::TempFolder,
};

/// Where distributions install `HAProxy`.
const HAPROXY_PATHS: [&str; 3] = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy", "/usr/bin/haproxy"];

/// Which scenarios to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    Json,
    Sse,
    All,
}

/// Options of `compare`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The gateway's daemon; without it the others are compared.
    #[arg(long, value_name = "PATH")]
    stargate: Option<PathBuf>,
    /// Another daemon to compare with, such as a former build.
    #[arg(long, value_name = "PATH")]
    other: Option<PathBuf>,
    /// A setting of the other daemon's own, such as rtt.source="probe"; without --other it is the same program. Repeat
    /// it for several.
    #[arg(long, value_name = "KEY=VALUE", requires = "stargate")]
    other_set: Vec<String>,
    /// `HAProxy`; by default where distributions install it. Without it the others are compared.
    #[arg(long, value_name = "PATH")]
    haproxy: Option<PathBuf>,
    /// Rounds of each scenario.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Which scenarios.
    #[arg(long, value_enum, default_value_t = Which::All)]
    scenario: Which,
    /// Addresses that the engines listen on.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    upstreams: u32,
    /// Connections of the JSON scenario.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    connections: u32,
    /// JSON requests of a round's closed loop.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Bytes of a JSON request's body.
    #[arg(long, default_value_t = 1024)]
    body_bytes: usize,
    /// Requests a second of a round's open loop, where latency is measured.
    #[arg(long, default_value_t = 2000.0, value_parser = above_zero)]
    open_rate: f64,
    /// Seconds of a round's open loop.
    #[arg(long, default_value_t = 4.0, value_parser = above_zero)]
    open_seconds: f64,
    /// Concurrent SSE streams.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=4096))]
    streams: u32,
    /// Chunks a second of each stream.
    #[arg(long, default_value_t = 50.0, value_parser = above_zero)]
    chunks_per_s: f64,
    /// Variation of the engines' token intervals, as a fraction: without it all streams step together, in bursts.
    #[arg(long, default_value_t = 0.3, value_parser = fraction)]
    jitter: f64,
    /// Seconds that a round's streams last.
    #[arg(long, default_value_t = 10.0, value_parser = above_zero)]
    stream_seconds: f64,
    /// CPU of the proxies.
    #[arg(long, default_value_t = 0)]
    proxy_core: usize,
    /// CPU of the engines and the generator.
    #[arg(long, default_value_t = 1)]
    load_core: usize,
    /// Print JSON, every round included.
    #[arg(long)]
    json: bool,
}

/// Runs the comparison and prints it.
pub(crate) fn run(args: &Args, driver: Driver) -> anyhow::Result<()> {
    cpu::raise_descriptor_limit();
    cpu::pin_to(args.load_core)?;
    if let Some(program) =
        args.stargate.iter().chain(&args.haproxy).chain(&args.other).find(|program| !program.is_file())
    {
        anyhow::bail!("{} is not a program", program.display());
    }
    let summaries = runtime::block_on(driver, || async {
        let termination = Termination::catch().context("cannot catch signals")?;
        match race(pin!(compare(args)), pin!(termination.requested())).await {
            First::Left(summaries) => summaries,
            // Dropping the comparison stopped everything that it had started.
            First::Right(()) => anyhow::bail!("interrupted"),
        }
    })??;
    if args.json {
        let report = json!({"sizes": sizes(args), "scenarios": summaries});
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        for summary in &summaries {
            println!("{summary}");
        }
    }
    Ok(())
}

async fn compare(args: &Args) -> anyhow::Result<Vec<Summary>> {
    let folder = TempFolder::new("compare")?;
    let haproxy =
        args.haproxy.clone().or_else(|| HAPROXY_PATHS.iter().map(PathBuf::from).find(|path| path.is_file()));
    if haproxy.is_none() {
        eprintln!("HAProxy is not installed: comparing without it");
    }
    let has_other = args.other.is_some() || !args.other_set.is_empty();
    let other = args.other.as_ref().or(args.stargate.as_ref()).filter(|_| has_other);
    let stage = Stage {
        folder: folder.path(),
        proxy_core: args.proxy_core,
        load_core: args.load_core,
        upstreams: args.upstreams as usize,
        stargate: args.stargate.clone(),
        other: other.map(|program| Other { program: program.clone(), settings: args.other_set.clone() }),
        haproxy,
    };
    let mut summaries = Vec::new();
    if args.scenario != Which::Sse {
        summaries.push(scenario(&stage, Scenario::Json, args).await?);
    }
    if args.scenario != Which::Json {
        summaries.push(scenario(&stage, Scenario::Sse, args).await?);
    }
    Ok(summaries)
}

async fn scenario(stage: &Stage<'_>, scenario: Scenario, args: &Args) -> anyhow::Result<Summary> {
    let sizes = sizes(args);
    let engines =
        stage.engines(if scenario == Scenario::Sse { sizes.chunks_per_s } else { 0.0 }, args.jitter)?;
    let mut contestants = stage.contestants(&engines).await?;
    let mut rounds = Vec::new();
    for number in 1..=args.rounds {
        let mut round = Vec::new();
        for contestant in &mut contestants {
            let measured = rounds::turn(scenario, &sizes, contestant, &engines, number.into()).await;
            if let Some(process) = &mut contestant.process {
                process.check_alive()?;
            }
            let measured = measured?;
            progress(scenario, number, args.rounds, &measured);
            round.push(measured);
        }
        rounds.push(round);
    }
    ensure!(!rounds.is_empty(), "no round");
    Ok(Summary::new(scenario, rounds))
}

/// Tells on stderr how it goes: a comparison takes minutes.
fn progress(scenario: Scenario, number: u32, of: u32, measured: &Measured) {
    let cost = match scenario {
        Scenario::Json => measured.cpu_s_per_100k_requests,
        Scenario::Sse => measured.cpu_s_per_100k_chunks,
    };
    eprintln!(
        "{scenario:?} {number}/{of} {:8} {:6.2} CPU-s / 100k, {} failed",
        measured.kind.name(),
        cost.unwrap_or(0.0),
        measured.failed
    );
}

fn sizes(args: &Args) -> Sizes {
    Sizes {
        connections: args.connections as usize,
        requests: args.requests,
        open_rate: args.open_rate,
        open_seconds: args.open_seconds,
        streams: args.streams as usize,
        chunks_per_s: args.chunks_per_s,
        jitter: args.jitter,
        stream_seconds: args.stream_seconds,
        body_bytes: args.body_bytes,
    }
}

fn above_zero(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0.0 && *number <= 1e9)
        .ok_or_else(|| "not within 0..=1e9, 0 excluded".to_owned())
}

fn fraction(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number| (0.0..=1.0).contains(number))
        .ok_or_else(|| "not within 0..=1".to_owned())
}
