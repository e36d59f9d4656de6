//! Where this process runs and how many files it may open.

use anyhow::Context;
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::{CpuSet, sched_setaffinity},
};

/// Pins the calling thread, and the threads and processes that it starts, to one CPU.
pub fn pin_to(cpu: usize) -> anyhow::Result<()> {
    anyhow::ensure!(cpu < CpuSet::MAX_CPU, "CPU {cpu}: this system numbers CPUs below {}", CpuSet::MAX_CPU);
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on CPU {cpu}"))
}

/// Runs the calling thread on one CPU alone, where one is named, and lets this process open all the descriptors that it may;
/// returns how many that are.
pub fn settle(cpu: Option<usize>) -> anyhow::Result<u64> {
    if let Some(cpu) = cpu {
        pin_to(cpu)?;
    }
    Ok(raise_descriptor_limit())
}

/// Raises the limit of open descriptors to the hard limit; returns it. `u64::MAX` is unlimited.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // A refusal leaves the soft limit in force: what runs into it says so then.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
