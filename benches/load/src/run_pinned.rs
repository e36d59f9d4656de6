//! `stargate-bench run-pinned`: becomes another program, on one CPU where one is named, that does not outlive whoever started it.
//!
//! What a comparison starts must be gone when it ends, however it ends; the kernel sees to that, not a signal handler.

use std::{
    ffi::OsString,
    os::unix::process::{CommandExt, parent_id},
    process::Command,
};

use anyhow::{Context, ensure};
use rustix::process::{Signal, set_parent_process_death_signal};
use stargate_wire::net::cpu;

/// Options of `run-pinned`.
#[derive(clap::Args)]
pub struct Args {
    /// The CPU to run on; without it, any that this process may use.
    #[arg(long)]
    core: Option<usize>,
    /// Process id of the starter: without it as parent, nothing is run.
    #[arg(long)]
    parent: Option<u32>,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Replaces this process by the command; returns only when that fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cpu::settle(args.core)?;
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot tie this process to its parent")?;
    if let Some(parent) = args.parent {
        // A parent that died before the line above sends no signal.
        ensure!(parent_id() == parent, "process {parent} is gone");
    }
    let [program, arguments @ ..] = &args.command[..] else { unreachable!("the parser demands a command") };
    Err(Command::new(program).args(arguments).exec())
        .with_context(|| format!("cannot run {}", program.display()))
}
