//! One run second by second: how it got where its figures say, and how it recovers.

use anyhow::ensure;

use super::{
    super::{
        super::outcome::{Outcome, Second},
        Chapter,
        axis::Axis,
        spread::Spread,
    },
    PlotSpec, Selection,
    chart::{Chart, Kind, Reference, ReferenceOf, Series},
    palette,
    scale::Scale,
    sweep::y_scale,
};

/// Seconds that a shown value is the mean of: single seconds of Poisson arrivals hide what a policy does.
const WINDOW_SECONDS: usize = 3;

/// Something that is known second by second.
struct Course {
    name: &'static str,
    label: &'static str,
    /// Of one window; `None` when nothing happened that it could be taken of.
    value: fn(&[Second]) -> Option<f64>,
    /// Set beside what was offered and the bound.
    is_bounded: bool,
}

const COURSES: [Course; 5] = [
    Course {
        name: "offered",
        label: "offered, requests/s",
        value: |window| Some(mean(window, |second| second.offered)),
        is_bounded: false,
    },
    Course {
        name: "goodput",
        label: "goodput, requests/s",
        value: |window| Some(mean(window, |second| second.good)),
        is_bounded: true,
    },
    Course {
        name: "rejected",
        label: "rejected, requests/s",
        value: |window| Some(mean(window, |second| second.rejected)),
        is_bounded: false,
    },
    Course { name: "reuse", label: "token reuse, %", value: reuse, is_bounded: false },
    Course {
        name: "waiting",
        label: "requests waiting in gateways",
        value: |window| Some(mean(window, |second| second.waiting)),
        is_bounded: false,
    },
];

/// What can be shown over time.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COURSES.iter().map(|course| course.name)
}

/// What it shows: of each series the run with the least seed.
pub(super) fn chart(spec: &PlotSpec, selection: &Selection, chapter: &Chapter) -> anyhow::Result<Chart> {
    let Some(course) = COURSES.iter().find(|course| course.name == spec.y) else {
        anyhow::bail!("{} is not known second by second", spec.y);
    };
    let runs = runs(spec, selection, chapter);
    let Some((_, first)) = runs.first() else { anyhow::bail!("no run to show") };
    let first = &chapter.outcomes[*first];
    let policies = Axis { name: super::POLICY.to_owned(), values: chapter.policies.clone() };
    let by = chapter.axes.iter().find(|axis| axis.name == spec.series).unwrap_or(&policies);
    let shown: Vec<usize> = runs.iter().map(|(value, _)| *value).collect();
    let series: Vec<Series> = runs
        .iter()
        .zip(palette::styles(&shown, by.values.len()))
        .map(|((value, run), style)| Series {
            name: by.values[*value].clone(),
            style,
            points: points(&chapter.outcomes[*run], course.value, spec.log_y),
        })
        .collect();
    ensure!(series.iter().any(|series| !series.points.is_empty()), "no run has its seconds");

    let seconds = chapter.outcomes.iter().map(|outcome| outcome.seconds.len()).max().unwrap_or_default();
    let references = if course.is_bounded { beside(first) } else { Vec::new() };
    let y = y_scale(course.label.to_owned(), spec.log_y, &series, &references);
    let mut x = Scale::from_zero("time, s".to_owned(), seconds as f64);
    x.to = seconds as f64;
    x.ticks.retain(|(at, _)| *at <= x.to);
    let seed = format!("seed {}, means of {WINDOW_SECONDS} s", first.seed);
    let subtitle = [spec.subtitle(&chapter.axes), seed].into_iter().filter(|part| !part.is_empty());
    let subtitle = subtitle.collect::<Vec<_>>().join(", ");
    Ok(Chart { title: spec.title.clone(), subtitle, x, y, series, references, kind: Kind::Time })
}

/// The run of each series that is shown: the index of the series' value, and the outcome's.
pub(super) fn runs(spec: &PlotSpec, selection: &Selection, chapter: &Chapter) -> Vec<(usize, usize)> {
    let by = chapter.axes.iter().position(|axis| axis.name == spec.series);
    let values = selection.of(&spec.series, &chapter.axes);
    let is_shown = |outcome: &Outcome, value: usize| {
        let policy = chapter.policies.iter().position(|policy| *policy == outcome.policy);
        let point: Option<Vec<usize>> =
            chapter.axes.iter().map(|axis| axis.position(outcome.point.get(&axis.name)?)).collect();
        let (Some(policy), Some(point)) = (policy, point) else { return false };
        selection.has(&point, policy) && by.map_or(policy, |axis| point[axis]) == value
    };
    let run = |value: &usize| {
        let outcomes = chapter.outcomes.iter().enumerate().filter(|(_, outcome)| is_shown(outcome, *value));
        outcomes.min_by_key(|(_, outcome)| outcome.seed).map(|(index, _)| (*value, index))
    };
    values.iter().filter_map(run).collect()
}

/// Each value stands in the middle of its window.
fn points(outcome: &Outcome, value: fn(&[Second]) -> Option<f64>, is_log: bool) -> Vec<(f64, Spread)> {
    let middle = WINDOW_SECONDS as f64 / 2.0;
    let windows = outcome.seconds.windows(WINDOW_SECONDS).enumerate();
    windows
        .filter_map(|(start, window)| Some((start as f64 + middle, value(window)?)))
        .filter(|(_, value)| !is_log || *value > 0.0)
        .map(|(at, value)| (at, Spread { mean: value, min: value, max: value }))
        .collect()
}

/// What was offered, and the bound.
fn beside(outcome: &Outcome) -> Vec<Reference> {
    let offered = points(outcome, |window| Some(mean(window, |second| second.offered)), false);
    let end = outcome.seconds.len() as f64;
    vec![
        Reference {
            of: ReferenceOf::Offered,
            points: offered.into_iter().map(|(at, spread)| (at, spread.mean)).collect(),
        },
        Reference {
            of: ReferenceOf::Bound,
            points: vec![(0.0, outcome.bound_per_s), (end, outcome.bound_per_s)],
        },
    ]
}

fn mean(window: &[Second], count: fn(&Second) -> u32) -> f64 {
    let sum: f64 = window.iter().map(|second| f64::from(count(second))).sum();
    sum / window.len() as f64
}

fn reuse(window: &[Second]) -> Option<f64> {
    let prompt: u64 = window.iter().map(|second| second.prompt_tokens).sum();
    let cached: u64 = window.iter().map(|second| second.cached_tokens).sum();
    (prompt > 0).then(|| 100.0 * cached as f64 / prompt as f64)
}
