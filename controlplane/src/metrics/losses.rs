//! What the control plane could not tell, by which to judge what it tells.

use prometheus::IntCounter;

use super::families::{Families, follow};

/// The families.
pub(crate) struct Losses {
    series_overflow: IntCounter,
    log_lines_dropped: IntCounter,
}

// === impl Losses ===

impl Losses {
    pub(super) fn register(families: &mut Families) -> Self {
        Self {
            series_overflow: families.counter(
                "metric_series_overflow_total",
                "Observations counted under the label value `other` because there are too many series",
            ),
            log_lines_dropped: families
                .counter("log_lines_dropped_total", "Log lines dropped because stderr was slow"),
        }
    }

    /// Counts an observation that got no series of its own.
    pub(crate) fn count_overflow(&self) {
        self.series_overflow.inc();
    }

    pub(super) fn set(&self, log_lines_dropped: u64) {
        follow(&self.log_lines_dropped, log_lines_dropped);
    }
}
