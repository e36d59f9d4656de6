//! The facts of an earlier simulation that are about what is looked at when a cluster is chosen: bounds on queues, time to
//! first token, and affinity where nothing is shared.

use super::{
    checks::{Checks, Reasons, least, listed},
    results::Results,
};
use crate::report::Finding;

pub(super) fn findings(results: &Results<'_>) -> anyhow::Result<Vec<Finding>> {
    Ok(vec![queue_slo(results)?, herding(results)?, distinct_keys(results)?])
}

fn queue_slo(results: &Results<'_>) -> anyhow::Result<Finding> {
    let bounds = results.of("queue-slo")?;
    let values = bounds.values("bound_ms")?;
    let bounded = bounds.along("of_bound", "bounded", "bound_ms", &values)?;
    let capacity = bounds.along("of_bound", "capacity", "bound_ms", &values)?;
    let (low, high) =
        (bounded.first().copied().unwrap_or(f64::NAN), bounded.last().copied().unwrap_or(f64::NAN));
    let mut checks = Checks::default();
    checks.check(
        low <= 0.9 * high,
        format!(
            "goodput with the least bound is at most 0.9 of that with the greatest: {} % of what engines do with {} ms",
            listed(&bounded, 1),
            values.join(", ")
        ),
    );
    checks.check(
        least(&capacity) >= 95.0,
        format!("`primary_admission: capacity` has no cliff, and at least 95 %: {:.1} %", least(&capacity)),
    );
    let reasons = Reasons {
        confirmed: "12 prompts in a queue are some seconds of prefill when they are cold and a fraction of one when they \
                    are not; a bound below that refuses a key the place where its prefix is, and makes it cold elsewhere.",
        otherwise: "A bound below what the queue at home amounts to refuses a key the place where its prefix is. Where \
                    the bound is wide, it lets the same queue grow that the other setting bounds by number.",
    };
    let claim = "A queue SLO below what the primary's own admitted prefill amounts to defeats the guard; \
                 `primary_admission: capacity` has no such cliff.";
    Ok(checks.finding("5", claim, &reasons, bounds.plots(&["goodput", "reuse"])))
}

fn herding(results: &Results<'_>) -> anyhow::Result<Finding> {
    let low = results.of("low-load")?;
    let loads = ["20", "40", "60", "80"];
    let p99 = |policy| low.along("ttft_p99", policy, "offered", &loads);
    let (ttft, backlog, random) = (p99("power-of-2")?, p99("power-of-2-backlog")?, p99("random")?);
    let words = |values: &[f64]| listed(values, 0);
    let mut checks = Checks::default();
    let herds = ttft.iter().zip(&random).any(|(ttft, random)| ttft > random);
    checks.check(
        herds,
        format!(
            "TTFT p99 by `ttft` is above random's at one of {} requests/s: {} to {} ms",
            loads.join(", "),
            words(&ttft),
            words(&random)
        ),
    );
    checks.check(
        backlog.iter().zip(&random).all(|(backlog, random)| backlog <= random),
        format!("by `ttft-backlog` it is at none: {} ms", words(&backlog)),
    );
    let reasons = Reasons {
        confirmed: "A free slot counts as no wait, so that all requests go to the nearest engines, where their prompts are \
                    prefilled one after the other; `ttft-backlog` counts those.",
        otherwise: "A free slot counts as no wait, so that requests prefer the nearest engines however many prompts are \
                    prefilled there one after the other; `ttft-backlog` counts those. Against random choice both save \
                    the way to the far regions.",
    };
    let claim = "`power-of-n` by `ttft` herds to the nearest clusters at low load: its TTFT p99 is worse than random's; \
                 `ttft-backlog` mends it.";
    Ok(checks.finding("6", claim, &reasons, low.plots(&["ttft_p99"])))
}

fn distinct_keys(results: &Results<'_>) -> anyhow::Result<Finding> {
    let distinct = results.of("distinct")?;
    let near = [("load", "0.9")];
    let goodput = |policy| distinct.figure("goodput", policy, &near);
    let p99 = |policy| distinct.figure("ttft_p99", policy, &near);
    let (strict, guarded, loads) = (goodput("pulsar")?, goodput("recommended")?, goodput("power-of-2")?);
    let mut checks = Checks::default();
    checks.check(
        strict < 0.99 * loads,
        format!(
            "goodput of strict affinity at 0.9 is below 0.99 of power of two's: {strict:.1} to {loads:.1}"
        ),
    );
    checks.check(
        guarded >= 0.99 * loads,
        format!("that of the guarded policy is not: {guarded:.1} to {loads:.1}"),
    );
    let (guarded, loads) = (p99("recommended")?, p99("power-of-2")?);
    checks.check(guarded > loads, format!("its TTFT p99 is above: {guarded:.0} to {loads:.0} ms"));
    let reasons = Reasons {
        confirmed: "A hash spreads keys by chance and knows no queue: the fullest engine's queue grows while others wait \
                    for work. The guard moves what does not fit; until then it waits.",
        otherwise: "A hash spreads keys by chance and knows no queue: at 0.9 of cold capacity the fullest engine is near \
                    its limit. The guard moves what does not fit.",
    };
    let claim = "With keys all distinct, strict affinity loses to power of two near cold capacity; the guarded policy \
                 only in TTFT p99.";
    Ok(checks.finding("7", claim, &reasons, distinct.plots(&["goodput", "ttft_p99"])))
}
