//! Colours and marks. They differ in lightness and in hue, so that people who see fewer colours tell them apart, and
//! each series has a mark of its own besides, for print without colour.
//!
//! Plots stand on paper white, whatever the page around them is.

use plotters::style::RGBColor;

/// A colour on white, as red, green and blue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ink(u32);

/// The background.
pub(super) const PAPER: Ink = Ink(0xFF_FF_FF);
/// Text and axes.
pub(super) const TEXT: Ink = Ink(0x22_26_2B);
/// Lines of the grid.
pub(super) const GRID: Ink = Ink(0xE3_E6_E9);
/// What was offered, which series are held against.
pub(super) const OFFERED: Ink = Ink(0x8A_91_99);
/// The bound; it alone is dashed.
pub(super) const BOUND: Ink = Ink(0x59_60_68);

/// After Okabe and Ito, with the light ones darkened until they can be seen on white.
const SERIES: [Ink; 8] = [
    Ink(0x00_72_B2),
    Ink(0xD5_5E_00),
    Ink(0x00_8F_68),
    Ink(0xB0_4E_88),
    Ink(0xA8_7B_00),
    Ink(0x2B_93_C4),
    Ink(0x5B_3A_9B),
    Ink(0x7A_3B_12),
];

/// The shape at a series' points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Circle,
    Square,
    Triangle,
    Diamond,
    Ring,
    Cross,
    Wedge,
    Plus,
}

const MARKS: [Mark; 8] = [
    Mark::Circle,
    Mark::Square,
    Mark::Triangle,
    Mark::Diamond,
    Mark::Ring,
    Mark::Cross,
    Mark::Wedge,
    Mark::Plus,
];

// === impl Ink ===

impl Ink {
    /// On white.
    pub(super) fn color(self) -> RGBColor {
        let [_, red, green, blue] = self.0.to_be_bytes();
        RGBColor(red, green, blue)
    }

    /// On white, as SVG writes it.
    pub(super) fn svg(self) -> String {
        format!("#{:06X}", self.0)
    }
}

/// The colour and the mark of a style. Past the eighth series colours come again, with other marks.
pub(super) fn look(style: usize) -> (Ink, Mark) {
    (SERIES[style % SERIES.len()], MARKS[(style + style / SERIES.len()) % MARKS.len()])
}

/// The styles of these series, out of `all` that the scenario has: always the same for one policy, where there are
/// enough.
pub(super) fn styles(shown: &[usize], all: usize) -> Vec<usize> {
    if all <= SERIES.len() { shown.to_vec() } else { (0..shown.len()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two colours, by the web's accessibility guidelines: 1 to 21.
    fn contrast(a: u32, b: u32) -> f64 {
        let luminance = |color: u32| {
            let [_, red, green, blue] = color.to_be_bytes().map(|part| {
                let part = f64::from(part) / 255.0;
                if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
            });
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn colours_can_be_seen_on_paper() {
        for ink in SERIES.into_iter().chain([OFFERED, BOUND]) {
            assert!(contrast(ink.0, PAPER.0) >= 3.0, "{ink:06X?} on white");
        }
        assert!(contrast(TEXT.0, PAPER.0) >= 7.0);
    }

    #[test]
    fn no_two_series_look_the_same() {
        let mut looks: Vec<_> =
            (0..SERIES.len() * 7).map(look).map(|(ink, mark)| (ink.0, mark as u8)).collect();
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), SERIES.len() * 7);
        assert_eq!(styles(&[3, 5], 8), [3, 5]);
        assert_eq!(styles(&[3, 11], 12), [0, 1]);
    }
}
