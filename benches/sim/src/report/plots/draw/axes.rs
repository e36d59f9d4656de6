//! Axes as plotters takes them, with the ticks of their scales, and what is written at these.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::{
    super::scale::Scale,
    pen::{LETTER_WIDTH, TEXT_SIZE},
    words::Labels,
};

/// Below this, labels touch rather than get smaller.
const TEXT_SIZE_MIN: f64 = 12.0;

/// An axis as plotters takes it, with the ticks of its scale.
pub(super) struct Ticked<'a>(pub(super) &'a Scale);

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

/// The labels of an axis of words that is so wide.
pub(super) fn words(scale: &Scale, width: i32) -> Labels {
    let each = f64::from(width) / scale.ticks.len().max(1) as f64;
    let texts: Vec<&str> = scale.ticks.iter().map(|(_, text)| text.as_str()).collect();
    Labels::fitting(&texts, each)
}

/// Small enough that neighbours do not touch on an axis that is so wide.
pub(super) fn label_size(scale: &Scale, width: i32) -> f64 {
    let (from, to) = scale.range();
    let width = f64::from(width) / (to - from);
    let mut places: Vec<(f64, &str)> =
        scale.ticks.iter().filter_map(|(value, text)| Some((scale.place(*value)?, text.as_str()))).collect();
    places.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let sizes = places.windows(2).map(|pair| {
        let letters = (pair[0].1.chars().count() + pair[1].1.chars().count()) as f64 / 2.0 + 1.0;
        (pair[1].0 - pair[0].0) * width / (letters * LETTER_WIDTH)
    });
    sizes.fold(TEXT_SIZE, f64::min).max(TEXT_SIZE_MIN)
}
