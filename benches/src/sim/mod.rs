//! `stargate-bench sim`: the real decisions, in virtual time.
//!
//! Gateways, each with snapshots and reservations of its own, decide by `stargate-routing`; engines are modelled, and so
//! is the way between them. Nothing depends on the machine: a run follows from its seed, and knows what a gateway
//! cannot know, such as which engine had a free slot when a request arrived elsewhere.

mod baselines;
mod bound;
mod catalogue;
mod clients;
mod engine;
mod events;
mod gateway;
mod model;
mod outcome;
mod pylon;
mod report;
mod runner;
mod scenario;
mod tally;
mod world;

use anyhow::{Context, anyhow};
use toml::Value;

use self::scenario::Grid;

/// Options of `sim`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Runs scenarios, and prints what they came to.
    Run(RunArgs),
    /// Lists the scenarios that come with the program.
    List,
}

#[derive(clap::Args)]
struct RunArgs {
    /// A scenario of the list, or a TOML file.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Only these policies, in this order.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<String>,
    /// Only these seeds.
    #[arg(long, value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Only these values of an axis: name=value,value.
    #[arg(long, value_name = "AXIS=VALUES")]
    only: Vec<String>,
    /// Changes something in the scenario's text first, as path=value in TOML: clients.sessions=100.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Runs at a time.
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    jobs: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::Run(args) => args.scenarios.iter().try_for_each(|name| run_one(name, args)),
        Command::List => {
            for name in catalogue::names() {
                println!("{name}");
            }
            Ok(())
        }
    }
}

fn run_one(name: &str, args: &RunArgs) -> anyhow::Result<()> {
    let mut set = args.set.iter().map(|text| setting(text)).collect::<anyhow::Result<Vec<_>>>()?;
    if !args.policy.is_empty() {
        let policies = args.policy.iter().cloned().map(Value::String).collect();
        set.push(("policies".to_owned(), Value::Array(policies)));
    }
    if !args.seeds.is_empty() {
        let seeds = args.seeds.iter().map(|seed| Value::Integer(*seed as i64));
        set.push(("seeds".to_owned(), Value::Array(seeds.collect())));
    }
    let mut grid = Grid::read(name, &catalogue::text(name)?, &set).with_context(|| name.to_owned())?;
    for only in &args.only {
        let (axis, labels) = only.split_once('=').ok_or_else(|| anyhow!("--only {only}: allowed: axis=value,value"))?;
        grid.keep(axis, &labels.split(',').map(str::to_owned).collect::<Vec<_>>())?;
    }
    let points = grid.points().with_context(|| name.to_owned())?;
    let bounds = runner::bounds(&points)?;
    for (point, bound) in points.iter().zip(&bounds) {
        eprintln!("{:?}: warm {:.1}/s cold {:.1}/s", point.labels, bound.warm_per_s(&point.scenario), bound.cold_per_s(&point.scenario));
    }
    let outcomes = runner::run_all(name, &points, args.jobs)?;
    for o in &outcomes {
        println!("{:?} {:20} s{} off {:6.1} good {:6.1} ({:5.1}%) rej {:5.1} to {:4.1} ttft {:6.0}/{:6.0}/{:6.0} reuse {:.3} over {:.3} att {:.2} fair {:.3} misr {:.3} q {:.3} busy {:.3} | {:.0}/s", o.point.values().collect::<Vec<_>>(), o.policy, o.seed, o.offered_per_s, o.goodput_per_s, 100.0*o.goodput_per_s/o.bound_per_s, o.rejected_per_s, o.timed_out_per_s, o.ttft_ms.p50, o.ttft_ms.p90, o.ttft_ms.p99, o.token_reuse, o.overflow_share, o.attempts_per_request, o.fairness, o.misrouted_share, o.queued_share, o.busy_share, o.simulated_per_cpu_s);
    }
    Ok(())
}

/// `path=value`, the value as TOML writes it; a bare word is a text.
fn setting(text: &str) -> anyhow::Result<(String, Value)> {
    let (path, value) = text.split_once('=').ok_or_else(|| anyhow!("--set {text}: allowed: path=value"))?;
    let parsed = format!("value = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("value"));
    Ok((path.to_owned(), parsed.unwrap_or_else(|| Value::String(value.to_owned()))))
}
