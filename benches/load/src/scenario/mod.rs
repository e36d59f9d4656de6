//! `stargate-bench scenario`: a gateway and four mock engines of its own, driven through one story of routing.
//!
//! Where `peers` asks what the gateway costs, this asks what its decisions are worth: in overload, with warm caches
//! at stake, and while the configuration changes. What limits throughput are the engines' slots and their pace, which
//! are clocks, not the machine's CPUs; so the figures mean the same on a small machine.

mod caches;
mod fleet;
mod handover;
mod overload;
mod reconfigure;

use std::{net::SocketAddr, path::PathBuf, pin::pin, rc::Rc, time::Duration};

use anyhow::Context;
use serde_json::Value;
use stargate_wire::{
    http::url::Url,
    net::{
        cpu,
        race::{First, race},
        runtime::{self, Driver},
        signals::Termination,
    },
};

use self::fleet::Fleet;
use crate::generator::{
    body::MessageOptions,
    measure::{Pace, Plan, measure},
    message::Target,
    open::Arrivals,
    report::Report,
};

/// Connections of the generator: more than requests ever wait at once.
const CONNECTIONS: usize = 4000;

/// Nothing of an answer for this long is a failure; longer than any request may wait in the gateway.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// The model that everything is about.
const MODEL: &str = "mock";

/// Which story.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Story {
    /// More requests than the engines can serve: who is served, and in what order.
    Overload,
    /// Warm caches in four engines, one of them slow: what each algorithm makes of them.
    Caches,
    /// The routing configuration changes under load.
    Reconfigure,
    /// Engines that report once a second, and say which requests a report includes, or do not.
    Handover,
}

/// Options of `scenario`.
#[derive(clap::Args)]
pub struct Args {
    /// Which story.
    #[arg(value_enum)]
    story: Story,
    /// The gateway's daemon.
    #[arg(long, value_name = "PATH")]
    stargate: PathBuf,
    /// Seconds of load for each line of the table.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Offered load: a multiple of the engines' capacity (overload, handover), or requests a second (caches,
    /// reconfigure).
    #[arg(long, value_name = "NUMBER")]
    rate: Option<f64>,
    /// Seed of the arrivals.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What a story is told with.
struct Stage<'a> {
    stargate: &'a PathBuf,
    time: Duration,
    rate: Option<f64>,
    seed: u64,
}

/// Load on one fleet.
struct Offered {
    rate: f64,
    affinity_keys: usize,
    body_bytes: usize,
    max_tokens: u64,
    stream: bool,
    connections: usize,
    /// First byte that is in time.
    slo: Option<Duration>,
}

/// Tells a story and prints what came of it.
pub fn run(args: &Args, driver: Driver) -> anyhow::Result<()> {
    cpu::raise_descriptor_limit();
    anyhow::ensure!(args.stargate.is_file(), "{} is not a program", args.stargate.display());
    let stage = Stage {
        stargate: &args.stargate,
        time: Duration::from_secs(args.seconds),
        rate: args.rate,
        seed: args.seed,
    };
    let (text, json) = runtime::block_on(driver, || async {
        let termination = Termination::catch().context("cannot catch signals")?;
        match race(pin!(tell(args.story, &stage)), pin!(termination.requested())).await {
            First::Left(told) => told,
            // Dropping the story stopped everything that it had started.
            First::Right(()) => anyhow::bail!("interrupted"),
        }
    })??;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        print!("{text}");
    }
    Ok(())
}

async fn tell(story: Story, stage: &Stage<'_>) -> anyhow::Result<(String, Value)> {
    match story {
        Story::Overload => overload::tell(stage).await,
        Story::Caches => caches::tell(stage).await,
        Story::Reconfigure => reconfigure::tell(stage).await,
        Story::Handover => handover::tell(stage).await,
    }
}

// === impl Stage ===

impl Stage<'_> {
    /// Offers load to the gateway of `fleet`.
    async fn offer(&self, fleet: &Fleet, offered: &Offered) -> anyhow::Result<Report> {
        self.offer_to(fleet.gateway, fleet.gateway_pid(), offered).await
    }

    /// Offers load to the gateway at `address`, whose process is `pid`.
    async fn offer_to(&self, address: SocketAddr, pid: u32, offered: &Offered) -> anyhow::Result<Report> {
        let options = MessageOptions {
            model: MODEL.to_owned(),
            stream: offered.stream,
            body_bytes: offered.body_bytes,
            max_tokens: offered.max_tokens,
            affinity_keys: offered.affinity_keys,
            shuffled: true,
            chunks_per_s: None,
            headers: Vec::new(),
        };
        let url: Url = format!("http://{address}").parse()?;
        measure(&Plan {
            targets: vec![Rc::new(Target::new(&url, &options))],
            connections: offered.connections,
            pace: Pace::Open { rate: offered.rate, arrivals: Arrivals::Poisson, time: self.time },
            warmup: Duration::ZERO,
            timeout: ANSWER_TIMEOUT,
            goal: offered.slo,
            pids: vec![pid],
            seed: self.seed,
        })
        .await
    }
}
