//! A claim's parts, each with a criterion and the numbers that decide it.

use std::fmt::Display;

use crate::report::{Finding, PlotReference, Verdict};

/// The parts of a claim that have been looked at.
#[derive(Default)]
pub(super) struct Checks {
    held: usize,
    says: Vec<String>,
}

/// Why it is so: which of the texts is right follows from the verdict.
pub(super) struct Reasons {
    pub(super) confirmed: &'static str,
    pub(super) otherwise: &'static str,
}

// === impl Checks ===

impl Checks {
    /// A part that holds or does not, with its criterion and its numbers in words.
    pub(super) fn check(&mut self, holds: bool, says: impl Display) {
        self.held += usize::from(holds);
        self.says.push(format!("{}: {says}", if holds { "holds" } else { "does not hold" }));
    }

    /// Confirmed when all parts hold, refuted when none does.
    fn verdict(&self) -> Verdict {
        if self.held == self.says.len() {
            Verdict::Confirmed
        } else if self.held == 0 {
            Verdict::Refuted
        } else {
            Verdict::Partly
        }
    }

    pub(super) fn finding(
        self,
        id: &str,
        claim: &str,
        reasons: &Reasons,
        plots: Vec<PlotReference>,
    ) -> Finding {
        let verdict = self.verdict();
        let reason = if verdict == Verdict::Confirmed { reasons.confirmed } else { reasons.otherwise };
        Finding {
            id: id.to_owned(),
            claim: claim.to_owned(),
            verdict,
            evidence: self.says.join("; "),
            reason: reason.to_owned(),
            plots,
        }
    }
}

/// Numbers in a row: `95, 94, 12`.
pub(super) fn listed(values: &[f64], digits: usize) -> String {
    values.iter().map(|value| format!("{value:.digits$}")).collect::<Vec<_>>().join(", ")
}

/// The least of them.
pub(super) fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The greatest of them.
pub(super) fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_follows_from_the_parts() {
        let verdict = |parts: &[bool]| {
            let mut checks = Checks::default();
            for holds in parts {
                checks.check(*holds, "1 of 2".to_owned());
            }
            let reasons = Reasons { confirmed: "so", otherwise: "not so" };
            let finding = checks.finding("1", "A claim.", &reasons, Vec::new());
            (finding.verdict, finding.reason, finding.evidence)
        };
        let (verdict_of_all, reason, evidence) = verdict(&[true, true]);
        assert_eq!((verdict_of_all, reason.as_str()), (Verdict::Confirmed, "so"));
        assert_eq!(evidence, "holds: 1 of 2; holds: 1 of 2");
        let (verdict_of_some, reason, evidence) = verdict(&[true, false]);
        assert_eq!((verdict_of_some, reason.as_str()), (Verdict::Partly, "not so"));
        assert_eq!(evidence, "holds: 1 of 2; does not hold: 1 of 2");
        assert_eq!(verdict(&[false]).0, Verdict::Refuted);
    }
}
