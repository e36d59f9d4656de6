//! The plots that a scenario asks for: `[[plots]]` of its TOML, read, checked against what there is, and drawn as SVG.
//!
//! What is drawn is decided first, as plain data ([`chart::Chart`]); only [`draw`] knows how a plot looks.

mod chart;
mod draw;
mod palette;
mod scale;
mod sweep;
mod time;

use std::{collections::BTreeMap, fmt};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::{
    Chapter,
    axis::{Axis, Measure},
    figure::{self, FIGURES},
    summary::Summary,
};

/// The name of the policies where axes are named.
const POLICY: &str = "policy";

/// The name of time where axes are named.
const TIME: &str = "time";

/// One plot, as a scenario asks for it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlotSpec {
    pub(crate) title: String,
    /// An axis, `policy`, or `time`.
    pub(crate) x: String,
    /// A figure's name; over time one of those that are known second by second.
    pub(crate) y: String,
    /// What lines differ by: `policy` or an axis.
    #[serde(default = "by_policy")]
    pub(crate) series: String,
    /// Which values of axes, or which policies, are shown: one or several each.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) chosen: BTreeMap<String, Chosen>,
    /// Equal factors at equal distances; `x` has to be an axis of numbers then.
    #[serde(default)]
    pub(crate) log_x: bool,
    #[serde(default)]
    pub(crate) log_y: bool,
}

/// The values that are shown of an axis.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Chosen {
    One(Value),
    Several(Vec<Value>),
}

/// A value of an axis, as TOML may write it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Number(f64),
}

/// What a plot shows: for each axis the indices of its values, and those of the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Selection {
    axes: Vec<Vec<usize>>,
    policies: Vec<usize>,
}

fn by_policy() -> String {
    POLICY.to_owned()
}

// === impl PlotSpec ===

impl PlotSpec {
    /// Checks it against a scenario.
    ///
    /// # Errors
    /// For a name or a value that does not exist there; for an axis of several values that the plot neither shows nor fixes.
    pub(crate) fn check(&self, axes: &[Axis], policies: &[String]) -> anyhow::Result<()> {
        self.select(axes, policies).map(drop).with_context(|| format!("plot {:?}", self.title))
    }

    /// Draws it.
    ///
    /// # Errors
    /// Those of [`Self::check`], and when there is nothing to draw.
    pub(super) fn draw(&self, chapter: &Chapter, summary: &Summary) -> anyhow::Result<String> {
        let svg = || {
            let selection = self.select(&chapter.axes, &chapter.policies)?;
            let chart = if self.is_over_time() {
                time::chart(self, &selection, chapter)?
            } else {
                sweep::chart(self, &selection, summary)?
            };
            draw::svg(&chart)
        };
        svg().with_context(|| format!("plot {:?} of {}", self.title, chapter.name))
    }

    /// The outcomes that a plot over time shows, by their place in the chapter; none for any other plot.
    pub(super) fn runs_over_time(&self, chapter: &Chapter) -> anyhow::Result<Vec<usize>> {
        if !self.is_over_time() {
            return Ok(Vec::new());
        }
        let selection = self.select(&chapter.axes, &chapter.policies)?;
        Ok(time::runs(self, &selection, chapter).into_iter().map(|(_, run)| run).collect())
    }

    fn is_over_time(&self) -> bool {
        self.x == TIME
    }

    fn select(&self, axes: &[Axis], policies: &[String]) -> anyhow::Result<Selection> {
        self.check_figure()?;
        let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).chain([POLICY]).collect();
        if !self.is_over_time() {
            known("x", &self.x, names.iter().copied().chain([TIME]))?;
        }
        known("series", &self.series, names.iter().copied())?;
        ensure!(self.x != self.series, "`x` and `series` are both {}", self.x);
        for name in self.chosen.keys() {
            known("where", name, names.iter().copied())?;
        }
        if self.log_x {
            let axis = axes.iter().find(|axis| axis.name == self.x).map(Axis::measure);
            let is_positive = matches!(
                &axis,
                Some(Measure::Numbers { values, .. }) if values.iter().all(|value| *value > 0.0)
            );
            ensure!(is_positive, "`log_x` is for an axis of numbers above 0");
        }
        let policies = Axis { name: POLICY.to_owned(), values: policies.to_vec() };
        let shown = |axis: &Axis| self.shown(axis);
        Ok(Selection {
            axes: axes.iter().map(shown).collect::<anyhow::Result<_>>()?,
            policies: shown(&policies)?,
        })
    }

    fn check_figure(&self) -> anyhow::Result<()> {
        if self.is_over_time() {
            return known("y", &self.y, time::names()).context("over time");
        }
        if figure::position(&self.y).is_some() {
            return Ok(());
        }
        known("y", &self.y, FIGURES.iter().map(|figure| figure.name))
    }

    /// Which values of an axis are shown.
    fn shown(&self, axis: &Axis) -> anyhow::Result<Vec<usize>> {
        let shown: Vec<usize> = match self.chosen.get(&axis.name) {
            None => (0..axis.values.len()).collect(),
            Some(chosen) => {
                let place = |value: &Value| {
                    let text = value.to_string();
                    axis.position(&text).with_context(|| {
                        format!(
                            "`where`: {} has no value {text:?}; it has {}",
                            axis.name,
                            listed(&axis.values)
                        )
                    })
                };
                chosen.values().iter().map(place).collect::<anyhow::Result<_>>()?
            }
        };
        if shown.len() != 1 && self.x != axis.name && self.series != axis.name {
            bail!(
                "{} has {} values: choose one by `where`, or make it `x` or `series`; they are {}",
                axis.name,
                shown.len(),
                listed(&axis.values)
            );
        }
        Ok(shown)
    }

    /// What was chosen, in words; empty for all.
    fn subtitle(&self, axes: &[Axis]) -> String {
        let fixed = axes.iter().filter_map(|axis| match self.chosen.get(&axis.name)?.values() {
            [value] => Some(format!("{} {value}", axis.name)),
            _ => None,
        });
        let policy = self.chosen.get(POLICY).map(Chosen::values).filter(|policies| policies.len() == 1);
        fixed.chain(policy.map(|policies| format!("policy {}", policies[0]))).collect::<Vec<_>>().join(", ")
    }
}

// === impl Selection ===

impl Selection {
    /// Whether a point and a policy are shown.
    fn has(&self, point: &[usize], policy: usize) -> bool {
        self.policies.contains(&policy)
            && self.axes.iter().zip(point).all(|(values, value)| values.contains(value))
    }

    /// What an axis, or `policy`, shows of these.
    fn of<'a>(&'a self, name: &str, axes: &[Axis]) -> &'a [usize] {
        match axes.iter().position(|axis| axis.name == name) {
            Some(axis) => &self.axes[axis],
            None => &self.policies,
        }
    }
}

// === impl Chosen ===

impl Chosen {
    fn values(&self) -> &[Value] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => out.write_str(text),
            Self::Integer(number) => number.fmt(out),
            Self::Number(number) => number.fmt(out),
        }
    }
}

/// Fails when a key of a plot names nothing that is there.
fn known<'a>(key: &str, name: &str, names: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
    let names: Vec<&str> = names.collect();
    ensure!(names.contains(&name), "`{key}` is {name:?}; allowed are {}", names.join(", "));
    Ok(())
}

fn listed(values: &[String]) -> String {
    values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
