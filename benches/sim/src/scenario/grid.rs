//! From a scenario's text to its points: the axes, and what each value changes.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, bail, ensure};
use serde::Deserialize;
use toml::{Table, Value};

use super::{Accounted, Policy, PolicySpec, Scenario, library};
use crate::{
    catalogue,
    report::{self, PlotSpec},
};

/// A scenario with its axes.
pub(crate) struct Grid {
    pub(crate) name: String,
    /// One line.
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) plots: Vec<PlotSpec>,
    axes: Vec<Axis>,
    table: Table,
}

/// What is varied.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Axis {
    name: String,
    /// Where each of `values` goes: a dotted path, such as `clients.load`. `policy` as its first part is every policy.
    path: Option<String>,
    #[serde(default)]
    values: Vec<Value>,
    /// Values that change several things.
    #[serde(default)]
    cases: Vec<Case>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    label: String,
    /// By dotted path.
    set: BTreeMap<String, Value>,
}

/// One value of an axis.
#[derive(Clone, Debug)]
struct Change {
    label: String,
    set: BTreeMap<String, Value>,
}

/// A point, with its policies read.
pub(crate) struct Point {
    /// By the axis' name.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) scenario: Scenario,
    pub(crate) policies: Vec<(String, Policy)>,
}

// === impl Grid ===

impl Grid {
    /// Reads a scenario; `set` holds changes of its text as `path = value`, from the command line.
    pub(crate) fn read(name: &str, text: &str, set: &[(String, Value)]) -> anyhow::Result<Self> {
        let mut table = catalogue::table(text)?;
        let axes = match table.remove("axes") {
            Some(axes) => Vec::<Axis>::deserialize(axes).context("axes")?,
            None => Vec::new(),
        };
        for axis in &axes {
            ensure!(
                axis.path.is_some() != axis.values.is_empty()
                    && axis.values.is_empty() != axis.cases.is_empty(),
                "axes.{}: allowed: either a path and values, or cases",
                axis.name
            );
        }
        for (index, axis) in axes.iter().enumerate() {
            let is_unlike = |other: &Axis| other.name != axis.name;
            ensure!(axes[..index].iter().all(is_unlike), "axes: two are called {}", axis.name);
        }
        let policies = table.entry("policy").or_insert_with(|| Value::Table(Table::new()));
        library::complete(policies.as_table_mut().context("policy: allowed: tables")?)?;
        let plots = match table.remove("plots") {
            Some(plots) => Vec::<PlotSpec>::deserialize(plots).context("plots")?,
            None => Vec::new(),
        };
        let mut own = |field: &str| match table.remove(field) {
            Some(Value::String(text)) => Ok(text),
            found => Err(anyhow!("{field}: found {found:?}, allowed: a text")),
        };
        let (title, about) = (own("title")?, own("about")?);
        let mut grid = Self { name: name.to_owned(), title, about, plots, axes, table };
        // Before anything is changed: a plot may show what the command line leaves out.
        grid.check_plots()?;
        for (path, value) in set {
            put(&mut grid.table, path, value)?;
        }
        Ok(grid)
    }

    /// The axes as reports have them.
    pub(crate) fn axes(&self) -> Vec<report::Axis> {
        let axis = |axis: &Axis| report::Axis { name: axis.name.clone(), values: axis.labels() };
        self.axes.iter().map(axis).collect()
    }

    fn check_plots(&self) -> anyhow::Result<()> {
        let names = self.table.get("policies").and_then(Value::as_array);
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        let policies: Vec<String> = names.map(str::to_owned).collect();
        self.plots.iter().try_for_each(|plot| plot.check(&self.axes(), &policies))
    }

    /// Leaves of an axis only the values of these labels.
    pub(crate) fn keep(&mut self, axis: &str, labels: &[String]) -> anyhow::Result<()> {
        let known: Vec<&str> = self.axes.iter().map(|axis| axis.name.as_str()).collect();
        let allowed = known.join(", ");
        let axis = self.axes.iter_mut().find(|known| known.name == axis);
        let axis = axis.ok_or_else(|| anyhow!("no such axis; allowed: {allowed}"))?;
        let all = axis.labels();
        if let Some(unknown) = labels.iter().find(|label| !all.contains(label)) {
            bail!("axis {}: found {unknown:?}, allowed: {}", axis.name, all.join(", "));
        }
        axis.values.retain(|value| labels.contains(&in_words(value)));
        axis.cases.retain(|case| labels.contains(&case.label));
        Ok(())
    }

    /// Every combination of the axes' values: the last axis varies fastest.
    pub(crate) fn points(&self) -> anyhow::Result<Vec<Point>> {
        let mut combined: Vec<Vec<(&str, Change)>> = vec![Vec::new()];
        for axis in &self.axes {
            let changes = axis.changes();
            combined = combined
                .into_iter()
                .flat_map(|chosen| {
                    changes.iter().map(move |change| {
                        let mut chosen = chosen.clone();
                        chosen.push((axis.name.as_str(), change.clone()));
                        chosen
                    })
                })
                .collect();
        }
        combined.into_iter().map(|chosen| self.point(chosen)).collect()
    }

    fn point(&self, chosen: Vec<(&str, Change)>) -> anyhow::Result<Point> {
        let mut table = self.table.clone();
        let mut labels = BTreeMap::new();
        for (axis, change) in chosen {
            for (path, value) in &change.set {
                put(&mut table, path, value).with_context(|| format!("axes.{axis}"))?;
            }
            labels.insert(axis.to_owned(), change.label);
        }
        let scenario = Scenario::deserialize(Value::Table(table))?;
        scenario.validate()?;
        let accounted = match &scenario.reports {
            reports if reports.hand_over => Accounted::Exact,
            reports if reports.on_change_ms.is_some() => Accounted::RoundTrip,
            _ => Accounted::InFlight,
        };
        let policy = |name: &String| {
            let known: Vec<&str> = scenario.policy.keys().map(String::as_str).collect();
            let spec: Option<&PolicySpec> = scenario.policy.get(name);
            let spec =
                spec.ok_or_else(|| anyhow!("policies: found {name:?}, allowed: {}", known.join(", ")))?;
            Ok((name.clone(), spec.read(accounted).with_context(|| format!("policy.{name}"))?))
        };
        let policies = scenario.policies.iter().map(policy).collect::<anyhow::Result<_>>()?;
        Ok(Point { labels, scenario, policies })
    }
}

// === impl Axis ===

impl Axis {
    /// Its values, in words, in order.
    fn labels(&self) -> Vec<String> {
        self.changes().into_iter().map(|change| change.label).collect()
    }

    fn changes(&self) -> Vec<Change> {
        let value = |value: &Value| Change {
            label: in_words(value),
            set: self.path.iter().map(|path| (path.clone(), value.clone())).collect(),
        };
        let case = |case: &Case| Change { label: case.label.clone(), set: case.set.clone() };
        self.values.iter().map(value).chain(self.cases.iter().map(case)).collect()
    }
}

/// Puts a value where the path leads: through tables, numbered entries of arrays, and `*` for all entries of either.
fn put(table: &mut Table, path: &str, value: &Value) -> anyhow::Result<()> {
    let parts: Vec<&str> = path.split('.').collect();
    put_in_table(table, &parts, value).with_context(|| path.to_owned())
}

fn put_in_table(table: &mut Table, parts: &[&str], value: &Value) -> anyhow::Result<()> {
    match parts {
        [] => bail!("the path is empty"),
        ["*", rest @ ..] => table.iter_mut().try_for_each(|(_, inner)| put_in(inner, rest, value)),
        [last] => {
            table.insert((*last).to_owned(), value.clone());
            Ok(())
        }
        [first, rest @ ..] => {
            let inner = table.entry(*first).or_insert_with(|| Value::Table(Table::new()));
            put_in(inner, rest, value)
        }
    }
}

fn put_in(place: &mut Value, parts: &[&str], value: &Value) -> anyhow::Result<()> {
    match (place, parts) {
        (place, []) => *place = value.clone(),
        (Value::Table(table), parts) => put_in_table(table, parts, value)?,
        (Value::Array(entries), ["*", rest @ ..]) => {
            entries.iter_mut().try_for_each(|entry| put_in(entry, rest, value))?;
        }
        (Value::Array(entries), [index, rest @ ..]) => {
            let count = entries.len();
            let entry = index.parse().ok().and_then(|index: usize| entries.get_mut(index));
            let entry =
                entry.ok_or_else(|| anyhow!("found {index}, allowed: 0 to {}, or *", count.max(1) - 1))?;
            put_in(entry, rest, value)?;
        }
        _ => bail!("leads into a plain value"),
    }
    Ok(())
}

fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
