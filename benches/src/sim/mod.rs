//! `stargate-bench sim`: the real decisions, in virtual time.
//!
//! Gateways, each with snapshots and reservations of its own, decide by `stargate-routing`; engines are modelled, and so
//! is the way between them. Nothing depends on the machine: a run follows from its seed, and knows what a gateway
//! cannot know, such as which engine had a free slot when a request arrived elsewhere.

mod engine;
mod events;
mod gateway;
mod reservations;
mod run;

/// Which story.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Story {
    /// Until when what was just sent is added to what engines report, and what that is worth.
    Reservations,
}

/// Options of `sim`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which story.
    #[arg(value_enum)]
    story: Story,
    /// Seconds of virtual time that are counted, for each line.
    #[arg(long, default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Runs for each line, with seeds from 1 on.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Tells the story.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (text, json) = match args.story {
        Story::Reservations => reservations::tell(args),
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        print!("{text}");
    }
    Ok(())
}
