//! How long after an overload a policy is itself again, from a run's seconds.

use anyhow::{Context, ensure};

use super::results::Scenario;
use crate::outcome::{Outcome, Second};

/// When the overload of the scenario `recovery` is over.
pub(super) const OVERLOAD_ENDS_S: usize = 120;
/// Means are taken of so many seconds: single ones of Poisson arrivals say little.
const WINDOW_S: usize = 5;
/// Of what is offered on average, what has to be served well.
const SHARE: f64 = 0.9;

/// A policy after the overload.
pub(super) struct Recovery {
    /// Seconds until goodput is and stays what is offered, in the slowest run; `None` when one does not get there.
    pub(super) after_s: Option<usize>,
    /// Token reuse in the last 20 s, in %, in the worst run.
    pub(super) reuse: f64,
}

/// Of all runs of a policy.
pub(super) fn recovery(scenario: &Scenario<'_>, policy: &str) -> anyhow::Result<Recovery> {
    let outcomes = &scenario.chapter.outcomes;
    let runs: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.policy == policy).collect();
    let name = &scenario.chapter.name;
    ensure!(!runs.is_empty(), "findings: {name} was not run with {policy}");
    let mut whole = Recovery { after_s: Some(0), reuse: f64::INFINITY };
    for run in runs {
        let after = run.seconds.get(OVERLOAD_ENDS_S..).filter(|after| after.len() >= 4 * WINDOW_S);
        let after = after.with_context(|| format!("findings: {name} ends with the overload"))?;
        whole.after_s = whole.after_s.zip(recovered_after_s(after)).map(|(one, other)| one.max(other));
        whole.reuse = whole.reuse.min(reuse(&after[after.len() - 20..]));
    }
    Ok(whole)
}

/// From which second on every window has goodput of almost all that is offered on average.
fn recovered_after_s(seconds: &[Second]) -> Option<usize> {
    let offered: u32 = seconds.iter().map(|second| second.offered).sum();
    let wanted = SHARE * f64::from(offered) / seconds.len() as f64;
    let is_well = |window: &[Second]| {
        let good: u32 = window.iter().map(|second| second.good).sum();
        f64::from(good) / window.len() as f64 >= wanted
    };
    let windows = seconds.windows(WINDOW_S).count();
    let after = seconds.windows(WINDOW_S).rposition(|window| !is_well(window)).map_or(0, |last| last + 1);
    (after < windows).then_some(after)
}

fn reuse(seconds: &[Second]) -> f64 {
    let all: u64 = seconds.iter().map(|second| second.prompt_tokens).sum();
    let cached: u64 = seconds.iter().map(|second| second.cached_tokens).sum();
    100.0 * cached as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(good: &[u32]) -> Vec<Second> {
        good.iter().map(|good| Second { offered: 100, good: *good, ..Second::default() }).collect()
    }

    #[test]
    fn recovery_is_where_windows_begin_to_be_good_and_stay_so() {
        let mut good = vec![100; 30];
        assert_eq!(recovered_after_s(&seconds(&good)), Some(0));
        // The windows that begin at 0 to 6 hold a second without any, and 80 of 100 on average.
        good[6] = 0;
        assert_eq!(recovered_after_s(&seconds(&good)), Some(7));
        good[29] = 0;
        assert_eq!(recovered_after_s(&seconds(&good)), None);
    }

    #[test]
    fn reuse_is_of_all_tokens_together() {
        let second =
            |prompt_tokens, cached_tokens| Second { prompt_tokens, cached_tokens, ..Second::default() };
        assert!((reuse(&[second(100, 90), second(300, 150)]) - 60.0).abs() < 1e-9);
        assert!(reuse(&[]).abs() < 1e-9);
    }
}
