//! Scenarios are read whole or refused with the place, what was found and what is allowed.

use super::{Accounted, Arrivals, Router};
use crate::{
    catalogue,
    testing::{Changes, SMALL, grid, small},
};

/// Why the small scenario with these changes is refused.
fn refused(changes: &Changes<'_>) -> String {
    let error = grid(SMALL, changes).and_then(|grid| grid.points().map(drop));
    format!("{:#}", error.expect_err("an error"))
}

fn refused_text(text: &str) -> String {
    format!("{:#}", grid(text, &[]).and_then(|grid| grid.points().map(drop)).expect_err("an error"))
}

#[test]
fn every_scenario_that_comes_with_the_program_reads() {
    for name in catalogue::names() {
        let text = catalogue::text(name).expect("a text");
        let points = grid(&text, &[]).and_then(|grid| grid.points());
        let points = points.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        assert!(!points.is_empty() && points.iter().all(|point| !point.policies.is_empty()), "{name}");
    }
}

#[test]
fn an_error_names_the_place_and_what_is_allowed() {
    let errors: [(&Changes<'_>, &str); 22] = [
        (&[("clients.session", "1")], "unknown field `session`"),
        (&[("title", "'Other'")], "unknown field `title`"),
        (&[("network.rtt_ms", "[[0]]")], "network.rtt_ms: allowed: 2 rows of 2 numbers"),
        (&[("network.rtt_ms.0.1", "20000")], "network.rtt_ms: allowed: 0 to 10000"),
        (&[("network.regions", "[]")], "network.regions: found 0, allowed: 1 to 64"),
        (&[("gateways.per_region", "0")], "gateways.per_region: found 0, allowed: 1 to 1024"),
        (&[("measured_s", "0")], "measured_s above 0"),
        (&[("seeds", "[]")], "seeds: found none"),
        (&[("policies", "[]")], "policies: found none"),
        (&[("policies", "['best']")], "policies: found \"best\", allowed: bounded-loads"),
        (&[("engines.plain.slots", "0")], "engines.plain: slots = 0"),
        (&[("clusters.0.count", "0")], "clusters: found 0 in all, allowed: 1 to 4096"),
        (&[("clusters.0.engine", "'fast'")], "clusters[0]: engine: found \"fast\", allowed: plain"),
        (&[("clusters.0.region", "'west'")], "clusters[0]: region: found \"west\", allowed: here, there"),
        (&[("clusters.0.speed", "0")], "clusters[0]: speed: found 0, allowed: 0.01 to 100"),
        (&[("clusters.0.until_s", "0")], "clusters[0]: from_s and until_s: allowed: from 0 on"),
        (&[("clusters.1.count", "1")], "clusters.1.count: found 1, allowed: 0 to 0, or *"),
        (&[("reports.heartbeat_ms", "0.5")], "reports: heartbeat_ms and on_change_ms: allowed: 1 to 600000"),
        (&[("reports", "{}")], "reports: found nothing, allowed: heartbeat_ms, on_change_ms or both"),
        (&[("title.of", "1")], "unknown field `title`"),
        (&[("warmup_s.of", "1")], "warmup_s.of: leads into a plain value"),
        (&[("policy.random.comparator", "'ttft'")], "policy.random"),
    ];
    for (changes, part) in errors {
        let found = refused(changes);
        assert!(found.contains(part), "{changes:?}: {found}");
    }
}

#[test]
fn clients_are_checked() {
    let errors: [(&Changes<'_>, &str); 12] = [
        (&[("clients.region", "'west'")], "clients: region: found \"west\", allowed: here, there"),
        (
            &[("clients.arrivals.load", "1")],
            "clients: arrivals: allowed: exactly one of rate, load, stages, workers",
        ),
        (&[("clients.arrivals", "{}")], "clients: arrivals: allowed: exactly one of"),
        (&[("clients.arrivals.rate", "-1")], "clients: arrivals: found -1, allowed: 0 to 1000000"),
        (
            &[("clients.arrivals", "{ stages = [{ from_s = 9, load = 1 }, { from_s = 1, load = 1 }] }")],
            "clients: arrivals.stages: allowed: ordered by from_s",
        ),
        (&[("clients.sessions", "0")], "clients: sessions: found 0, allowed: 1 to 16777216"),
        (&[("clients.shared", "1.5")], "clients: shared: found 1.5, allowed: 0 to 1"),
        (&[("clients.groups", "0")], "clients: groups: found 0, allowed: at least 1"),
        (&[("clients.slo_ms", "0")], "clients: slo_ms and timeout_ms: allowed: above 0"),
        (
            &[("clients.prompt_tokens", "0")],
            "clients: prompt_tokens: found Fixed(0), allowed: 1 to 1000000 tokens",
        ),
        (&[("clients.popularity", "{ zipf = 5 }")], "clients: popularity.zipf: found 5, allowed: 0 to 4"),
        (
            &[("clients.hot", "{ from_s = 0, until_s = 1, sessions = 5, share = 0.5 }")],
            "clients: hot: allowed: a share from 0 to 1, and 1 to 4 sessions",
        ),
    ];
    for (changes, part) in errors {
        let found = refused(changes);
        assert!(found.contains(part), "{changes:?}: {found}");
    }
}

#[test]
fn policies_are_read_as_routing_documents_are() {
    let own = |fields: &str| format!("{SMALL}\n[policy.own]\n{fields}\n");
    let named = |text: &str| {
        let points = grid(text, &[("policies", "['own']")]).and_then(|grid| grid.points());
        points.map(|points| points[0].policies[0].1.clone())
    };
    let read =
        named(&own("baseline = 'oracle'\nahead = 2\nreservations = 'exact'\ndefault_max_wait_ms = 70"));
    let read = read.expect("a policy");
    assert!(matches!(read.router, Router::Baseline(_)));
    assert_eq!((read.accounted, read.waiting.default_max_wait.as_millis()), (Accounted::Exact, 70));
    let error = |fields: &str| format!("{:#}", named(&own(fields)).expect_err("an error"));
    for (fields, part) in [
        ("baseline = 'oracle'\nspeed = 1", "policy.own"),
        ("algorithm = 'pulsar'\nsample_count = 2", "sample_count"),
        ("algorithm = 'swarm'", "policy.own: found neither `algorithm` nor `baseline`"),
        ("algorithm = 'random'\nreservations = 'often'", "policy.own: reservations: "),
        (
            "algorithm = 'power-of-n'\nsample_count = [2]",
            "sample_count: allowed: a number, a text, true or false",
        ),
        ("algorithm = 'power-of-n'\nsample_count = 65", "sample_count"),
    ] {
        let found = error(fields);
        assert!(found.contains(part), "{fields}: {found}");
    }
}

#[test]
fn what_a_gateway_counts_follows_from_what_reports_say() {
    let counts = |reports| small(&[("reports", reports)]).policies[0].1.accounted;
    assert_eq!(counts("{ heartbeat_ms = 1000 }"), Accounted::InFlight);
    assert_eq!(counts("{ on_change_ms = 10 }"), Accounted::RoundTrip);
    assert_eq!(counts("{ heartbeat_ms = 1000, hand_over = true }"), Accounted::Exact);
}

#[test]
fn a_base_is_changed_table_by_table_but_for_what_excludes_each_other() {
    let derived =
        "base = 'five-regions'\ntitle = 'Derived'\n[clients]\nsessions = 7\n[clients.arrivals]\nload = 1.2";
    let points = grid(derived, &[]).and_then(|grid| {
        assert_eq!((grid.title.as_str(), grid.axes().len(), grid.plots.len()), ("Derived", 0, 0));
        grid.points()
    });
    let clients = points.expect("points").remove(0).scenario.clients;
    assert_eq!((clients.sessions, clients.slo_ms), (7, 10_000.0));
    assert!(matches!(clients.arrivals, Arrivals { rate: None, load: Some(1.2), .. }));
    assert!(refused_text("base = 1").contains("base: allowed: the name of a scenario"));
    assert!(refused_text("base = 'none'").contains("none: neither a file nor one of five-regions"));
    assert!(refused_text("a = ").contains("TOML parse error"));
    assert!(refused_text("about = ''").contains("title: found None, allowed: a text"));
}

#[test]
fn points_are_all_combinations_and_the_last_axis_varies_fastest() {
    let text = format!(
        "{SMALL}\n[[axes]]\nname = 'load'\npath = 'clients.arrivals.rate'\nvalues = [1, 2.5]\n\
         [[axes]]\nname = 'fleet'\n[[axes.cases]]\nlabel = 'one'\nset = {{}}\n\
         [[axes.cases]]\nlabel = 'two'\nset = {{ 'clusters.*.count' = 2, 'clients.slo_ms' = 9 }}\n"
    );
    let mut whole = grid(&text, &[]).expect("a grid");
    let shown = |points: &[super::Point]| -> Vec<(String, Option<f64>, usize)> {
        let one = |point: &super::Point| {
            let labels: Vec<&str> = point.labels.values().map(String::as_str).collect();
            (labels.join(" "), point.scenario.clients.arrivals.rate, point.scenario.clusters[0].count)
        };
        points.iter().map(one).collect()
    };
    let point = |labels: &str, rate, count| (labels.to_owned(), Some(rate), count);
    assert_eq!(
        shown(&whole.points().expect("points")),
        [point("one 1", 1.0, 1), point("two 1", 1.0, 2), point("one 2.5", 2.5, 1), point("two 2.5", 2.5, 2)]
    );
    whole.keep("fleet", &["two".to_owned()]).expect("kept");
    assert_eq!(shown(&whole.points().expect("points")), [point("two 1", 1.0, 2), point("two 2.5", 2.5, 2)]);
    let error = whole.keep("fleet", &["one".to_owned()]).expect_err("an error");
    assert_eq!(error.to_string(), "axis fleet: found \"one\", allowed: two");
    let error = whole.keep("size", &[]).expect_err("an error");
    assert_eq!(error.to_string(), "no such axis; allowed: load, fleet");
}

#[test]
fn axes_and_plots_are_checked() {
    let with = |more: &str| refused_text(&format!("{SMALL}\n{more}"));
    assert!(with("[[axes]]\nname = 'a'").contains("axes.a: allowed: either a path and values, or cases"));
    assert!(with("[[axes]]\nname = 'a'\npath = 'seeds'").contains("axes.a: allowed"));
    let axis = "[[axes]]\nname = 'a'\npath = 'measured_s'\nvalues = [1]\n";
    assert!(with(&axis.repeat(2)).contains("axes: two are called a"));
    assert!(with("[[axes]]\nname = 'a'\nstep = 1").contains("unknown field `step`"));
    let lost = with("[[axes]]\nname = 'a'\npath = 'title.of.it'\nvalues = [1]");
    assert!(lost.contains("unknown field `title`"), "{lost}");
    let plot = with("[[plots]]\ntitle = 'P'\nx = 'load'\ny = 'goodput'");
    assert!(plot.contains("plot \"P\"") && plot.contains("`x` is \"load\""), "{plot}");
}
