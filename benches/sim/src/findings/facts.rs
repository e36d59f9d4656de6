//! The facts of an earlier simulation that are about the overflow guard: waiting, recovery, and what it must be told.

use super::{
    EVERY_CHANGE, EVERY_SECOND,
    checks::{Checks, Reasons, greatest, least, listed},
    recovery::recovery,
    results::{Results, Scenario},
};
use crate::report::Finding;

pub(super) fn findings(results: &Results<'_>) -> anyhow::Result<Vec<Finding>> {
    Ok(vec![
        bounded_waiting(results)?,
        collapse_stays(results)?,
        queue_depth(results)?,
        reservations(results)?,
    ])
}

fn bounded_waiting(results: &Results<'_>) -> anyhow::Result<Finding> {
    let waiting = results.of("waiting")?;
    let mut checks = Checks::default();
    let mut reuse = Vec::new();
    for policy in waiting.real_policies() {
        reuse.extend(waiting.along("reuse", policy, "load", &["1.3", "1.6"])?);
    }
    checks.check(
        least(&reuse) >= 90.0,
        format!(
            "reuse of at least 90 % at loads 1.3 and 1.6, however requests wait: {:.1} % and more",
            least(&reuse)
        ),
    );
    let share = |policy| waiting.figure("of_bound", policy, &[("load", "1.3")]);
    let kept = share("oldest-30s")?;
    checks.check(
        kept <= 50.0,
        format!("at most half of capacity at 1.3, oldest first and kept for 30 s: {kept:.1} %"),
    );
    for policy in ["oldest-in-time", "adaptive-30s", "adaptive-in-time"] {
        let share = share(policy)?;
        checks.check(share >= 97.0, format!("at least 97 % of capacity at 1.3 with {policy}: {share:.1} %"));
    }
    let reasons = Reasons {
        confirmed: "Whoever is served oldest first after a queue of more than 10 s is late, and takes the place of one \
                    who would not be. Those who cannot be in time have to leave, or to come last.",
        otherwise: "Whoever is served oldest first after a queue of more than 10 s is late. Serving the newest first \
                    keeps those in time who are served, but a queue that nobody leaves still takes the places of \
                    those who are not late yet while it changes its order.",
    };
    let claim = "The overflow guard keeps token reuse at 90 % and more at any overload, and goodput at capacity only \
                 with bounded waiting.";
    Ok(checks.finding("1", claim, &reasons, waiting.plots(&["goodput", "reuse"])))
}

fn collapse_stays(results: &Results<'_>) -> anyhow::Result<Finding> {
    let (five, after) = (results.of("five-regions")?, results.of("recovery")?);
    let mut checks = Checks::default();
    for policy in ["instant-walk", "wait-only", "timed-widening"] {
        let reuse = five.figure("reuse", policy, &[("offered", "320")])?;
        checks.check(
            reuse <= 10.0,
            format!("reuse of {policy} of at most 10 % at 320 requests/s: {reuse:.1} %"),
        );
    }
    for policy in ["instant-walk", "timed-widening"] {
        let recovery = recovery(after, policy)?;
        checks.check(
            recovery.after_s.is_none() || recovery.reuse < 50.0,
            format!("{policy} does not recover within 60 s: {}", in_words(&recovery)),
        );
    }
    for policy in ["published", "recommended"] {
        let recovery = recovery(after, policy)?;
        checks.check(
            recovery.after_s.is_some() && recovery.reuse >= 90.0,
            format!("{policy} recovers by itself: {}", in_words(&recovery)),
        );
    }
    let reasons = Reasons {
        confirmed: "Cold prefills make the load that keeps caches cold: what is offered after the overload is more than \
                    cold engines do. The guard never lets it come to that.",
        otherwise: "Cold prefills make load of their own. Whether that outlives the overload depends on what is offered \
                    afterwards: 0.7 of the warm capacity is 0.88 of the cold one, which cold engines do as well.",
    };
    let claim = "Without the guard every variant falls to 7 % reuse past capacity and stays there after the load is \
                 gone; with it the fleet recovers by itself.";
    let mut plots = after.plots(&["goodput", "reuse"]);
    plots.extend(five.plots(&["reuse"]));
    Ok(checks.finding("2", claim, &reasons, plots))
}

fn in_words(recovery: &super::recovery::Recovery) -> String {
    let after = match recovery.after_s {
        Some(after) => format!("goodput after {after} s"),
        None => "goodput below what is offered".to_owned(),
    };
    format!("{after}, reuse {:.1} % at the end", recovery.reuse)
}

fn queue_depth(results: &Results<'_>) -> anyhow::Result<Finding> {
    let depths = results.of("max-queued")?;
    let values = depths.values("max_queued")?;
    let mut checks = Checks::default();
    let shares = |reports: (&str, &str)| -> anyhow::Result<Vec<f64>> {
        let share = |depth: &&str| depths.figure("of_bound", "published", &[reports, ("max_queued", depth)]);
        values.iter().map(share).collect()
    };
    let at = |shares: &[f64], depth: &str| {
        values.iter().position(|value| *value == depth).map_or(f64::NAN, |place| shares[place])
    };
    let (slow, quick) = (shares(EVERY_SECOND)?, shares(EVERY_CHANGE)?);
    let all = |shares: &[f64]| format!("{} % of the bound with {}", listed(shares, 1), values.join(", "));
    checks.check(
        at(&slow, "12") >= greatest(&slow) - 2.0,
        format!("12 is within 2 points of the best depth with a report a second: {}", all(&slow)),
    );
    checks.check(
        at(&slow, "4") < greatest(&slow) - 2.0,
        format!("4 is not: {:.1} to {:.1} %", at(&slow, "4"), greatest(&slow)),
    );
    checks.check(
        at(&quick, "4") >= greatest(&quick) - 2.0,
        format!("4 is with reports at every change: {}", all(&quick)),
    );
    let reasons = Reasons {
        confirmed: "12.5 requests a second end in an engine: a queue of fewer drains between two reports, unseen by \
                    those who wait for a place there, and strangers find its slots free.",
        otherwise: "12.5 requests a second end in an engine: what ends between two reports has to be in its queue. How \
                    much that is depends on who counts what ends: a gateway knows the ends of what it sent itself.",
    };
    let claim = "`max_queued` must be at least what a backend completes in one report interval + RTT: 4 is right for \
                 change-driven stats, 12 for a 1 s heartbeat.";
    Ok(checks.finding("3", claim, &reasons, depths.plots(&["goodput", "reuse"])))
}

fn reservations(results: &Results<'_>) -> anyhow::Result<Finding> {
    let arms = results.of("reservations")?;
    let goodput =
        |arms: &Scenario<'_>, arm, reports| arms.figure("goodput", arm, &[reports, ("offered", "320")]);
    let mut checks = Checks::default();
    let slow = |arm| goodput(arms, arm, EVERY_SECOND);
    let (never, round_trip) = (slow("never")?, slow("round-trip")?);
    checks.check(
        round_trip <= 1.1 * never,
        format!(
            "with a report a second goodput at 320 with round trips is within 1.1 of that without any: {round_trip:.0} \
             to {never:.0}"
        ),
    );
    for arm in ["next-report", "exact"] {
        let better = slow(arm)?;
        checks.check(
            better >= 1.1 * round_trip,
            format!("{arm} is at least 1.1 of round trips: {better:.0} to {round_trip:.0}"),
        );
    }
    let quick = |arm| goodput(arms, arm, EVERY_CHANGE);
    let (never, round_trip, exact) = (quick("never")?, quick("round-trip")?, quick("exact")?);
    checks.check(
        (round_trip - exact).abs() <= 0.02 * exact,
        format!("with reports at every change round trips and exact are within 2 %: {round_trip:.0} and {exact:.0}"),
    );
    checks.check(
        never <= 0.75 * exact,
        format!("and without any a quarter and more is lost: {never:.0} to {exact:.0}"),
    );
    let reasons = Reasons {
        confirmed: "A reservation of one round trip is gone long before a report of a second includes what it stood \
                    for, and the near clusters are flooded in between.",
        otherwise: "A reservation of one round trip is gone long before a report of a second includes what it stood \
                    for. What that costs depends on the policy: a key that is sent home anyway is not led astray by \
                    what a gateway believes of other clusters.",
    };
    let claim = "With a 1 s heartbeat, reservations of one RTT are nearly as bad as none; cleared on report and exact \
                 handover are much better; with change-driven stats RTT and exact are equal, and none loses a third of \
                 goodput.";
    Ok(checks.finding("4", claim, &reasons, arms.plots(&["goodput", "ttft_p99"])))
}
