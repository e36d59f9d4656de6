//! From the outcomes of runs to what a reader sees: tables, plots, findings, and the folder `docs/evidence/` with its README.
//!
//! Everything here follows from its input alone: the same results give the same bytes. Nothing here knows how a run is
//! made, and a number that is shown is computed in one place, [`figure`].

mod axis;
mod chapter;
mod figure;
mod finding;
mod folder;
mod json;
mod markdown;
mod peers;
mod plots;
mod prose;
mod scope;
mod spread;
mod summary;
#[cfg(test)]
mod synthetic;
mod table;

pub(crate) use self::{
    axis::Axis,
    chapter::Chapter,
    finding::{Finding, PlotReference, Verdict},
    folder::write,
    json::to_json,
    peers::Peers,
    plots::PlotSpec,
    summary::Summary,
    table::Table,
};

/// All that the evidence consists of.
#[derive(Debug)]
pub(crate) struct Report {
    /// The day of the runs, in words.
    pub(crate) date: Option<String>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) chapters: Vec<Chapter>,
    /// What was measured beside it.
    pub(crate) peers: Option<Peers>,
}
