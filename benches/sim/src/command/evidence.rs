//! `sim evidence`: all scenarios, and the folder that shows what they came to.

use std::{fs, time::Instant};

use anyhow::Context;

use super::study::{Effort, Study};
use crate::{
    EvidenceArgs, catalogue, findings,
    report::{Peers, Report, write},
};

/// Runs the scenarios, and writes the folder when all is well.
pub(crate) fn evidence(args: &EvidenceArgs) -> anyhow::Result<()> {
    let peers = match &args.peers {
        Some(path) => {
            let json = fs::read_to_string(path).with_context(|| path.display().to_string())?;
            Some(Peers::read(&json).with_context(|| path.display().to_string())?)
        }
        None => None,
    };
    let is_whole = args.scenarios.is_empty();
    let names: Vec<String> =
        if is_whole { catalogue::names().map(str::to_owned).collect() } else { args.scenarios.clone() };
    // All are read before any is run: a mistake in the last one costs nothing.
    let studies = names.iter().map(|name| Study::read(name, &[], &[])).collect::<anyhow::Result<Vec<_>>>()?;
    let mut chapters = Vec::new();
    for (name, study) in names.iter().zip(&studies) {
        let began = Instant::now();
        let chapter = study.chapter(args.jobs.jobs)?;
        let effort = Effort::of(&chapter.outcomes);
        eprintln!(
            "{name}: {} runs, {} requests in {:.1} s, {:.0} a second of CPU time",
            chapter.outcomes.len(),
            effort.requests,
            began.elapsed().as_secs_f64(),
            effort.per_s()
        );
        chapters.push(chapter);
    }
    let findings = if is_whole {
        findings::findings(&chapters)?
    } else {
        eprintln!("no findings: they need all scenarios");
        Vec::new()
    };
    for finding in &findings {
        eprint!("{finding}");
    }
    let report = Report { date: args.date.clone(), findings, chapters, peers };
    let written = write(&args.out, &report)?;
    eprintln!(
        "{}: {} files, {} bytes; {} of a former run removed",
        args.out.display(),
        written.files,
        written.bytes,
        written.removed
    );
    Ok(())
}
