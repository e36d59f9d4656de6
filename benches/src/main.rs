//! `stargate-bench`: the engines and clients that Stargate is tested and measured with.
//!
//! `mock-engine` stands in for a real inference engine, `load` drives any HTTP endpoint and accounts for
//! what it costs, `compare` runs both around several proxies in alternating rounds.

mod http;
mod load;
mod mock_engine;
mod net;
mod procfs;

use clap::{Parser, Subcommand};

/// Mock engine, load generator and comparisons for Stargate.
#[derive(Parser)]
#[command(name = "stargate-bench", version, about)]
struct Cli {
    /// Which kernel interface does the I/O.
    #[arg(long, value_enum, default_value_t = net::runtime::Driver::Auto, global = true)]
    driver: net::runtime::Driver,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// An inference engine that answers on time but computes nothing.
    MockEngine(Box<mock_engine::Args>),
    /// Drives an endpoint with requests, verifies every answer and accounts for what it cost.
    Load(Box<load::Args>),
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    match cli.command {
        Command::MockEngine(args) => mock_engine::run(*args, cli.driver),
        Command::Load(args) => load::run(*args, cli.driver),
    }
}
