//! What is drawn on an area, in pixels, and how it looks.

use plotters::{
    coord::Shift,
    drawing::DrawingArea,
    element::{Circle, PathElement, Polygon, Text},
    prelude::SVGBackend,
    style::{
        Color, FontFamily, TextStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::super::{
    chart::ReferenceOf,
    palette::{self, Ink, Mark},
};

/// Of a drawing, in its own units; a page shows it at any width.
pub(super) const WIDTH: i32 = 900;
pub(super) const TEXT_SIZE: f64 = 20.0;
/// Width of a letter, of the size of its text.
pub(super) const LETTER_WIDTH: f64 = 0.56;
/// Height of a line, of the size of its text.
pub(super) const LINE_HEIGHT: f64 = 1.2;
/// What the SVG backend divides a size by.
const BACKEND_SIZE_FACTOR: f64 = 1.24;
/// From an axis to the words below it.
const BELOW_AXIS: i32 = 10;

pub(super) const LINE_WIDTH: u32 = 3;
const REFERENCE_WIDTH: u32 = 2;
/// Of the bound: on, off.
const DASHES: &str = "10 7";
const MARK_RADIUS: i32 = 7;
const BAND_OPACITY: f64 = 0.18;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Pixel = (i32, i32);

pub(super) fn line(root: &Area<'_>, points: &[Pixel], ink: Ink, width: u32) -> anyhow::Result<()> {
    if points.len() > 1 {
        root.draw(&PathElement::new(points, ink.color().stroke_width(width)))?;
    }
    Ok(())
}

pub(super) fn reference(root: &Area<'_>, points: &[Pixel], of: ReferenceOf) -> anyhow::Result<()> {
    let ink = match of {
        ReferenceOf::Offered => palette::OFFERED,
        ReferenceOf::Bound => palette::BOUND,
    };
    line(root, points, ink, REFERENCE_WIDTH)
}

pub(super) fn band(root: &Area<'_>, upper: Vec<Pixel>, lower: Vec<Pixel>, ink: Ink) -> anyhow::Result<()> {
    if upper.len() > 1 && upper != lower {
        let outline: Vec<Pixel> = upper.into_iter().chain(lower.into_iter().rev()).collect();
        root.draw(&Polygon::new(outline, ink.color().mix(BAND_OPACITY)))?;
    }
    Ok(())
}

pub(super) fn mark(root: &Area<'_>, (x, y): Pixel, shape: Mark, ink: Ink) -> anyhow::Result<()> {
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

/// Text from its left end, its middle at this height.
pub(super) fn text(root: &Area<'_>, content: &str, at: Pixel, size: f64) -> anyhow::Result<()> {
    let style = style(size).pos(Pos::new(HPos::Left, VPos::Center));
    root.draw(&Text::new(content.to_owned(), at, style))?;
    Ok(())
}

/// A line of text of this size, or as small as it must be to fit.
pub(super) fn heading(root: &Area<'_>, content: &str, at: Pixel, size: f64) -> anyhow::Result<()> {
    let width = f64::from(WIDTH - 2 * at.0);
    text(root, content, at, size.min(width / (content.chars().count() as f64 * LETTER_WIDTH)))
}

/// Words below a place of an axis.
pub(super) fn lines_below(root: &Area<'_>, lines: &[String], (x, y): Pixel, size: f64) -> anyhow::Result<()> {
    let style = style(size).pos(Pos::new(HPos::Center, VPos::Top));
    for (index, line) in lines.iter().enumerate() {
        let y = y + BELOW_AXIS + (index as f64 * size * LINE_HEIGHT).round() as i32;
        root.draw(&Text::new(line.clone(), (x, y), style.clone()))?;
    }
    Ok(())
}

pub(super) fn style(size: f64) -> TextStyle<'static> {
    let mut style = TextStyle::from((FontFamily::SansSerif, size * BACKEND_SIZE_FACTOR));
    style.color = palette::TEXT.color().to_backend_color();
    style
}

/// With a name for those who do not see it, with dashes, which plotters has only as a path of their own each, and
/// without the attributes that say nothing.
pub(super) fn finished(svg: &str, title: &str) -> String {
    let title = title.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let bound = format!("stroke=\"{}\"", palette::BOUND.svg());
    svg.replace(&bound, &format!("{bound} stroke-dasharray=\"{DASHES}\""))
        .replace(" opacity=\"1\"", "")
        .replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{title}\" "), 1)
}
