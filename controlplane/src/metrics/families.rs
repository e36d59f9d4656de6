//! How families are made: each with the prefix before its name, and kept in the registry that a page is gathered from.
//!
//! Names, labels and buckets are constants of the groups and the prefix is checked when it is read, so that what is
//! wrong with one is a fault of this code: it panics at start.

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
    TextEncoder, core::Collector,
};

/// The families that have been made.
pub(crate) struct Families {
    prefix: Box<str>,
    collectors: Vec<Box<dyn Collector>>,
}

/// A counter that somebody else counts: it follows their total.
pub(super) fn follow(counter: &IntCounter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

/// All that `registry` has now, as text.
pub(crate) fn render(registry: &Registry) -> String {
    let mut text = String::new();
    if let Err(error) = TextEncoder::new().encode_utf8(&registry.gather(), &mut text) {
        tracing::error!(%error, "metrics cannot be written");
    }
    text
}

// === impl Families ===

impl Families {
    /// None yet; every name will begin with `prefix`.
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.into(), collectors: Vec::new() }
    }

    /// All of them, to be gathered.
    pub(crate) fn into_registry(self) -> Registry {
        let registry = Registry::new();
        for collector in self.collectors {
            registry.register(collector).expect("a metric of its own name");
        }
        registry
    }

    pub(super) fn counter(&mut self, name: &str, help: &str) -> IntCounter {
        self.add(IntCounter::with_opts(self.opts(name, help)))
    }

    pub(super) fn counters(&mut self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.add(IntCounterVec::new(self.opts(name, help), labels))
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str) -> Gauge {
        self.add(Gauge::with_opts(self.opts(name, help)))
    }

    pub(super) fn gauges(&mut self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.add(GaugeVec::new(self.opts(name, help), labels))
    }

    pub(super) fn histogram(&mut self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        self.add(Histogram::with_opts(self.histogram_opts(name, help, buckets)))
    }

    pub(super) fn histograms(
        &mut self,
        name: &str,
        help: &str,
        buckets: &[f64],
        labels: &[&str],
    ) -> HistogramVec {
        self.add(HistogramVec::new(self.histogram_opts(name, help, buckets), labels))
    }

    /// What a collector of a group's own is called.
    pub(super) fn opts(&self, name: &str, help: &str) -> Opts {
        Opts::new(format!("{}{name}", self.prefix), help)
    }

    /// Takes a collector, and hands it back to be set.
    pub(super) fn add<C: Collector + Clone + 'static>(&mut self, collector: prometheus::Result<C>) -> C {
        let collector = collector.expect("a valid metric");
        self.collectors.push(Box::new(collector.clone()));
        collector
    }

    fn histogram_opts(&self, name: &str, help: &str, buckets: &[f64]) -> HistogramOpts {
        HistogramOpts::from(self.opts(name, help)).buckets(buckets.to_vec())
    }
}

#[cfg(test)]
impl Families {
    /// Their names, without the prefix.
    pub(super) fn names(&self) -> std::collections::BTreeSet<String> {
        let descriptions = self.collectors.iter().flat_map(|collector| collector.desc());
        descriptions.map(|desc| desc.fq_name[self.prefix.len()..].to_owned()).collect()
    }
}
