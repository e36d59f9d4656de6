//! The figures of all scenarios, to be looked up: what is missing is an error with a name.

use anyhow::{Context, ensure};

use crate::report::{Chapter, PlotReference, Summary};

/// What all scenarios came to.
pub(super) struct Results<'a> {
    scenarios: Vec<Scenario<'a>>,
}

/// What one scenario came to.
pub(super) struct Scenario<'a> {
    pub(super) chapter: &'a Chapter,
    summary: Summary,
}

/// A place in a scenario: axes and their values.
pub(super) type Point<'p> = [(&'p str, &'p str)];

// === impl Results ===

impl<'a> Results<'a> {
    pub(super) fn new(chapters: &'a [Chapter]) -> anyhow::Result<Self> {
        let scenario = |chapter: &'a Chapter| anyhow::Ok(Scenario { chapter, summary: chapter.summary()? });
        Ok(Self { scenarios: chapters.iter().map(scenario).collect::<anyhow::Result<_>>()? })
    }

    pub(super) fn of(&self, name: &str) -> anyhow::Result<&Scenario<'a>> {
        let scenario = self.scenarios.iter().find(|scenario| scenario.chapter.name == name);
        scenario.with_context(|| format!("findings: no scenario {name}"))
    }
}

// === impl Scenario ===

impl Scenario<'_> {
    /// A figure's mean over seeds.
    pub(super) fn figure(&self, figure: &str, policy: &str, point: &Point<'_>) -> anyhow::Result<f64> {
        let place = || {
            let point: Vec<String> = point.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
            format!("findings: {}, {policy} at [{}]", self.chapter.name, point.join(", "))
        };
        let row = self.summary.row(policy, point).with_context(|| format!("{}: no such row", place()))?;
        let spread = row.figure(figure).with_context(|| format!("{}: no figure {figure}", place()))?;
        Ok(spread.mean)
    }

    /// A figure of one policy at several values of an axis, each a mean over seeds.
    pub(super) fn along(
        &self,
        figure: &str,
        policy: &str,
        axis: &str,
        values: &[&str],
    ) -> anyhow::Result<Vec<f64>> {
        values.iter().map(|value| self.figure(figure, policy, &[(axis, value)])).collect()
    }

    /// All values of an axis.
    pub(super) fn values(&self, axis: &str) -> anyhow::Result<Vec<&str>> {
        let known = self.chapter.axes.iter().find(|known| known.name == axis);
        let known = known.with_context(|| format!("findings: {} has no axis {axis}", self.chapter.name))?;
        Ok(known.values.iter().map(String::as_str).collect())
    }

    /// Its policies but for the oracle, which no gateway could be.
    pub(super) fn real_policies(&self) -> impl Iterator<Item = &str> {
        self.chapter.policies.iter().map(String::as_str).filter(|policy| *policy != "oracle")
    }

    /// A figure at all points that a policy was run at, with the points in words.
    pub(super) fn everywhere(&self, figure: &str, policy: &str) -> anyhow::Result<Vec<(String, f64)>> {
        let rows = self.summary.rows.iter().filter(|row| self.summary.policies[row.policy] == policy);
        let figures = rows.map(|row| {
            let words: Vec<String> =
                self.summary.point(row).map(|(axis, value)| format!("{} {value}", axis.name)).collect();
            let words = words.join(", ");
            let spread = row.figure(figure);
            let spread = spread.with_context(|| {
                format!("findings: {}, {policy} at [{words}]: no figure {figure}", self.chapter.name)
            })?;
            Ok((words, spread.mean))
        });
        let figures = figures.collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(!figures.is_empty(), "findings: {} was not run with {policy}", self.chapter.name);
        Ok(figures)
    }

    /// Its plots that show one of these figures.
    pub(super) fn plots(&self, figures: &[&str]) -> Vec<PlotReference> {
        let shown = self.chapter.plots.iter().filter(|plot| figures.contains(&plot.y.as_str()));
        let plot =
            |title: &String| PlotReference { scenario: self.chapter.name.clone(), title: title.clone() };
        shown.map(|plot_spec| plot(&plot_spec.title)).collect()
    }
}
