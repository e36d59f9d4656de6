//! `cargo xtask evidence`: makes `docs/evidence/` anew, whole: what is simulated, and what is measured beside the peers.
//!
//! Simulated figures are the same everywhere; measured ones are of the machine that this runs on, so that both halves are
//! only worth reading together when nothing else ran on it.

mod peers;

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use clap::Args;

use crate::{
    step::Steps,
    workspace::{cargo, root, run, target_dir},
};

/// Where the evidence is kept, from the root of the workspace.
const FOLDER: &str = "docs/evidence";

/// What to make.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Leave out what is measured: no peers are installed, nothing is timed.
    #[arg(long)]
    simulated_only: bool,
    /// Rounds of each measurement.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "simulated_only")]
    rounds: u32,
    /// The day that is written on it, in words; by default none is.
    #[arg(long, value_name = "DAY")]
    date: Option<String>,
}

/// Makes it.
pub(crate) fn run_all(options: &Options) -> Result<()> {
    println!(
        "simulated: every scenario, by the gateway's own decisions in virtual time; needs no quiet machine"
    );
    if options.simulated_only {
        println!("measured: nothing");
    } else {
        println!(
            "measured: the gateway and its peers, real processes over loopback; leave the machine to it"
        );
    }
    let mut steps = Steps::default();
    steps.run("building the simulator", || {
        run(cargo().args([
            "build",
            "--locked",
            "--release",
            "-p",
            "stargate-bench",
            "--bin",
            "stargate-bench",
        ]))
    })?;
    let measured = if options.simulated_only {
        None
    } else {
        steps.run("building the gateway", || {
            run(cargo().args(["build", "--locked", "--profile", "dist"]).args([
                "-p",
                "stargate-controlplane",
                "--bin",
                "stargate",
            ]))
        })?;
        let mut programs = Vec::new();
        steps.run("installing the peers", || {
            programs = peers::install()?;
            Ok(())
        })?;
        let json = target_dir().join("peers.json");
        steps.run("measured: the peers", || measure(&programs, options.rounds, &json))?;
        Some(json)
    };
    steps.run("simulated: the scenarios", || simulate(measured.as_deref(), options.date.as_deref()))?;
    println!("\n{}", root().join(FOLDER).display());
    steps.print_summary();
    Ok(())
}

/// Runs the measurement; what it prints is kept.
fn measure(programs: &[(&'static str, PathBuf)], rounds: u32, json: &Path) -> Result<()> {
    let output = File::create(json).with_context(|| format!("{}", json.display()))?;
    let mut bench = bench();
    bench
        .args(["peers", "--json", "--rounds", &rounds.to_string(), "--stargate"])
        .arg(target_dir().join("dist/stargate"));
    for (option, program) in programs {
        bench.arg(option).arg(program);
    }
    run(bench.stdout(output))
}

fn simulate(measured: Option<&Path>, date: Option<&str>) -> Result<()> {
    let mut bench = bench();
    bench.args(["sim", "evidence", "--out", FOLDER]);
    if let Some(json) = measured {
        bench.arg("--peers").arg(json);
    }
    if let Some(date) = date {
        bench.args(["--date", date]);
    }
    run(&mut bench)
}

fn bench() -> Command {
    let mut bench = Command::new(target_dir().join("release/stargate-bench"));
    bench.current_dir(root());
    bench
}
