//! Handles of the series that share their first labels, by the values of the further ones.
//!
//! Looking a series up by its label values takes a hash and a lock, and every request counts several. Of one target or
//! backend there are few values each, so a search through those met so far is the quickest.

use std::sync::Arc;

use prometheus::{
    HistogramVec, IntCounter, IntCounterVec,
    core::{MetricVec, MetricVecBuilder},
    local::LocalHistogram,
};

/// Values of the labels after the first.
pub(super) trait Further: Copy + PartialEq {
    /// What `all` makes of the values of all labels, `first` and these.
    fn after<R>(self, first: &[Arc<str>], all: impl FnOnce(&[&str]) -> R) -> R;
}

/// Counters of a family, by the values of their further labels.
#[derive(Debug)]
pub(super) struct Counters<K>(Vec<(K, IntCounter)>);

/// Histograms of a family, by the values of their further labels; they count once they are flushed.
#[derive(Debug)]
pub(super) struct Histograms<K>(Vec<(K, LocalHistogram)>);

/// The handle of `key`, which `make` makes when it is met for the first time.
fn find<K: PartialEq + Copy, H>(known: &mut Vec<(K, H)>, key: K, make: impl FnOnce() -> H) -> &H {
    let position = known.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
        known.push((key, make()));
        known.len() - 1
    });
    &known[position].1
}

fn remove<B: MetricVecBuilder>(family: &MetricVec<B>, first: &[Arc<str>], key: impl Further) {
    // One that is not there has been removed by another with the same labels.
    let _ = key.after(first, |labels| family.remove_label_values(labels));
}

fn join<R>(first: &[Arc<str>], further: &[&str], all: impl FnOnce(&[&str]) -> R) -> R {
    let labels: Vec<&str> = first.iter().map(AsRef::as_ref).chain(further.iter().copied()).collect();
    all(&labels)
}

// === impl Counters ===

impl<K: Further> Counters<K> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn get(&mut self, family: &IntCounterVec, first: &[Arc<str>], key: K) -> &IntCounter {
        find(&mut self.0, key, || key.after(first, |labels| family.with_label_values(labels)))
    }

    pub(super) fn remove_from(&self, family: &IntCounterVec, first: &[Arc<str>]) {
        self.0.iter().for_each(|(key, _)| remove(family, first, *key));
    }
}

// === impl Histograms ===

impl<K: Further> Histograms<K> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn get(&mut self, family: &HistogramVec, first: &[Arc<str>], key: K) -> &LocalHistogram {
        find(&mut self.0, key, || key.after(first, |labels| family.with_label_values(labels).local()))
    }

    pub(super) fn flush(&self) {
        self.0.iter().for_each(|(_, histogram)| histogram.flush());
    }

    pub(super) fn remove_from(&self, family: &HistogramVec, first: &[Arc<str>]) {
        for (key, histogram) in &self.0 {
            // What it still holds would bring the series back.
            histogram.clear();
            remove(family, first, *key);
        }
    }
}

// === impl Further ===

/// Label values that are constants of the code.
impl<const N: usize> Further for [&'static str; N] {
    fn after<R>(self, first: &[Arc<str>], all: impl FnOnce(&[&str]) -> R) -> R {
        join(first, &self, all)
    }
}

/// A status.
impl Further for u16 {
    fn after<R>(self, first: &[Arc<str>], all: impl FnOnce(&[&str]) -> R) -> R {
        join(first, &[&self.to_string()], all)
    }
}
