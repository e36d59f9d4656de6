//! `stargate-bench sim`: the real decisions, in virtual time.
//!
//! Gateways, each with snapshots and reservations of its own, decide by `stargate-routing`; engines are modelled, and so
//! is the way between them. Nothing depends on the machine: a run follows from its seed, and knows what a gateway
//! cannot know, such as which engine had a free slot when a request arrived elsewhere.

mod baselines;
mod bound;
mod catalogue;
mod clients;
mod command;
mod engine;
mod events;
mod findings;
mod gateway;
mod model;
mod outcome;
mod pylon;
mod report;
mod runner;
mod scenario;
mod tally;
#[cfg(test)]
mod testing;
mod world;

use std::path::PathBuf;

/// Options of `sim`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Runs scenarios, and prints what they came to.
    Run(RunArgs),
    /// Lists the scenarios that come with the program.
    List,
    /// Runs all scenarios of the list, and writes findings, tables and plots as one page of Markdown.
    Evidence(EvidenceArgs),
}

#[derive(clap::Args)]
struct RunArgs {
    /// Scenarios of the list, or TOML files.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Only these policies, in this order.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<String>,
    /// Only these seeds.
    #[arg(long, value_name = "SEED", value_delimiter = ',')]
    seeds: Vec<u32>,
    /// Only these values of an axis: name=value,value.
    #[arg(long, value_name = "AXIS=VALUES")]
    only: Vec<String>,
    /// Changes something in the scenario's text first, as path=value in TOML: clients.sessions=100.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    jobs: Jobs,
    /// Prints a JSON document for each scenario instead of its table.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct EvidenceArgs {
    /// The folder that all is written to; what a former run wrote there and this one does not is removed.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// What `stargate-bench peers --json` measured, to be shown beside it.
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
    /// The day of the runs, as the page is to say it.
    #[arg(long, value_name = "DAY")]
    date: Option<String>,
    #[command(flatten)]
    jobs: Jobs,
    /// Only these scenarios, and no findings, which need all of them.
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
}

#[derive(clap::Args)]
struct Jobs {
    /// Runs at a time.
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    jobs: usize,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::Run(args) => command::run(args),
        Command::List => command::list(),
        Command::Evidence(args) => command::evidence(args),
    }
}
