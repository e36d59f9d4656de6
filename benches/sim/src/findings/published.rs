//! What was published about these policies, on the same fleet.

use super::{
    EVERY_CHANGE, EVERY_SECOND,
    checks::{Checks, Reasons, greatest, least, listed},
    results::Results,
};
use crate::report::Finding;

/// What the fleet does from cold caches, in requests/s: 20 engines of 10.
pub(super) const COLD_PER_S: f64 = 200.0;

pub(super) fn findings(results: &Results<'_>) -> anyhow::Result<Vec<Finding>> {
    Ok(vec![
        instant_walk(results)?,
        waiting_alone(results)?,
        timed_widening(results)?,
        guard(results)?,
        latency(results)?,
        deeper_queue(results)?,
        reservation_arms(results)?,
    ])
}

fn instant_walk(results: &Results<'_>) -> anyhow::Result<Finding> {
    let five = results.of("five-regions")?;
    let reuse = five.along("reuse", "instant-walk", "offered", &["240", "280"])?;
    let goodput = five.along("goodput", "instant-walk", "offered", &["280", "320", "400"])?;
    let mut checks = Checks::default();
    checks.check(reuse[0] >= 90.0, format!("reuse of at least 90 % at 240 requests/s: {:.1} %", reuse[0]));
    checks.check(reuse[1] < 20.0, format!("under 20 % at 280: {:.1} %", reuse[1]));
    checks.check(
        greatest(&goodput) <= 1.05 * COLD_PER_S,
        format!("goodput of at most 1.05 x {COLD_PER_S} at 280, 320 and 400: {}", listed(&goodput, 0)),
    );
    let reasons = Reasons {
        confirmed: "A request that finds its band full goes to the next one at once, and computes its prompt anew \
                    there. That takes time from the keys at home there, which overflow in turn, until caches hold \
                    nobody's prefix.",
        otherwise: "The same spiral of overflow and cold prefills is at work; where it begins and how far it goes \
                    depends on how many requests an engine takes beyond its slots, and on how late its reports are.",
    };
    let claim = "The instant walk over ranked bands loses its caches between 240 and 280 requests/s: token reuse falls \
                 from about 95 % to under 20 %, and goodput to what cold engines do.";
    Ok(checks.finding("P1", claim, &reasons, five.plots(&["goodput", "reuse"])))
}

fn waiting_alone(results: &Results<'_>) -> anyhow::Result<Finding> {
    let five = results.of("five-regions")?;
    let loads = ["240", "260", "280", "320", "400"];
    let instant = five.along("reuse", "instant-walk", "offered", &loads)?;
    let waiting = five.along("reuse", "wait-only", "offered", &loads)?;
    let lead = waiting.iter().zip(&instant).map(|(waiting, instant)| waiting - instant);
    let lead = greatest(&lead.collect::<Vec<_>>());
    let last = waiting.last().copied().unwrap_or_default();
    let mut checks = Checks::default();
    checks.check(
        lead >= 5.0,
        format!(
            "its reuse is 5 points above the instant walk's at a load from 240 to 400: {} % to {} %",
            listed(&waiting, 0),
            listed(&instant, 0)
        ),
    );
    checks.check(last < 50.0, format!("it has lost its caches at 400, with a reuse below 50 %: {last:.1} %"));
    let reasons = Reasons {
        confirmed: "A wait of 200 ms gives the primary time to take some of the keys that would have left, but in \
                    overload every wait runs out, and then all of the fleet is open to everybody.",
        otherwise: "Within 200 ms an engine ends two or three requests, and as many waiters are served at home. Past \
                    capacity every wait runs out, and what is open to a key by then is the whole fleet.",
    };
    let claim = "Waiting at the primary before walking on only delays the collapse.";
    Ok(checks.finding("P2", claim, &reasons, five.plots(&["reuse"])))
}

fn timed_widening(results: &Results<'_>) -> anyhow::Result<Finding> {
    let five = results.of("five-regions")?;
    let point = [("offered", "320")];
    let reuse = five.figure("reuse", "timed-widening", &point)?;
    let goodput = five.figure("goodput", "timed-widening", &point)?;
    let guarded = five.figure("goodput", "published", &point)?;
    let mut checks = Checks::default();
    checks.check(reuse < 50.0, format!("reuse below 50 % at 320: {reuse:.1} %"));
    checks.check(
        goodput < 0.9 * guarded,
        format!("goodput below 0.9 of that with the guard at 320: {goodput:.0} to {guarded:.0}"),
    );
    let reasons = Reasons {
        confirmed: "Bands that open with time slow the overflow and do not end it: a request that queues at a stranger \
                    still takes a cold prefill's time from the keys at home there.",
        otherwise: "Bands that open with time slow the overflow; how much is left of the caches depends on how many \
                    places the strangers find.",
    };
    let claim =
        "Widening by time without the overflow guard (`fallback_max_queued` = `max_queued`) still collapses.";
    Ok(checks.finding("P3", claim, &reasons, five.plots(&["goodput", "reuse"])))
}

fn guard(results: &Results<'_>) -> anyhow::Result<Finding> {
    let five = results.of("five-regions")?;
    let loads = ["80", "160", "200", "240", "260", "280", "320"];
    let shares = five.along("of_bound", "published", "offered", &loads)?;
    let reuse = five.along("reuse", "published", "offered", &loads)?;
    let mut checks = Checks::default();
    checks.check(
        least(&shares) >= 95.0,
        format!("at least 95 % of the bound up to 320 requests/s: {} %", listed(&shares, 1)),
    );
    checks.check(least(&reuse) >= 90.0, format!("reuse of at least 90 %: {} %", listed(&reuse, 1)));
    let reasons = Reasons {
        confirmed: "Overflow goes only where a slot is free, so that a full fleet serves keys at home, from caches.",
        otherwise: "Overflow goes only where a slot is free as far as a report knows. Between two reports of a second \
                    a slot that is free is found by several gateways, and one that becomes free by none; with 4 places \
                    in its queue an engine runs dry before the next report.",
    };
    let claim = "With the overflow guard goodput holds at capacity up to 320 offered requests/s.";
    Ok(checks.finding("P4", claim, &reasons, five.plots(&["goodput", "reuse"])))
}

fn latency(results: &Results<'_>) -> anyhow::Result<Finding> {
    let five = results.of("five-regions")?;
    let loads = ["80", "160", "200"];
    let ours = five.along("ttft_p99", "published", "offered", &loads)?;
    let other = five.along("ttft_p99", "wait-and-widen", "offered", &loads)?;
    let mut checks = Checks::default();
    for ((load, ours), other) in loads.iter().zip(&ours).zip(&other) {
        checks.check(
            *ours <= 0.8 * other,
            format!("TTFT p99 at {load} of at most 0.8 of wait-and-widen's: {ours:.0} to {other:.0} ms"),
        );
    }
    let reasons = Reasons {
        confirmed: "A key's place does not depend on the moment's queues, so that its prefix is where it is sent.",
        otherwise: "At low load both send a key where its prefix is, and what is left is the way there: a key's place \
                    by rank may be in the farthest region, and by time to first token is near.",
    };
    let claim = "Below capacity its TTFT p99 is well under wait-and-widen's.";
    Ok(checks.finding("P5", claim, &reasons, five.plots(&["ttft_p99"])))
}

fn deeper_queue(results: &Results<'_>) -> anyhow::Result<Finding> {
    let depths = results.of("max-queued")?;
    let mut checks = Checks::default();
    for reports in [EVERY_SECOND, EVERY_CHANGE] {
        let at = |depth| depths.figure("goodput", "published", &[reports, ("max_queued", depth)]);
        let (shallow, deep) = (at("0")?, at("12")?);
        checks.check(
            deep >= 1.05 * shallow,
            format!(
                "goodput with 12 is at least 1.05 of that with 0, reports {}: {deep:.0} to {shallow:.0}",
                reports.1
            ),
        );
    }
    let reasons = Reasons {
        confirmed: "What queues in the engine is what it goes on with before anybody knows that a slot is free.",
        otherwise: "What queues in the engine is what it goes on with before anybody knows that a slot is free. Reports \
                    that come at once need little of that.",
    };
    let claim = "A deeper primary queue (`max_queued`) raises capacity.";
    Ok(checks.finding("P6", claim, &reasons, depths.plots(&["goodput"])))
}

fn reservation_arms(results: &Results<'_>) -> anyhow::Result<Finding> {
    let arms = results.of("reservations")?;
    let mut checks = Checks::default();
    for offered in ["80", "160", "240", "320"] {
        let mut shares = Vec::new();
        let mut words = Vec::new();
        for arm in arms.real_policies() {
            let share = arms.figure("of_bound", arm, &[EVERY_SECOND, ("offered", offered)])?;
            words.push(format!("{arm} {share:.1}"));
            shares.push(share);
        }
        let (worst, best) = (least(&shares), greatest(&shares));
        let exact = arms.figure("of_bound", "exact", &[EVERY_SECOND, ("offered", offered)])?;
        // 250 requests/s are capacity: below 0.8 of it all arms are to be alike.
        let (holds, criterion) = if matches!(offered, "80" | "160") {
            (worst >= best - 1.0, "all arms within 1 point")
        } else {
            (exact >= best - 1.0, "exact handover within 1 point of the best")
        };
        checks.check(holds, format!("{criterion} at {offered}, in % of the bound: {}", words.join(", ")));
    }
    let reasons = Reasons {
        confirmed: "With slots to spare it does not matter what is counted twice or not at all; near capacity it does, \
                    and only the word of the engine which attempts a report includes makes both impossible.",
        otherwise: "Which arm is right depends on the load: what is counted too long wastes places near capacity, and \
                    what is forgotten too early floods the engines past it.",
    };
    let claim = "Reservation arms differ near and above capacity only, and there exact handover does best (80, 160, 240 \
                 and 320 requests/s, a report a second).";
    Ok(checks.finding("P7", claim, &reasons, arms.plots(&["goodput", "ttft_p99"])))
}
