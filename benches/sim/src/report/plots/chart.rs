//! What one plot shows, as plain data.

use super::{super::spread::Spread, scale::Scale};

/// A plot, before it is drawn.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    /// What all of it has in common; may be empty.
    pub(super) subtitle: String,
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) series: Vec<Series>,
    /// Lines to hold the series against.
    pub(super) references: Vec<Reference>,
    pub(super) kind: Kind,
}

/// How points relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Along an axis of numbers: points are joined, their range is a band.
    Numbers,
    /// Along an axis of words: points stand alone, their range is a bar.
    Words,
    /// Second by second: too many points for a mark each.
    Time,
}

/// One line of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    /// Which colour and mark.
    pub(super) style: usize,
    /// By `x`, rising; in the units of the axes.
    pub(super) points: Vec<(f64, Spread)>,
}

/// A line that is no policy's.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reference {
    pub(super) of: ReferenceOf,
    pub(super) points: Vec<(f64, f64)>,
}

/// What series are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferenceOf {
    /// What clients sent.
    Offered,
    /// What no routing can exceed.
    Bound,
}
