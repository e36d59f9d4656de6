//! `cargo xtask demo`: the whole gateway in a minute. Three mock engines register themselves and push their stats;
//! requests with affinity keys show who serves what and how much of the prompt comes from a cache.

mod fleet;
mod show;

use std::time::Instant;

use anyhow::Result;
use clap::Args;

use self::fleet::Fleet;

/// What can be chosen.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Stops everything after the requests, instead of leaving it running.
    #[arg(long)]
    once: bool,
    /// Where clients connect; 0 takes a free port.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Where the control plane listens; 0 takes a free port.
    #[arg(long, default_value_t = 9090)]
    admin_port: u16,
}

/// Runs the demo.
pub(crate) fn run(options: &Options) -> Result<()> {
    println!("building the gateway and the mock engine (release) …");
    let start = Instant::now();
    fleet::build()?;
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    let fleet = Fleet::start(options.port, options.admin_port)?;
    show::requests(&fleet)?;
    if options.once {
        println!("\nAll as it should be. Without --once it stays running, to be tried.");
        return Ok(());
    }
    show::invitation(&fleet);
    fleet.wait()
}
