//! A scenario from its text to its outcomes: read, restricted, run.

use std::time::Duration;

use anyhow::Context;
use toml::Value;

use super::setting::selection;
use crate::{
    bound::Bound,
    catalogue,
    outcome::Outcome,
    report::Chapter,
    runner,
    scenario::{Grid, Point},
};

/// A scenario that is ready to run.
pub(super) struct Study {
    grid: Grid,
    points: Vec<Point>,
    bounds: Vec<Bound>,
}

/// How much was simulated.
pub(super) struct Effort {
    pub(super) requests: u64,
    pub(super) cpu_time: Duration,
}

// === impl Study ===

impl Study {
    /// Reads a scenario of the list or a file, with changes of its text, and only the values of axes that `only` names.
    pub(super) fn read(name: &str, settings: &[(String, Value)], only: &[String]) -> anyhow::Result<Self> {
        let read = || {
            let mut grid = Grid::read(&named(name), &catalogue::text(name)?, settings)?;
            for only in only {
                let (axis, labels) = selection(only)?;
                grid.keep(axis, &labels)?;
            }
            let points = grid.points()?;
            let bounds = runner::bounds(&points)?;
            anyhow::Ok(Self { grid, points, bounds })
        };
        read().with_context(|| name.to_owned())
    }

    /// Runs it all, and makes a chapter of it: with those of its plots that can be drawn of what was run.
    pub(super) fn chapter(&self, jobs: usize) -> anyhow::Result<Chapter> {
        let outcomes = runner::run_all(&self.grid.name, &self.points, &self.bounds, jobs)?;
        let axes = self.grid.axes();
        let mut policies: Vec<String> = Vec::new();
        for (policy, _) in self.points.iter().flat_map(|point| &point.policies) {
            if !policies.contains(policy) {
                policies.push(policy.clone());
            }
        }
        let mut plots = self.grid.plots.clone();
        plots.retain(|plot| plot.check(&axes, &policies).is_ok());
        Ok(Chapter {
            name: self.grid.name.clone(),
            title: self.grid.title.clone(),
            description: self.grid.about.trim().to_owned(),
            axes,
            policies,
            plots,
            outcomes,
        })
    }

    /// What the engines do at best and at worst, in a line; by point where points differ.
    pub(super) fn bounds(&self) -> String {
        let bound = |(point, bound): (&Point, &Bound)| {
            let scenario = &point.scenario;
            format!("warm {:.1}/s, cold {:.1}/s", bound.warm_per_s(scenario), bound.cold_per_s(scenario))
        };
        let bounds: Vec<String> = self.points.iter().zip(&self.bounds).map(bound).collect();
        match bounds.first() {
            Some(first) if bounds.iter().all(|bound| bound == first) => format!("engines: {first}\n"),
            _ => {
                let labels = self.points.iter().map(|point| {
                    let labels = point.labels.iter().map(|(axis, value)| format!("{axis} {value}"));
                    labels.collect::<Vec<_>>().join(", ")
                });
                let lines =
                    labels.zip(&bounds).map(|(labels, bound)| format!("engines at {labels}: {bound}\n"));
                lines.collect()
            }
        }
    }
}

/// A scenario's name: a file's is that of the file without its folder and its ending.
fn named(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.strip_suffix(".toml").unwrap_or(file).to_owned()
}

// === impl Effort ===

impl Effort {
    /// Of these runs.
    pub(super) fn of(outcomes: &[Outcome]) -> Self {
        let requests = |outcome: &Outcome| -> u64 {
            outcome.seconds.iter().map(|second| u64::from(second.offered)).sum()
        };
        Self {
            requests: outcomes.iter().map(requests).sum(),
            cpu_time: outcomes.iter().map(|outcome| outcome.cpu_time).sum(),
        }
    }

    /// Requests a second of CPU time.
    pub(super) fn per_s(&self) -> f64 {
        self.requests as f64 / self.cpu_time.as_secs_f64().max(1e-9)
    }
}
