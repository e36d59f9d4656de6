//! `stargate-bench peers`: the gateway against what else may stand before engines, in alternating rounds.
//!
//! Proxies share one CPU, engines and the generator another. Contestants alternate within every round, so that what
//! disturbs the machine meets all of them; costs are the kernel's account of each process and its children.

mod contestant;
mod contestants;
mod kind;
mod measured;
mod programs;
mod rounds;
mod scenario;
mod stage;
mod summary;
mod tables;
mod turn;

use std::{path::PathBuf, pin::pin};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use serde_json::json;
use stargate_wire::net::{
    cpu,
    race::{First, race},
    runtime::{self, Driver},
    signals::Termination,
};
use tempfile::TempDir;

use self::{
    kind::Kind,
    programs::ProgramArgs,
    scenario::{Sizes, Which},
    stage::{Other, Stage},
    summary::Summary,
};

/// Options of `peers`.
#[derive(clap::Args)]
pub struct Args {
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
    #[command(flatten)]
    programs: ProgramArgs,
    /// Who takes part, besides the direct way; by default all that are there.
    #[arg(long, value_enum, value_delimiter = ',')]
    contestants: Vec<Kind>,
    /// Which scenarios; by default all. Repeat it for several.
    #[arg(long = "scenario", value_enum, value_delimiter = ',')]
    scenarios: Vec<Which>,
    /// Rounds of each scenario.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    sizes: Sizes,
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
pub fn run(args: &Args, driver: Driver) -> anyhow::Result<()> {
    let mut sizes = args.sizes.clone();
    sizes.fit_descriptors(cpu::raise_descriptor_limit());
    cpu::pin_to(args.load_core)?;
    let kinds = args.kinds()?;
    let summaries = runtime::block_on(driver, || async {
        let termination = Termination::catch().context("cannot catch signals")?;
        match race(pin!(compare(args, &sizes, &kinds)), pin!(termination.requested())).await {
            First::Left(summaries) => summaries,
            // Dropping the comparison stopped everything that it had started.
            First::Right(()) => bail!("interrupted"),
        }
    })??;
    if args.json {
        let report = json!({"sizes": sizes, "scenarios": summaries});
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        for summary in &summaries {
            println!("{summary}");
        }
    }
    Ok(())
}

async fn compare(args: &Args, sizes: &Sizes, kinds: &[Kind]) -> anyhow::Result<Vec<Summary>> {
    let has_other = kinds.contains(&Kind::Other);
    let other = args.other.as_ref().or(args.stargate.as_ref()).filter(|_| has_other);
    let stage = Stage {
        folder: TempDir::with_prefix("stargate-peers-").context("a temporary folder")?,
        proxy_core: args.proxy_core,
        load_core: args.load_core,
        programs: &args.programs,
        stargate: args.stargate.clone(),
        other: other.map(|program| Other { program: program.clone(), settings: args.other_set.clone() }),
    };
    let which = if args.scenarios.is_empty() { Which::value_variants() } else { &args.scenarios };
    let mut summaries = Vec::new();
    for scenario in which.iter().flat_map(|which| which.scenarios(sizes)) {
        summaries.push(rounds::run(&stage, scenario, sizes, kinds, args.rounds).await?);
    }
    Ok(summaries)
}

// === impl Args ===

impl Args {
    /// Who takes part, in the order of the tables. A peer that is not installed is left out, with a word.
    fn kinds(&self) -> anyhow::Result<Vec<Kind>> {
        if let Some(program) = self.stargate.iter().chain(&self.other).find(|program| !program.is_file()) {
            bail!("{} is not a program", program.display());
        }
        let mut kinds = Vec::new();
        for &kind in Kind::value_variants() {
            let is_named = self.contestants.contains(&kind);
            if !is_named && !self.contestants.is_empty() && kind != Kind::Direct {
                continue;
            }
            let is_there = match (kind, kind.peer()) {
                (_, Some(peer)) => {
                    let found = self.programs.find(peer)?.is_some();
                    if !found {
                        eprintln!("without {}, which is not installed: {}", kind.name(), peer.installation());
                    }
                    found
                }
                (Kind::Gateway, None) => {
                    ensure!(self.stargate.is_some() || !is_named, "the gateway needs --stargate");
                    self.stargate.is_some()
                }
                (Kind::Other, None) => {
                    let is_there = self.other.is_some() || !self.other_set.is_empty();
                    ensure!(is_there || !is_named, "the other gateway needs --other or --other-set");
                    is_there
                }
                _ => true,
            };
            if is_there {
                kinds.push(kind);
            }
        }
        Ok(kinds)
    }
}
