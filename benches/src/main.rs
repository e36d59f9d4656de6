//! `stargate-bench`: the engines and clients that Stargate is tested and measured with.
//!
//! `mock-engine` stands in for a real inference engine, `load` drives any HTTP endpoint and accounts for
//! what it costs, `peers` runs both around several proxies in alternating rounds, `scenario` around one
//! gateway whose routing is at stake; `sim` runs the decisions alone, in virtual time.
//!
//! Only the command line is here: what it runs are the crates in the folders beside this one.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use stargate_load::{generator, peers, relay, run_pinned, scenario};
use stargate_wire::net::runtime::Driver;

/// Mock engine, load generator and comparisons for Stargate.
#[derive(Parser)]
#[command(name = "stargate-bench", version, about)]
struct Cli {
    /// Which kernel interface does the I/O.
    #[arg(long, value_enum, default_value_t = Driver::Auto, global = true)]
    driver: Driver,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// An inference engine that answers on time but computes nothing.
    MockEngine(Box<stargate_mock_engine::Args>),
    /// Drives an endpoint with requests, verifies every answer and accounts for what it cost.
    Load(Box<generator::Args>),
    /// Compares the gateway with a direct connection, a bare relay and other proxies and routers, in alternating rounds.
    Peers(Box<peers::Args>),
    /// Drives a gateway and mock engines of its own through one story of routing, live.
    Scenario(scenario::Args),
    /// Runs the real decisions in virtual time, against modelled engines.
    Sim(stargate_sim::Args),
    /// Passes bytes between clients and upstreams: the least that any proxy must cost.
    Relay(relay::Args),
    /// Runs a command on one CPU; it dies with whoever started it.
    RunPinned(run_pinned::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::MockEngine(args) => stargate_mock_engine::run(*args, cli.driver),
        Command::Load(args) => generator::run(*args, cli.driver),
        Command::Peers(args) => peers::run(&args, cli.driver),
        Command::Scenario(args) => scenario::run(&args, cli.driver),
        Command::Sim(args) => stargate_sim::run(&args),
        Command::Relay(args) => relay::run(args, cli.driver),
        Command::RunPinned(args) => run_pinned::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stargate-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
