//! `cargo xtask …`: what people and CI do with this workspace, as one program instead of scripts.

mod cargo_deny;
mod children;
mod ci;
mod demo;
mod ebpf;
mod evidence;
mod fuzz;
mod interleavings;
mod python;
mod step;
mod structure;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Starts three mock engines and a gateway, shows who serves what, and leaves them running.
    Demo(demo::Options),
    /// Checks everything that must hold: formatting, lints, tests, licences.
    Ci,
    /// Checks references, the direction of dependencies, and circles between the rooms of a crate.
    Structure,
    /// Fuzzes what reads configuration and routing expressions.
    Fuzz(fuzz::Options),
    /// Makes `docs/evidence/` anew: simulates every scenario, and measures the gateway beside its peers.
    Evidence(evidence::Options),
    /// Installs what building the kernel programs needs (Debian and Ubuntu; elsewhere says what to do).
    SetupEbpf,
    /// Builds the kernel programs and embeds them in the daemon.
    BuildEbpf(ebpf::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Demo(options) => demo::run(&options),
        Task::Ci => ci::run(),
        Task::Structure => structure::check(),
        Task::Fuzz(options) => fuzz::run_chosen(&options),
        Task::Evidence(options) => evidence::run_all(&options),
        Task::SetupEbpf => ebpf::set_up(),
        Task::BuildEbpf(options) => ebpf::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
