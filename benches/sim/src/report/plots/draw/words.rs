//! Words at an axis, broken into lines where they are too long for the place that they have.

use super::pen::{LETTER_WIDTH, LINE_HEIGHT};

/// Sizes that are tried, the largest first; at the least, words that still do not fit touch.
const SIZES: [f64; 5] = [20.0, 18.0, 16.0, 14.0, 12.0];

/// Lines that a label may have at a size, unless that is the least.
const LINES_MAX: usize = 3;

/// Labels of one size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Labels {
    pub(super) size: f64,
    /// The lines of each.
    pub(super) lines: Vec<Vec<String>>,
}

// === impl Labels ===

impl Labels {
    /// The largest that fit, each into this width.
    pub(super) fn fitting(texts: &[&str], width: f64) -> Self {
        let mut labels = Self { size: 0.0, lines: Vec::new() };
        for size in SIZES {
            let letters = (width / (size * LETTER_WIDTH)) as usize;
            labels = Self { size, lines: texts.iter().map(|text| broken(text, letters)).collect() };
            let fits = |lines: &Vec<String>| {
                lines.len() <= LINES_MAX && lines.iter().all(|line| line.chars().count() <= letters)
            };
            if labels.lines.iter().all(fits) {
                break;
            }
        }
        labels
    }

    /// What they need beyond one line.
    pub(super) fn further_height(&self) -> i32 {
        let lines = self.lines.iter().map(Vec::len).max().unwrap_or(1).max(1);
        ((lines - 1) as f64 * self.size * LINE_HEIGHT).ceil() as i32
    }
}

/// Broken behind blanks and hyphens into lines of at most so many letters, as far as there are such places.
fn broken(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in text.split_inclusive([' ', '-']) {
        match lines.last_mut() {
            Some(line) if (line.chars().count() + part.trim_end().chars().count()) <= letters => {
                line.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_broken_before_they_shrink() {
        assert_eq!(broken("timed-widening", 9), ["timed-", "widening"]);
        assert_eq!(broken("cleared on report", 10), ["cleared on", "report"]);
        assert_eq!(broken("recommended", 5), ["recommended"]);
        let texts = ["timed-widening", "oracle"];
        let labels = Labels::fitting(&texts, 101.0);
        assert_eq!((labels.size, labels.further_height()), (20.0, 24));
        assert_eq!(labels.lines, [vec!["timed-", "widening"], vec!["oracle"]]);
        assert!((15.9..16.1).contains(&Labels::fitting(&texts, 75.0).size));
        assert!(Labels::fitting(&["incomprehensibilities"], 50.0).size < 12.1);
    }
}
