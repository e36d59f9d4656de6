//! The legend: who is who, below the plot, in as many lines as it takes.

use super::{
    super::{
        chart::{Chart, Kind, ReferenceOf},
        palette,
    },
    MARGIN,
    pen::{self, Area, LETTER_WIDTH, LINE_WIDTH, TEXT_SIZE, WIDTH},
};

const LINE_HEIGHT: i32 = 30;
const SAMPLE_WIDTH: i32 = 44;
/// From a sample to its name.
const NAME_GAP: i32 = 8;
/// From a name to the next sample.
const ENTRY_GAP: i32 = 24;

/// One name.
pub(super) struct Entry<'a> {
    name: &'a str,
    sample: Sample,
    x: i32,
    line: i32,
}

#[derive(Clone, Copy)]
enum Sample {
    Series(usize),
    Reference(ReferenceOf),
}

/// Where each name stands.
pub(super) fn entries(chart: &Chart) -> Vec<Entry<'_>> {
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
            let width = SAMPLE_WIDTH + NAME_GAP + letters.ceil() as i32;
            if x > MARGIN && x + width > WIDTH - MARGIN {
                (x, line) = (MARGIN, line + 1);
            }
            let entry = Entry { name, sample, x, line };
            x += width + ENTRY_GAP;
            entry
        })
        .collect()
}

/// Of all lines.
pub(super) fn height(entries: &[Entry<'_>]) -> i32 {
    entries.last().map_or(0, |entry| (entry.line + 1) * LINE_HEIGHT)
}

/// Draws it from this height on.
pub(super) fn draw(root: &Area<'_>, entries: &[Entry<'_>], kind: Kind, top: i32) -> anyhow::Result<()> {
    for entry in entries {
        let y = top + entry.line * LINE_HEIGHT + LINE_HEIGHT / 2;
        let (from, to) = ((entry.x, y), (entry.x + SAMPLE_WIDTH, y));
        match entry.sample {
            Sample::Series(style) => {
                let (ink, shape) = palette::look(style);
                if kind != Kind::Words {
                    pen::line(root, &[from, to], ink, LINE_WIDTH)?;
                }
                pen::mark(root, (from.0.midpoint(to.0), y), shape, ink)?;
            }
            Sample::Reference(of) => pen::reference(root, &[from, to], of)?,
        }
        pen::text(root, entry.name, (to.0 + NAME_GAP, y), TEXT_SIZE)?;
    }
    Ok(())
}
