//! A figure along an axis, or from policy to policy: one series for each policy or for each value of another axis.

use anyhow::{Context, ensure};

use super::{
    super::{
        axis::{Axis, Measure},
        figure::{self, FIGURES},
        spread::Spread,
        summary::{Row, Summary},
    },
    PlotSpec, Selection,
    chart::{Chart, Kind, Reference, ReferenceOf, Series},
    palette,
    scale::Scale,
};

/// Figures that the bound bounds.
const BOUNDED: [&str; 2] = ["goodput", "completed"];

/// How far bounds of one place may lie apart, as a share, to be shown as one line: seeds differ in what they offer.
const BOUND_SPREAD_MAX: f64 = 0.05;

/// What it shows.
pub(super) fn chart(spec: &PlotSpec, selection: &Selection, summary: &Summary) -> anyhow::Result<Chart> {
    let figure = FIGURES[figure::position(&spec.y).context("no such figure")?];
    let policies = Axis { name: super::POLICY.to_owned(), values: summary.policies.clone() };
    let axis = |name: &str| summary.axes.iter().find(|axis| axis.name == name).unwrap_or(&policies);
    let (along, by) = (axis(&spec.x), axis(&spec.series));
    let xs = selection.of(&spec.x, &summary.axes);
    let names = selection.of(&spec.series, &summary.axes);
    let (scale, positions, kind) = x_scale(along, xs, spec.log_x);

    let rows: Vec<&Row> = summary.rows.iter().filter(|row| selection.has(&row.point, row.policy)).collect();
    let value = |row: &Row, axis: &Axis| match summary.axes.iter().position(|other| other.name == axis.name) {
        Some(index) => row.point[index],
        None => row.policy,
    };
    let points = |name: &str, keep: &dyn Fn(&Row) -> bool| -> Vec<(f64, Spread)> {
        let mut points: Vec<(f64, Spread)> = rows
            .iter()
            .filter(|row| keep(row))
            .filter_map(|row| Some((*positions.get(value(row, along))?, row.figure(name)?)))
            .filter(|(_, spread)| !spec.log_y || spread.min > 0.0)
            .collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        points
    };
    let styles = palette::styles(names, by.values.len());
    let series: Vec<Series> = names
        .iter()
        .zip(styles)
        .map(|(name, style)| Series {
            name: series_name(by, *name),
            style,
            points: points(&spec.y, &|row| value(row, by) == *name),
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    ensure!(!series.is_empty(), "no run has a figure to show");

    let references = if BOUNDED.contains(&spec.y.as_str()) && kind == Kind::Numbers {
        bound(&points("bound", &|_| true)).into_iter().collect()
    } else {
        Vec::new()
    };
    let y = y_scale(figure.title(), spec.log_y, &series, &references);
    Ok(Chart {
        title: spec.title.clone(),
        subtitle: spec.subtitle(&summary.axes),
        x: scale,
        y,
        series,
        references,
        kind,
    })
}

/// The scale of `x`, and where each value of the axis stands on it.
fn x_scale(axis: &Axis, shown: &[usize], is_log: bool) -> (Scale, Vec<f64>, Kind) {
    match axis.measure() {
        Measure::Numbers { values, unit } => {
            let label = if unit.is_empty() { axis.name.clone() } else { format!("{}, {unit}", axis.name) };
            let tick = |index: &usize| {
                let text = axis.values[*index].trim_end_matches(&unit).trim_end();
                (values[*index], text.to_owned())
            };
            (Scale::at(label, shown.iter().map(tick).collect(), is_log), values, Kind::Numbers)
        }
        Measure::Words => {
            let words = shown.iter().map(|index| axis.values[*index].clone()).collect();
            let place =
                |index| shown.iter().position(|other| *other == index).map_or(f64::NAN, |place| place as f64);
            let places = (0..axis.values.len()).map(place).collect();
            (Scale::of_words(axis.name.clone(), words), places, Kind::Words)
        }
    }
}

/// From 0, or by factors, so that everything is seen.
pub(super) fn y_scale(label: String, is_log: bool, series: &[Series], references: &[Reference]) -> Scale {
    let spreads = || series.iter().flat_map(|series| series.points.iter().map(|(_, spread)| spread));
    let lines = || references.iter().flat_map(|line| line.points.iter().map(|(_, y)| *y));
    let most = spreads().map(|spread| spread.max).chain(lines()).fold(0.0, f64::max);
    if is_log {
        let above_zero = |value: &f64| *value > 0.0;
        let least = spreads().map(|spread| spread.min).chain(lines()).filter(above_zero).fold(most, f64::min);
        Scale::by_factors(label, least, most)
    } else {
        Scale::from_zero(label, most)
    }
}

/// What a value of an axis is called in a legend: a bare number does not say what it is.
fn series_name(axis: &Axis, index: usize) -> String {
    let value = &axis.values[index];
    if axis.name != super::POLICY && value.parse::<f64>().is_ok() {
        format!("{} {value}", axis.name)
    } else {
        value.clone()
    }
}

/// The bound as one line, where it is one.
fn bound(points: &[(f64, Spread)]) -> Option<Reference> {
    let mut line: Vec<(f64, f64)> = Vec::new();
    for group in points.chunk_by(|(a, _), (b, _)| a.total_cmp(b).is_eq()) {
        let bounds: Vec<f64> = group.iter().map(|(_, spread)| spread.mean).collect();
        let spread = Spread::of(&bounds)?;
        if spread.max - spread.min > BOUND_SPREAD_MAX * spread.max {
            return None;
        }
        line.push((group[0].0, spread.mean));
    }
    (line.len() > 1).then_some(Reference { of: ReferenceOf::Bound, points: line })
}
