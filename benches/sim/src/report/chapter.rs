//! A scenario in the report: what it is, what it came to, and what is shown of that.

use anyhow::{Context, ensure};

use super::{axis::Axis, plots::PlotSpec, summary::Summary, table::Table};
use crate::outcome::Outcome;

/// A scenario and its outcomes.
#[derive(Debug)]
pub(crate) struct Chapter {
    /// Names its files, too: small letters, digits and hyphens.
    pub(crate) name: String,
    /// One line.
    pub(crate) title: String,
    /// In plain words; empty lines part paragraphs, backticks mark code.
    pub(crate) description: String,
    pub(crate) axes: Vec<Axis>,
    /// In the order in which they are shown.
    pub(crate) policies: Vec<String>,
    pub(crate) plots: Vec<PlotSpec>,
    pub(crate) outcomes: Vec<Outcome>,
}

/// A chapter with all that is shown of it.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    pub(super) chapter: &'a Chapter,
    pub(super) table: Table,
    /// In SVG.
    pub(super) plots: Vec<String>,
}

// === impl Chapter ===

impl Chapter {
    /// Its outcomes, seeds taken together.
    pub(crate) fn summary(&self) -> anyhow::Result<Summary> {
        Summary::new(&self.name, &self.axes, &self.policies, &self.outcomes)
    }

    /// The file of one of its plots, counted from 0.
    pub(super) fn plot_file(&self, plot: usize) -> String {
        format!("{}-{}.svg", self.name, plot + 1)
    }

    /// Computes and draws what is shown.
    pub(super) fn shown(&self) -> anyhow::Result<Shown<'_>> {
        let is_file_name =
            |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
        ensure!(
            !self.name.is_empty() && self.name.bytes().all(is_file_name),
            "{:?} names no files: small letters, digits and hyphens are allowed",
            self.name
        );
        let shown = || {
            let summary = self.summary()?;
            let table = Table::of(&summary)?;
            let plots =
                self.plots.iter().map(|plot| plot.draw(self, &summary)).collect::<anyhow::Result<_>>()?;
            anyhow::Ok(Shown { chapter: self, table, plots })
        };
        shown().with_context(|| format!("scenario {}", self.name))
    }
}
