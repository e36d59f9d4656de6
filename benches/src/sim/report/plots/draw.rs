//! A chart as SVG: axes by plotters, and on them bands, lines and marks; the legend stands below, never on data.
//!
//! Text is left to the reader's fonts, whose widths are not known here: they are estimated, and generously.

use std::ops::Range;

use plotters::{
    coord::{
        Shift,
        ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter},
    },
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{
    chart::{Chart, Kind, Reference, ReferenceOf, Series},
    palette::{self, Ink, Mark},
    scale::Scale,
};
use crate::sim::report::summary::Spread;

/// Of the drawing, in its own units; a page shows it at any width.
const WIDTH: i32 = 900;
/// Of the plot itself with its axes.
const PLOT_HEIGHT: i32 = 440;
const MARGIN: i32 = 16;
const TITLE_HEIGHT: i32 = 40;
const SUBTITLE_HEIGHT: i32 = 28;
const LEGEND_LINE_HEIGHT: i32 = 30;
const LEGEND_SAMPLE_WIDTH: i32 = 44;
const X_LABELS_HEIGHT: i32 = 66;
const Y_LABELS_WIDTH: i32 = 92;

const TITLE_SIZE: f64 = 25.0;
const TEXT_SIZE: f64 = 20.0;
/// Below this, words of an axis are cut by their neighbours rather than made smaller.
const TEXT_SIZE_MIN: f64 = 12.0;
/// Width of a letter, of the size of its text.
const LETTER_WIDTH: f64 = 0.56;
/// What the SVG backend divides a size by.
const BACKEND_SIZE_FACTOR: f64 = 1.24;

const LINE_WIDTH: u32 = 3;
const REFERENCE_WIDTH: u32 = 2;
/// Of the bound: on, off.
const DASHES: &str = "10 7";
const MARK_RADIUS: i32 = 7;
const BAND_OPACITY: f64 = 0.18;
/// Marks along a line that has too many points for one each.
const MARKS_OVER_TIME: usize = 12;
/// Between points of one word, of the width that the word has.
const WORD_SHARE: f64 = 0.6;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Pixel = (i32, i32);

/// Draws it.
pub(super) fn svg(chart: &Chart) -> anyhow::Result<String> {
    let legend = legend(chart);
    let lines = legend.last().map_or(0, |entry| entry.line + 1);
    let subtitle_height = if chart.subtitle.is_empty() { 0 } else { SUBTITLE_HEIGHT };
    let top = MARGIN / 2 + TITLE_HEIGHT + subtitle_height;
    let height = top + PLOT_HEIGHT + lines * LEGEND_LINE_HEIGHT + MARGIN;

    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (WIDTH.cast_unsigned(), height.cast_unsigned()))
        .into_drawing_area();
    root.fill(&palette::PAPER.color())?;
    let title_size = fitting(&chart.title, TITLE_SIZE, f64::from(WIDTH) - 2.0 * f64::from(MARGIN));
    text(&root, &chart.title, (MARGIN, MARGIN / 2 + TITLE_HEIGHT / 2), title_size, HPos::Left)?;
    if subtitle_height > 0 {
        let size = fitting(&chart.subtitle, TEXT_SIZE, f64::from(WIDTH) - 2.0 * f64::from(MARGIN));
        text(&root, &chart.subtitle, (MARGIN, top - subtitle_height / 2), size, HPos::Left)?;
    }
    let plot_area = root.clone().shrink((0, top), (WIDTH - MARGIN, PLOT_HEIGHT));
    draw_plot(&root, &plot_area, chart)?;
    for entry in &legend {
        let y = top + PLOT_HEIGHT + entry.line * LEGEND_LINE_HEIGHT + LEGEND_LINE_HEIGHT / 2;
        let (from, to) = ((entry.x, y), (entry.x + LEGEND_SAMPLE_WIDTH, y));
        match entry.sample {
            Sample::Series(style) => {
                let (ink, shape) = palette::look(style);
                if chart.kind != Kind::Words {
                    line(&root, &[from, to], ink, LINE_WIDTH)?;
                }
                mark(&root, (from.0.midpoint(to.0), y), shape, ink)?;
            }
            Sample::Reference(of) => reference(&root, &[from, to], of)?,
        }
        text(&root, entry.name, (to.0 + 8, y), TEXT_SIZE, HPos::Left)?;
    }
    root.present()?;
    drop(plot_area);
    drop(root);
    Ok(finished(&svg, &chart.title))
}

fn draw_plot(root: &Area<'_>, area: &Area<'_>, chart: &Chart) -> anyhow::Result<()> {
    let mut context = ChartBuilder::on(area)
        .margin_top(10)
        .set_label_area_size(LabelAreaPosition::Left, Y_LABELS_WIDTH)
        .set_label_area_size(LabelAreaPosition::Bottom, X_LABELS_HEIGHT)
        .build_cartesian_2d(Ticked(&chart.x), Ticked(&chart.y))?;
    let y_text = style(TEXT_SIZE);
    context
        .configure_mesh()
        .bold_line_style(palette::GRID.color())
        .light_line_style(TRANSPARENT)
        .axis_style(palette::TEXT.color())
        .x_label_style(style(x_label_size(&chart.x)))
        .y_label_style(y_text.clone())
        .axis_desc_style(y_text)
        .x_desc(chart.x.label.as_str())
        .y_desc(chart.y.label.as_str())
        .draw()?;

    let plotting = context.plotting_area();
    let pixel = |x: f64, y: f64| -> Option<Pixel> {
        chart.x.place(x).and(chart.y.place(y)).map(|_| plotting.map_coordinate(&(x, y)))
    };
    for Reference { of, points } in &chart.references {
        let points: Vec<Pixel> = points.iter().filter_map(|(x, y)| pixel(*x, *y)).collect();
        reference(root, &points, *of)?;
    }
    // First all bands, so that no line is behind one.
    if chart.kind == Kind::Numbers {
        for Series { style, points, .. } in &chart.series {
            let edge = |value: fn(&Spread) -> f64| -> Vec<Pixel> {
                points.iter().filter_map(|(x, spread)| pixel(*x, value(spread))).collect()
            };
            band(root, edge(|spread| spread.max), edge(|spread| spread.min), palette::look(*style).0)?;
        }
    }
    for (index, series) in chart.series.iter().enumerate() {
        let (ink, shape) = palette::look(series.style);
        let aside = if chart.kind == Kind::Words { aside(index, chart.series.len()) } else { 0.0 };
        let means: Vec<Pixel> =
            series.points.iter().filter_map(|(x, spread)| pixel(x + aside, spread.mean)).collect();
        if chart.kind == Kind::Words {
            for (x, spread) in &series.points {
                let bar = [spread.min, spread.max].map(|y| pixel(x + aside, y));
                if let [Some(from), Some(to)] = bar {
                    line(root, &[from, to], ink, LINE_WIDTH)?;
                }
            }
        } else {
            line(root, &means, ink, LINE_WIDTH)?;
        }
        for at in marked(&means, chart.kind, index, chart.series.len()) {
            mark(root, at, shape, ink)?;
        }
    }
    Ok(())
}

/// Which points get a mark. Over time those of different series stand at different places.
fn marked(points: &[Pixel], kind: Kind, index: usize, count: usize) -> Vec<Pixel> {
    if kind != Kind::Time {
        return points.to_vec();
    }
    let every = points.len().div_ceil(MARKS_OVER_TIME).max(1);
    points.iter().skip(every * index / count).step_by(every).copied().collect()
}

/// How far a series' points stand beside the middle of their word.
fn aside(index: usize, count: usize) -> f64 {
    WORD_SHARE * ((index as f64 + 0.5) / count as f64 - 0.5)
}

// What is drawn, in pixels.

fn line(root: &Area<'_>, points: &[Pixel], ink: Ink, width: u32) -> anyhow::Result<()> {
    if points.len() > 1 {
        root.draw(&PathElement::new(points, ink.color().stroke_width(width)))?;
    }
    Ok(())
}

fn reference(root: &Area<'_>, points: &[Pixel], of: ReferenceOf) -> anyhow::Result<()> {
    let ink = match of {
        ReferenceOf::Offered => palette::OFFERED,
        ReferenceOf::Bound => palette::BOUND,
    };
    line(root, points, ink, REFERENCE_WIDTH)
}

fn band(root: &Area<'_>, upper: Vec<Pixel>, lower: Vec<Pixel>, ink: Ink) -> anyhow::Result<()> {
    if upper.len() > 1 && upper != lower {
        let outline: Vec<Pixel> = upper.into_iter().chain(lower.into_iter().rev()).collect();
        root.draw(&Polygon::new(outline, ink.color().mix(BAND_OPACITY)))?;
    }
    Ok(())
}

fn mark(root: &Area<'_>, (x, y): Pixel, shape: Mark, ink: Ink) -> anyhow::Result<()> {
    let filled = ink.color().filled();
    let r = MARK_RADIUS;
    let polygon = |corners: &[Pixel]| {
        let corners: Vec<Pixel> = corners.iter().map(|(right, down)| (x + right, y + down)).collect();
        root.draw(&Polygon::new(corners, filled))
    };
    match shape {
        Mark::Circle => root.draw(&Circle::new((x, y), r - 1, filled))?,
        Mark::Ring => {
            root.draw(&Circle::new((x, y), r - 1, palette::PAPER.color().filled()))?;
            root.draw(&Circle::new((x, y), r - 1, ink.color().stroke_width(LINE_WIDTH)))?;
        }
        Mark::Square => polygon(&[(-r + 1, -r + 1), (r - 1, -r + 1), (r - 1, r - 1), (-r + 1, r - 1)])?,
        Mark::Triangle => polygon(&[(0, -r), (r, r - 1), (-r, r - 1)])?,
        Mark::Wedge => polygon(&[(0, r), (r, -r + 1), (-r, -r + 1)])?,
        Mark::Diamond => polygon(&[(0, -r - 1), (r + 1, 0), (0, r + 1), (-r - 1, 0)])?,
        Mark::Cross => {
            line(root, &[(x - r, y - r), (x + r, y + r)], ink, LINE_WIDTH)?;
            line(root, &[(x - r, y + r), (x + r, y - r)], ink, LINE_WIDTH)?;
        }
        Mark::Plus => {
            line(root, &[(x - r - 1, y), (x + r + 1, y)], ink, LINE_WIDTH)?;
            line(root, &[(x, y - r - 1), (x, y + r + 1)], ink, LINE_WIDTH)?;
        }
    }
    Ok(())
}

fn text(root: &Area<'_>, content: &str, at: Pixel, size: f64, anchor: HPos) -> anyhow::Result<()> {
    let style = style(size).pos(Pos::new(anchor, VPos::Center));
    root.draw(&Text::new(content.to_owned(), at, style))?;
    Ok(())
}

fn style(size: f64) -> TextStyle<'static> {
    let mut style = TextStyle::from((FontFamily::SansSerif, size * BACKEND_SIZE_FACTOR));
    style.color = palette::TEXT.color().to_backend_color();
    style
}

/// An axis as plotters takes it, with the ticks of its scale.
struct Ticked<'a>(&'a Scale);

impl Ranged for Ticked<'_> {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let (from, to) = self.0.range();
        let share = self.0.place(*value).map_or(0.0, |place| (place - from) / (to - from));
        start + (share * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // The lighter lines in between would be no tick's.
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.0.ticks.iter().map(|(value, _)| *value).collect()
    }

    fn range(&self) -> Range<f64> {
        self.0.from..self.0.to
    }
}

impl ValueFormatter<f64> for Ticked<'_> {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.0.ticks.iter().find(|(tick, _)| tick.total_cmp(value).is_eq());
        tick.map(|(_, text)| text.clone()).unwrap_or_default()
    }
}

/// Small enough that neighbours do not touch.
fn x_label_size(scale: &Scale) -> f64 {
    let (from, to) = scale.range();
    let width = f64::from(WIDTH - Y_LABELS_WIDTH) / (to - from);
    let mut places: Vec<(f64, &str)> =
        scale.ticks.iter().filter_map(|(value, text)| Some((scale.place(*value)?, text.as_str()))).collect();
    places.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let sizes = places.windows(2).map(|pair| {
        let letters = (pair[0].1.chars().count() + pair[1].1.chars().count()) as f64 / 2.0 + 1.0;
        (pair[1].0 - pair[0].0) * width / (letters * LETTER_WIDTH)
    });
    sizes.fold(TEXT_SIZE, f64::min).max(TEXT_SIZE_MIN)
}

/// The size at which a text fits.
fn fitting(content: &str, size: f64, width: f64) -> f64 {
    size.min(width / (content.chars().count() as f64 * LETTER_WIDTH))
}

// The legend.

#[derive(Clone, Copy)]
enum Sample {
    Series(usize),
    Reference(ReferenceOf),
}

struct Entry<'a> {
    name: &'a str,
    sample: Sample,
    x: i32,
    line: i32,
}

/// Where each name stands.
fn legend(chart: &Chart) -> Vec<Entry<'_>> {
    let series = chart.series.iter().map(|series| (series.name.as_str(), Sample::Series(series.style)));
    let references = chart.references.iter().map(|reference| {
        let name = match reference.of {
            ReferenceOf::Offered => "offered",
            ReferenceOf::Bound => "bound",
        };
        (name, Sample::Reference(reference.of))
    });
    let (mut x, mut line) = (MARGIN, 0);
    series
        .chain(references)
        .map(|(name, sample)| {
            let letters = name.chars().count() as f64 * LETTER_WIDTH * TEXT_SIZE;
            let width = LEGEND_SAMPLE_WIDTH + 8 + letters.ceil() as i32;
            if x > MARGIN && x + width > WIDTH - MARGIN {
                (x, line) = (MARGIN, line + 1);
            }
            let entry = Entry { name, sample, x, line };
            x += width + 24;
            entry
        })
        .collect()
}

/// With a name for those who do not see it, with dashes, which plotters has only as a path of their own each, and
/// without the attributes that say nothing.
fn finished(svg: &str, title: &str) -> String {
    let title = title.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let bound = format!("stroke=\"{}\"", palette::BOUND.svg());
    svg.replace(&bound, &format!("{bound} stroke-dasharray=\"{DASHES}\""))
        .replace(" opacity=\"1\"", "")
        .replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{title}\" "), 1)
}
