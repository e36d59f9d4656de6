//! The figures of an outcome by name: what tables, plots, files and messages call them, and their units.

use super::{super::outcome::Outcome, spread::Spread};

/// One number that an outcome has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// As scenarios and files name it.
    pub(super) name: &'static str,
    /// As people read it.
    pub(super) label: &'static str,
    /// Empty for a plain number.
    pub(super) unit: &'static str,
    /// Decimals that are shown.
    pub(super) digits: usize,
    value: fn(&Outcome) -> f64,
}

/// All of them.
pub(super) const FIGURES: [Figure; 22] = [
    figure("offered", "offered", PER_S, 0, |outcome| outcome.offered_per_s),
    figure("completed", "completed", PER_S, 0, |outcome| outcome.completed_per_s),
    figure("goodput", "goodput", PER_S, 0, |outcome| outcome.goodput_per_s),
    figure("bound", "bound", PER_S, 0, |outcome| outcome.bound_per_s),
    figure("of_bound", "of the bound", "%", 1, |outcome| 100.0 * outcome.goodput_per_s / outcome.bound_per_s),
    figure("rejected", "rejected", PER_S, 1, |outcome| outcome.rejected_per_s),
    figure("timed_out", "timed out", PER_S, 1, |outcome| outcome.timed_out_per_s),
    figure("ttft_p50", "TTFT p50", "ms", 0, |outcome| of_any(outcome.ttft_ms.p50)),
    figure("ttft_p90", "TTFT p90", "ms", 0, |outcome| of_any(outcome.ttft_ms.p90)),
    figure("ttft_p99", "TTFT p99", "ms", 0, |outcome| of_any(outcome.ttft_ms.p99)),
    figure("ttft_mean", "TTFT mean", "ms", 0, |outcome| of_any(outcome.ttft_ms.mean)),
    figure("e2e_p50", "e2e p50", "ms", 0, |outcome| of_any(outcome.e2e_ms.p50)),
    figure("e2e_p90", "e2e p90", "ms", 0, |outcome| of_any(outcome.e2e_ms.p90)),
    figure("e2e_p99", "e2e p99", "ms", 0, |outcome| of_any(outcome.e2e_ms.p99)),
    figure("e2e_mean", "e2e mean", "ms", 0, |outcome| of_any(outcome.e2e_ms.mean)),
    figure("reuse", "token reuse", "%", 1, |outcome| 100.0 * outcome.token_reuse),
    figure("overflow", "overflow", "%", 1, |outcome| 100.0 * outcome.overflow_share),
    figure("attempts", "attempts per request", "", 2, |outcome| outcome.attempts_per_request),
    figure("fairness", "fairness (Jain)", "", 3, |outcome| outcome.fairness),
    figure("misrouted", "misrouted", "%", 1, |outcome| 100.0 * outcome.misrouted_share),
    figure("queued", "queued in engines", "%", 1, |outcome| 100.0 * outcome.queued_share),
    figure("busy", "slots busy", "%", 1, |outcome| 100.0 * outcome.busy_share),
];

const PER_S: &str = "requests/s";

const fn figure(
    name: &'static str,
    label: &'static str,
    unit: &'static str,
    digits: usize,
    value: fn(&Outcome) -> f64,
) -> Figure {
    Figure { name, label, unit, digits, value }
}

/// A quantile of no request at all is 0 in an outcome, and no figure.
fn of_any(quantile: f64) -> f64 {
    if quantile > 0.0 { quantile } else { f64::NAN }
}

/// Where the figure of this name is among [`FIGURES`].
pub(super) fn position(name: &str) -> Option<usize> {
    FIGURES.iter().position(|figure| figure.name == name)
}

// === impl Figure ===

impl Figure {
    /// Its value, unless the outcome has none.
    pub(super) fn of(&self, outcome: &Outcome) -> Option<f64> {
        Some((self.value)(outcome)).filter(|value| value.is_finite())
    }

    /// Its label with its unit.
    pub(super) fn title(&self) -> String {
        if self.unit.is_empty() { self.label.to_owned() } else { format!("{}, {}", self.label, self.unit) }
    }

    /// A mean as it is shown.
    pub(super) fn mean(&self, spread: Spread) -> String {
        shown(spread.mean, self.digits)
    }

    /// The range as it is shown; `None` where it is no wider than what is shown of the mean.
    pub(super) fn range(&self, spread: Spread) -> Option<String> {
        let (min, max) = (shown(spread.min, self.digits), shown(spread.max, self.digits));
        (min != max).then(|| format!("{min}–{max}"))
    }
}

/// A number with so many decimals, without a sign on zero.
pub(super) fn shown(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|digit| matches!(digit, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::synthetic, *};

    #[test]
    fn names_are_unique_and_shares_are_in_percent() {
        for (index, figure) in FIGURES.iter().enumerate() {
            assert_eq!(position(figure.name), Some(index));
        }
        let outcome = synthetic::outcome("1", "a", 1, 90.0);
        let value = |name: &str| FIGURES[position(name).expect("a figure")].of(&outcome);
        assert_eq!(value("goodput"), Some(90.0));
        assert_eq!(value("of_bound"), Some(90.0));
        assert_eq!(value("reuse"), Some(75.0));
    }

    #[test]
    fn what_no_request_reached_is_no_figure() {
        let mut outcome = synthetic::outcome("1", "a", 1, 0.0);
        outcome.bound_per_s = 0.0;
        outcome.ttft_ms = crate::outcome::Quantiles::default();
        let value = |name: &str| FIGURES[position(name).expect("a figure")].of(&outcome);
        assert_eq!((value("of_bound"), value("ttft_p99"), value("goodput")), (None, None, Some(0.0)));
    }

    #[test]
    fn ranges_are_shown_where_they_can_be_seen() {
        let figure = FIGURES[position("rejected").expect("a figure")];
        let spread = |min, mean, max| Spread { mean, min, max };
        assert_eq!(figure.mean(spread(0.0, -0.01, 0.0)), "0.0");
        assert_eq!(figure.range(spread(1.0, 1.5, 2.0)).as_deref(), Some("1.0–2.0"));
        assert_eq!(figure.range(spread(1.01, 1.02, 1.03)), None);
    }
}
