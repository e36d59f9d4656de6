//! What stands beside an engine and tells gateways what it does: at an interval, on change, or both.
//!
//! Reports are not delivered, they lie here: a gateway takes those that have had the time to reach it when it next
//! looks. So a fleet of gateways costs no event a report and gateway.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::model::EngineState;

/// What an engine said of itself at one moment.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) at: Duration,
    pub(super) state: EngineState,
    /// Prefill throughput, in input tokens/s.
    pub(super) input_tps: f64,
    /// By gateway: the highest number of its attempts that the state includes. Ways keep the order, so there are no
    /// gaps. 0 where there were none, or where reports do not say.
    pub(super) through: Arc<[u64]>,
}

/// The reports of one engine that may still be on their way to somebody.
#[derive(Debug)]
pub(super) struct Pylon {
    reports: VecDeque<Report>,
    /// Number of the first of `reports`, counted from 1.
    first: u64,
    through: Vec<u64>,
    /// `through` as of the last report; reports share it until it changes.
    shared: Arc<[u64]>,
    says_what_is_included: bool,
    /// No way is longer.
    longest_way: Duration,
}

// === impl Pylon ===

impl Pylon {
    pub(super) fn new(gateways: usize, says_what_is_included: bool, longest_way: Duration) -> Self {
        let through = vec![0; gateways];
        Self {
            reports: VecDeque::new(),
            first: 1,
            shared: through.clone().into(),
            through,
            says_what_is_included,
            longest_way,
        }
    }

    /// An attempt has reached the engine.
    pub(super) fn arrived(&mut self, gateway: usize, sequence: Option<u64>) {
        if let Some(sequence) = sequence.filter(|_| self.says_what_is_included) {
            self.through[gateway] = sequence.max(self.through[gateway]);
        }
    }

    pub(super) fn report(&mut self, now: Duration, state: EngineState, input_tps: f64) {
        if self.says_what_is_included && self.through[..] != self.shared[..] {
            self.shared = self.through.clone().into();
        }
        // The last one that everybody has got stays: it is what a gateway that looks late finds.
        while self.reports.len() > 1 && self.reports[1].at + self.longest_way < now {
            self.reports.pop_front();
            self.first += 1;
        }
        self.reports.push_back(Report { at: now, state, input_tps, through: self.shared.clone() });
    }

    /// The latest report that is visible, when `seen` was the last one; `is_visible` tells by when it was sent.
    pub(super) fn latest_after(
        &self,
        seen: u64,
        is_visible: impl Fn(Duration) -> bool,
    ) -> Option<(u64, &Report)> {
        let from = (seen + 1).saturating_sub(self.first) as usize;
        let fresh = self.reports.range(from.min(self.reports.len())..);
        let count = fresh.take_while(|report| is_visible(report.at)).count();
        let index = (from + count).checked_sub(1).filter(|_| count > 0)?;
        Some((self.first + index as u64, &self.reports[index]))
    }

    /// When the first report was sent that is not `seen` yet.
    pub(super) fn first_after(&self, seen: u64) -> Option<Duration> {
        self.reports.get((seen + 1).saturating_sub(self.first) as usize).map(|report| report.at)
    }
}

#[cfg(test)]
mod tests;
