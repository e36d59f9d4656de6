//! `sim run`: scenarios on the terminal.

use anyhow::Context;

use super::{
    setting::settings,
    study::{Effort, Study},
};
use crate::{
    RunArgs,
    report::{Table, to_json},
};

/// Runs the scenarios one after the other, and prints each when it is done.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<()> {
    let settings = settings(args)?;
    for name in &args.scenarios {
        let study = Study::read(name, &settings, &args.only)?;
        let chapter = study.chapter(args.jobs.jobs)?;
        if args.json {
            print!("{}", to_json(&chapter)?);
            continue;
        }
        let effort = Effort::of(&chapter.outcomes);
        let table = Table::of(&chapter.summary()?).with_context(|| name.clone())?;
        println!("{}: {}\n\n{}", chapter.name, chapter.title, table.text());
        println!(
            "{}{} requests simulated, {:.0} a second of CPU time\n",
            study.bounds(),
            effort.requests,
            effort.per_s()
        );
    }
    Ok(())
}
