//! Alternating rounds: every contestant in turn under the same load, so that what disturbs the machine meets all of them.
//!
//! A peer that does not start, answer or survive is left out from there on, with the reason; ours must do all of that.

use anyhow::Context;

use super::{
    contestant::Contestant,
    contestants,
    kind::Kind,
    measured::Measured,
    scenario::{Scenario, Sizes},
    stage::{Engines, Stage},
    summary::{LeftOut, Summary},
    tables, turn,
};

/// Someone who takes part until something goes wrong.
struct Entrant {
    kind: Kind,
    running: Option<Contestant>,
    /// Why it takes part no more.
    left_out: Option<String>,
}

/// Runs a scenario's rounds.
pub(super) async fn run(
    stage: &Stage<'_>,
    scenario: Scenario,
    sizes: &Sizes,
    kinds: &[Kind],
    rounds: u32,
) -> anyhow::Result<Summary> {
    let engines = stage.engines(scenario.engines(sizes))?;
    let mut entrants: Vec<Entrant> =
        kinds.iter().map(|kind| Entrant { kind: *kind, running: None, left_out: None }).collect();
    if !scenario.starts_anew() {
        for entrant in &mut entrants {
            if let Err(error) = entrant.start(stage, &engines).await {
                entrant.leave_out(scenario, error)?;
            }
        }
    }
    let mut measured = Vec::new();
    for round in 1..=rounds {
        let mut turns = Vec::new();
        for entrant in entrants.iter_mut().filter(|entrant| entrant.left_out.is_none()) {
            match entrant.turn(stage, scenario, sizes, &engines, round).await {
                Ok(measured) => {
                    progress(scenario, round, rounds, &measured);
                    turns.push(measured);
                }
                Err(error) => entrant.leave_out(scenario, error)?,
            }
            if scenario.starts_anew() {
                entrant.running = None;
            }
        }
        measured.push(turns);
    }
    let left_out = entrants
        .into_iter()
        .filter_map(|entrant| Some(LeftOut { kind: entrant.kind, reason: entrant.left_out? }))
        .collect();
    Ok(Summary::new(scenario, kinds, measured, left_out))
}

// === impl Entrant ===

impl Entrant {
    async fn start(&mut self, stage: &Stage<'_>, engines: &Engines) -> anyhow::Result<()> {
        self.running = Some(contestants::start(self.kind, stage, &engines.addresses).await?);
        Ok(())
    }

    async fn turn(
        &mut self,
        stage: &Stage<'_>,
        scenario: Scenario,
        sizes: &Sizes,
        engines: &Engines,
        round: u32,
    ) -> anyhow::Result<Measured> {
        if self.running.is_none() {
            self.start(stage, engines).await?;
        }
        let contestant = self.running.as_mut().context("it was started")?;
        let measured = turn::turn(scenario, sizes, contestant, engines, round).await;
        // What it said at its end tells more than that its account is gone.
        contestant.check_alive()?;
        measured
    }

    /// Goes on without it where it is a program of others.
    fn leave_out(&mut self, scenario: Scenario, error: anyhow::Error) -> anyhow::Result<()> {
        self.running = None;
        if self.kind.peer().is_none() {
            return Err(error.context(self.kind.name()));
        }
        let reason = format!("{error:#}");
        eprintln!("{scenario}: going on without {}: {reason}", self.kind.name());
        self.left_out = Some(reason);
        Ok(())
    }
}

/// Tells on stderr how it goes: rounds take minutes.
fn progress(scenario: Scenario, round: u32, rounds: u32, measured: &Measured) {
    let first = tables::columns(scenario).first();
    let value = first.and_then(|column| Some((column, measured.values.get(&column.quantity)?)));
    let text = value.map_or_else(
        || "nothing measured".to_owned(),
        |(column, value)| format!("{value:.*} {}", column.digits, column.name),
    );
    let failed = measured.failed();
    eprintln!("{scenario} {round}/{rounds} {}: {text}, {failed} failed", measured.kind.name());
}
