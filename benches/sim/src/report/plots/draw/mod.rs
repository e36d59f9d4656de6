//! A chart as SVG: axes by plotters, and on them bands, lines and marks; the legend stands below, never on data.
//!
//! Text is left to the reader's fonts, whose widths are not known here: they are estimated, and generously.

mod axes;
mod legend;
mod pen;
mod words;

use plotters::{
    chart::{ChartBuilder, LabelAreaPosition},
    drawing::IntoDrawingArea,
    prelude::SVGBackend,
    style::TRANSPARENT,
};

use self::{
    axes::Ticked,
    pen::{Area, Pixel, TEXT_SIZE, WIDTH},
    words::Labels,
};
use super::{
    super::spread::Spread,
    chart::{Chart, Kind, Reference, Series},
    palette,
};

const MARGIN: i32 = 16;
const TITLE_HEIGHT: i32 = 40;
const TITLE_SIZE: f64 = 25.0;
const SUBTITLE_HEIGHT: i32 = 28;
/// Of the plot without what stands below its axis.
const PLOT_HEIGHT: i32 = 374;
/// Of one line of labels below it, and what the axis is.
const X_LABELS_HEIGHT: i32 = 66;
const Y_LABELS_WIDTH: i32 = 92;

/// Marks along a line that has too many points for one each.
const MARKS_OVER_TIME: usize = 12;
/// Between points of one word, of the width that the word has.
const WORD_SHARE: f64 = 0.6;

/// Draws it.
pub(super) fn svg(chart: &Chart) -> anyhow::Result<String> {
    let entries = legend::entries(chart);
    let words = (chart.kind == Kind::Words).then(|| axes::words(&chart.x, WIDTH - MARGIN - Y_LABELS_WIDTH));
    let labels_height = X_LABELS_HEIGHT + words.as_ref().map_or(0, Labels::further_height);
    let plot_height = PLOT_HEIGHT + labels_height;
    let subtitle_height = if chart.subtitle.is_empty() { 0 } else { SUBTITLE_HEIGHT };
    let top = MARGIN / 2 + TITLE_HEIGHT + subtitle_height;
    let height = top + plot_height + legend::height(&entries) + MARGIN;

    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (WIDTH.cast_unsigned(), height.cast_unsigned()))
        .into_drawing_area();
    root.fill(&palette::PAPER.color())?;
    pen::heading(&root, &chart.title, (MARGIN, MARGIN / 2 + TITLE_HEIGHT / 2), TITLE_SIZE)?;
    if subtitle_height > 0 {
        pen::heading(&root, &chart.subtitle, (MARGIN, top - subtitle_height / 2), TEXT_SIZE)?;
    }
    let plot_area = root.clone().shrink((0, top), (WIDTH - MARGIN, plot_height));
    draw_plot(&root, &plot_area, chart, words.as_ref(), labels_height)?;
    legend::draw(&root, &entries, chart.kind, top + plot_height)?;
    root.present()?;
    drop(plot_area);
    drop(root);
    Ok(pen::finished(&svg, &chart.title))
}

fn draw_plot(
    root: &Area<'_>,
    area: &Area<'_>,
    chart: &Chart,
    words: Option<&Labels>,
    labels_height: i32,
) -> anyhow::Result<()> {
    let mut context = ChartBuilder::on(area)
        .margin_top(10)
        .set_label_area_size(LabelAreaPosition::Left, Y_LABELS_WIDTH)
        .set_label_area_size(LabelAreaPosition::Bottom, labels_height)
        .build_cartesian_2d(Ticked(&chart.x), Ticked(&chart.y))?;
    let text = pen::style(TEXT_SIZE);
    let mut mesh = context.configure_mesh();
    mesh.bold_line_style(palette::GRID.color())
        .light_line_style(TRANSPARENT)
        .axis_style(palette::TEXT.color())
        .x_label_style(pen::style(axes::label_size(&chart.x, WIDTH - MARGIN - Y_LABELS_WIDTH)))
        .y_label_style(text.clone())
        .axis_desc_style(text)
        .x_desc(chart.x.label.as_str())
        .y_desc(chart.y.label.as_str());
    if words.is_some() {
        mesh.x_label_formatter(&|_| String::new());
    }
    mesh.draw()?;

    let plotting = context.plotting_area();
    let pixel = |x: f64, y: f64| -> Option<Pixel> {
        chart.x.place(x).and(chart.y.place(y)).map(|_| plotting.map_coordinate(&(x, y)))
    };
    if let Some(labels) = words {
        for ((place, _), lines) in chart.x.ticks.iter().zip(&labels.lines) {
            if let Some(at) = pixel(*place, chart.y.from) {
                pen::lines_below(root, lines, at, labels.size)?;
            }
        }
    }
    for Reference { of, points } in &chart.references {
        let points: Vec<Pixel> = points.iter().filter_map(|(x, y)| pixel(*x, *y)).collect();
        pen::reference(root, &points, *of)?;
    }
    // First all bands, so that no line is behind one.
    if chart.kind == Kind::Numbers {
        for Series { style, points, .. } in &chart.series {
            let edge = |value: fn(&Spread) -> f64| -> Vec<Pixel> {
                points.iter().filter_map(|(x, spread)| pixel(*x, value(spread))).collect()
            };
            pen::band(root, edge(|spread| spread.max), edge(|spread| spread.min), palette::look(*style).0)?;
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
                    pen::line(root, &[from, to], ink, pen::LINE_WIDTH)?;
                }
            }
        } else {
            pen::line(root, &means, ink, pen::LINE_WIDTH)?;
        }
        for at in marked(&means, chart.kind, index, chart.series.len()) {
            pen::mark(root, at, shape, ink)?;
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
