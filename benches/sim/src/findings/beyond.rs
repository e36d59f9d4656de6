//! What our recommended setting was to do beyond what was published, on every fleet and with every kind of report.

use super::{
    EVERY_CHANGE, EVERY_SECOND,
    checks::{Checks, Reasons, greatest, least, listed},
    recovery::recovery,
    results::Results,
};
use crate::report::Finding;

/// The policy that is meant.
const OURS: &str = "recommended";

pub(super) fn findings(results: &Results<'_>) -> anyhow::Result<Vec<Finding>> {
    Ok(vec![
        bound(results)?,
        reuse(results)?,
        many_gateways(results)?,
        recovers(results)?,
        latency(results)?,
        distinct_keys(results)?,
        hit_rate(results)?,
    ])
}

fn bound(results: &Results<'_>) -> anyhow::Result<Finding> {
    let matrix = results.of("recommended")?;
    let ours = matrix.everywhere("of_bound", OURS)?;
    let oracle = matrix.everywhere("of_bound", "oracle")?;
    let mut checks = Checks::default();
    let below: Vec<String> = ours
        .iter()
        .filter(|(_, share)| *share < 99.0)
        .map(|(point, share)| {
            let known = oracle.iter().find(|(other, _)| other == point);
            let known = known.map_or("not run".to_owned(), |(_, share)| format!("{share:.1}"));
            format!("{point} {share:.1} (oracle {known})")
        })
        .collect();
    let held = ours.len() - below.len();
    checks.check(held > 0, format!("at least 99 % at {held} of {} points", ours.len()));
    let short =
        if below.is_empty() { "nowhere below".to_owned() } else { format!("below at {}", below.join(", ")) };
    checks.check(below.is_empty(), format!("at all of them; {short}"));
    let nearest = ours.iter().map(|(point, share)| {
        let known = oracle.iter().find(|(other, _)| other == point).map_or(f64::NAN, |(_, share)| *share);
        share / known.min(100.0)
    });
    let nearest = 100.0 * least(&nearest.collect::<Vec<_>>());
    checks.check(nearest >= 97.0, format!("nowhere below 97 % of what the oracle gets: {nearest:.1} %"));
    let reasons = Reasons {
        confirmed: "A deep queue at home hides the age of reports, overflow goes only where a slot is free, and waiters \
                    spread over the time that they may wait.",
        otherwise: "The bound is that of a fluid: it has every prefix everywhere and no chance in it. Where the oracle, \
                    which sees every queue and cache, falls short of it as well, no routing reaches it; the rest is the \
                    price of not knowing.",
    };
    let claim = "One setting of ours holds at least 99 % of the fluid bound's goodput from 0.8 to 1.6 times capacity, on \
                 every fleet and with either kind of report.";
    Ok(checks.finding("B1", claim, &reasons, matrix.plots(&["of_bound"])))
}

fn reuse(results: &Results<'_>) -> anyhow::Result<Finding> {
    let matrix = results.of("recommended")?;
    let ours = matrix.everywhere("reuse", OURS)?;
    let below: Vec<String> = ours
        .iter()
        .filter(|(_, reuse)| *reuse <= 90.0)
        .map(|(point, reuse)| format!("{point} {reuse:.1}"))
        .collect();
    let all: Vec<f64> = ours.iter().map(|(_, reuse)| *reuse).collect();
    let mut checks = Checks::default();
    checks.check(
        below.len() < ours.len(),
        format!("above 90 % at {} of {} points", ours.len() - below.len(), ours.len()),
    );
    let short =
        if below.is_empty() { "not below".to_owned() } else { format!("below at {}", below.join(", ")) };
    checks.check(below.is_empty(), format!("at all of them, from {:.1} % on; {short}", least(&all)));
    let reasons = Reasons {
        confirmed: "Keys stay at home unless an engine elsewhere has a slot to spare.",
        otherwise: "Keys stay at home unless an engine elsewhere has a slot to spare. What is not found then was never \
                    in that cache, or has had to leave it: a prompt's first appearance counts as well.",
    };
    let claim = "Token reuse stays above 90 % all the while.";
    Ok(checks.finding("B2", claim, &reasons, matrix.plots(&["reuse"])))
}

fn many_gateways(results: &Results<'_>) -> anyhow::Result<Finding> {
    let gateways = results.of("gateways")?;
    let counts = gateways.values("gateways")?;
    let mut checks = Checks::default();
    for reports in [EVERY_CHANGE, EVERY_SECOND] {
        for load in gateways.values("load")? {
            let share = |count: &&str| {
                gateways.figure("of_bound", OURS, &[reports, ("load", load), ("gateways", count)])
            };
            let shares = counts.iter().map(share).collect::<anyhow::Result<Vec<_>>>()?;
            checks.check(
                least(&shares) >= 99.0,
                format!("at least 99 % at load {load}, reports {}: {} %", reports.1, listed(&shares, 1)),
            );
        }
    }
    let reasons = Reasons {
        confirmed: "Keys are placed by a hash that all gateways share, and each takes its part only of the room that a \
                    report shows.",
        otherwise: "Keys are placed by a hash that all gateways share, and each takes its part only of the room that a \
                    report shows. The more gateways there are, the less each knows of what the others have just sent.",
    };
    let claim = format!("It does so for {} gateways that share nothing.", counts.join(", "));
    Ok(checks.finding("B3", &claim, &reasons, gateways.plots(&["goodput"])))
}

fn recovers(results: &Results<'_>) -> anyhow::Result<Finding> {
    let after = results.of("recovery")?;
    let recovery = recovery(after, OURS)?;
    let mut checks = Checks::default();
    let words = recovery.after_s.map_or("not within 60 s".to_owned(), |after| format!("{after} s"));
    checks.check(
        recovery.after_s.is_some_and(|after| after <= 10),
        format!("5 s means of goodput are at least 0.9 of what is offered from 10 s on, in the slowest run: {words}"),
    );
    checks
        .check(recovery.reuse >= 90.0, format!("reuse of at least 90 % at the end: {:.1} %", recovery.reuse));
    let reasons = Reasons {
        confirmed: "Caches are warm when the overload ends, and nobody waits longer than 10 s.",
        otherwise: "Caches are warm when the overload ends; what was queued then is served first.",
    };
    let claim = "It recovers within 10 s of an overload's end.";
    Ok(checks.finding("B4", claim, &reasons, after.plots(&["goodput", "waiting"])))
}

fn latency(results: &Results<'_>) -> anyhow::Result<Finding> {
    let five = results.of("five-regions")?;
    let mut checks = Checks::default();
    for offered in ["80", "160", "200"] {
        let mut best = (f64::INFINITY, "");
        for policy in five.real_policies().filter(|policy| *policy != OURS) {
            let p99 = five.figure("ttft_p99", policy, &[("offered", offered)])?;
            if p99 < best.0 {
                best = (p99, policy);
            }
        }
        let ours = five.figure("ttft_p99", OURS, &[("offered", offered)])?;
        let oracle = five.figure("ttft_p99", "oracle", &[("offered", offered)])?;
        checks.check(
            ours <= 1.1 * best.0,
            format!(
                "TTFT p99 at {offered} of at most 1.1 of the best other policy's: {ours:.0} to {:.0} ms ({}); oracle \
                 {oracle:.0}",
                best.0, best.1
            ),
        );
    }
    let reasons = Reasons {
        confirmed: "Each key has its prefix where it is sent, and hardly any waits.",
        otherwise: "A key's home may be in the farthest region, and a hash gives some engines more keys than others: \
                    what a policy saves that looks at queues or at the way first, it pays in reuse near capacity.",
    };
    let claim = "Its TTFT p99 below capacity is no worse than the best of all policies by more than 10 %.";
    Ok(checks.finding("B5", claim, &reasons, five.plots(&["ttft_p99"])))
}

fn distinct_keys(results: &Results<'_>) -> anyhow::Result<Finding> {
    let distinct = results.of("distinct")?;
    let loads = distinct.values("load")?;
    let along = |figure, policy| distinct.along(figure, policy, "load", &loads);
    let (ours, other) = (along("goodput", OURS)?, along("goodput", "power-of-2")?);
    let mut checks = Checks::default();
    checks.check(
        ours.iter().zip(&other).all(|(ours, other)| *ours >= 0.99 * other),
        format!(
            "goodput of at least 0.99 of power of two's at {}: {} to {}",
            loads.join(", "),
            listed(&ours, 1),
            listed(&other, 1)
        ),
    );
    let (ours, other) = (along("ttft_p99", OURS)?, along("ttft_p99", "power-of-2")?);
    let ratios: Vec<f64> = ours.iter().zip(&other).map(|(ours, other)| ours / other).collect();
    checks.check(
        greatest(&ratios) <= 1.0,
        format!("TTFT p99 no higher than its: {} to {} ms", listed(&ours, 0), listed(&other, 0)),
    );
    let reasons = Reasons {
        confirmed: "The guard moves what does not fit at home to an engine with a slot to spare.",
        otherwise: "A key waits at home for a while before it is let go, and has nothing of that when nobody has its \
                    prefix; who shares none should be sent without an affinity key.",
    };
    let claim = "It is no worse than power of two when no two requests share a key.";
    Ok(checks.finding("B6", claim, &reasons, distinct.plots(&["goodput", "ttft_p99"])))
}

fn hit_rate(results: &Results<'_>) -> anyhow::Result<Finding> {
    let gateways = results.of("gateways")?;
    let mut checks = Checks::default();
    for reports in [EVERY_CHANGE, EVERY_SECOND] {
        for load in gateways.values("load")? {
            let reuse =
                |count| gateways.figure("reuse", OURS, &[reports, ("load", load), ("gateways", count)]);
            let (one, many) = (reuse("1")?, reuse("64")?);
            checks.check(
                many >= one - 1.0,
                format!("within 1 point at load {load}, reports {}: {many:.1} to {one:.1} %", reports.1),
            );
        }
    }
    let reasons = Reasons {
        confirmed: "A ranking that follows from the key alone needs no memory of where a key was sent.",
        otherwise: "A ranking that follows from the key alone needs no memory of where a key was sent; what differs is \
                    how often gateways believe that home is full.",
    };
    let claim = "With 64 gateways without shared state the hit rate is within 0.01 of one gateway's.";
    Ok(checks.finding("B7", claim, &reasons, gateways.plots(&["reuse"])))
}
