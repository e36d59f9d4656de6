//! `stargate-bench sim`: the real decisions, in virtual time.
//!
//! Gateways, each with snapshots and reservations of its own, decide by `stargate-routing`; engines are modelled, and so
//! is the way between them. Nothing depends on the machine: a run follows from its seed, and knows what a gateway
//! cannot know, such as which engine had a free slot when a request arrived elsewhere.

mod baselines;
mod engine;
mod events;
mod model;
mod outcome;
mod report;

/// Options of `sim`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: &Args) -> anyhow::Result<()> {
    Ok(())
}
