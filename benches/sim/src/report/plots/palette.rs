//! Colours and marks. They differ in lightness and in hue, so that people who see fewer colours tell them apart, and
//! each series has a mark of its own besides, for print without colour.
//!
//! Plots stand on paper white. A page in dark mode replaces every colour by another, by the rules of
//! [`dark_mode_css`]: SVG's attributes give way to CSS.

use std::fmt::Write as _;

use plotters::style::RGBColor;

/// A colour on white, and what stands for it on black.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ink {
    light: u32,
    dark: u32,
}

/// The background.
pub(super) const PAPER: Ink = Ink { light: 0xFF_FF_FF, dark: 0x17_1A_1F };
/// Text and axes.
pub(super) const TEXT: Ink = Ink { light: 0x22_26_2B, dark: 0xE4_E7_EB };
/// Lines of the grid.
pub(super) const GRID: Ink = Ink { light: 0xE3_E6_E9, dark: 0x30_36_3D };
/// What was offered, which series are held against.
pub(super) const OFFERED: Ink = Ink { light: 0x8A_91_99, dark: 0x7D_86_90 };
/// The bound; it alone is dashed.
pub(super) const BOUND: Ink = Ink { light: 0x59_60_68, dark: 0xA9_B2_BC };

/// After Okabe and Ito, with the light ones darkened until they can be seen on white.
const SERIES: [Ink; 8] = [
    Ink { light: 0x00_72_B2, dark: 0x4F_B3_F0 },
    Ink { light: 0xD5_5E_00, dark: 0xFF_8A_3D },
    Ink { light: 0x00_8F_68, dark: 0x2E_CF_9F },
    Ink { light: 0xB0_4E_88, dark: 0xE6_92_C2 },
    Ink { light: 0xA8_7B_00, dark: 0xF0_C4_3C },
    Ink { light: 0x2B_93_C4, dark: 0x9A_DC_F8 },
    Ink { light: 0x5B_3A_9B, dark: 0xB3_9B_F0 },
    Ink { light: 0x7A_3B_12, dark: 0xC9_8F_66 },
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
        let [_, red, green, blue] = self.light.to_be_bytes();
        RGBColor(red, green, blue)
    }

    /// On white, as SVG writes it.
    pub(super) fn svg(self) -> String {
        format!("#{:06X}", self.light)
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

/// Rules that turn a plot within `scope` dark.
pub(in crate::report) fn dark_mode_css(scope: &str) -> String {
    let mut css = String::new();
    for Ink { light, dark } in [PAPER, TEXT, GRID, OFFERED, BOUND].into_iter().chain(SERIES) {
        for attribute in ["fill", "stroke"] {
            let _ = write!(css, "{scope} [{attribute}=\"#{light:06X}\"]{{{attribute}:#{dark:06X}}}");
        }
    }
    css
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
    fn colours_can_be_seen_on_both_backgrounds() {
        for ink in SERIES.into_iter().chain([OFFERED, BOUND]) {
            assert!(contrast(ink.light, PAPER.light) >= 3.0, "{ink:06X?} on white");
            assert!(contrast(ink.dark, PAPER.dark) >= 3.0, "{ink:06X?} on black");
        }
        assert!(contrast(TEXT.light, PAPER.light) >= 7.0 && contrast(TEXT.dark, PAPER.dark) >= 7.0);
    }

    #[test]
    fn no_two_series_look_the_same() {
        let mut looks: Vec<_> =
            (0..SERIES.len() * 7).map(look).map(|(ink, mark)| (ink.light, mark as u8)).collect();
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), SERIES.len() * 7);
        assert_eq!(styles(&[3, 5], 8), [3, 5]);
        assert_eq!(styles(&[3, 11], 12), [0, 1]);
    }
}
