//! Until when a gateway adds what it has just sent to what engines report: what each answer is worth in overload.
//!
//! Too short, and work is sent where a slot only seems free; too long, and it counts twice, so that slots stay empty.

use std::{fmt::Write, time::Duration};

use serde_json::{Value, json};
use stargate_routing::{
    Algorithm, PrimaryAdmission, PulsarWaitAndWidenParameters, SampleCount, WaitAndWidenParameters, Widening,
};

use super::{
    Args,
    gateway::{Terms, Until},
    run::{Reporting, Setup, Tally, run},
};

const WARMUP: Duration = Duration::from_secs(60);
/// How long a request waits for a place.
const PATIENCE: Duration = Duration::from_secs(5);

const ARMS: [(&str, Until); 5] = [
    ("none", Until::Never),
    ("cleared on each report", Until::NextReport),
    ("one round trip", Until::RoundTrip),
    ("larger of report and in flight", Until::End),
    ("exact handover", Until::Included),
];

/// What the seeds of one line came to.
struct Line {
    /// Ordered.
    misrouted: Vec<f64>,
    queued: f64,
    completed: f64,
    rejected: f64,
    busy: f64,
    begin_p50_ms: f64,
    begin_p99_ms: f64,
}

pub(super) fn tell(args: &Args) -> (String, Value) {
    let mut text = String::new();
    let mut tables = Vec::new();
    let second = Duration::from_secs(1);
    let every_second = ("every 1 s", Reporting::Every(second));
    let on_change = ("on every change", Reporting::OnChange(Duration::from_millis(10)));
    for ((reports, reporting), gateways, load) in [
        (every_second, 1, 1.3),
        (every_second, 1, 0.8),
        (every_second, 3, 1.3),
        (on_change, 1, 1.3),
        (on_change, 3, 1.3),
    ] {
        let setup = Setup {
            seed: 0,
            gateways,
            clusters: 20,
            slots: 12,
            mean_service: second,
            rtt: Duration::from_millis(50),
            reporting,
            load,
            keys: 768,
            warmup: WARMUP,
            measured: Duration::from_secs(args.seconds),
        };
        let (heading, lines) = table(args, &setup, reports);
        let _ = writeln!(text, "{heading}");
        tables.push(lines);
    }
    (text, Value::Array(tables))
}

/// One set-up under every arm.
fn table(args: &Args, setup: &Setup, reports: &str) -> (String, Value) {
    let capacity = (setup.clusters * setup.slots) as f64 / setup.mean_service.as_secs_f64();
    let mut text = format!(
        "{} engines of {} slots, capacity {capacity:.0}/s, offered {:.0}/s at {} gateways; reports {reports}, RTT {:?}\n\
         {:18}{:32}{:>20}{:>9}{:>12}{:>10}{:>7}{:>10}{:>10}\n",
        setup.clusters,
        setup.slots,
        setup.load * capacity,
        setup.gateways,
        setup.rtt,
        "",
        "added until",
        "misrouted (seeds)",
        "queued",
        "completed/s",
        "rejected",
        "busy",
        "begin p50",
        "p99",
    );
    let mut lines = Vec::new();
    for (name, algorithm) in algorithms() {
        for (until_name, until) in ARMS {
            let terms = Terms { algorithm: algorithm.clone(), until, patience: PATIENCE };
            let line = Line::of(
                &(1..=args.seeds)
                    .map(|seed| run(&Setup { seed, ..setup.clone() }, &terms))
                    .collect::<Vec<_>>(),
                setup,
            );
            eprintln!(
                "reports {reports}, {} gateways, load {}: {name}, {until_name}",
                setup.gateways, setup.load
            );
            let (least, most) = (line.misrouted[0], line.misrouted[line.misrouted.len() - 1]);
            let _ = writeln!(
                text,
                "{name:18}{until_name:32}{:>20}{:>8.1}%{:>12.1}{:>9.1}%{:>6.0}%{:>8.0}ms{:>8.0}ms",
                format!("{:.2} to {:.2}%", 100.0 * least, 100.0 * most),
                100.0 * line.queued,
                line.completed,
                100.0 * line.rejected,
                100.0 * line.busy,
                line.begin_p50_ms,
                line.begin_p99_ms,
            );
            lines.push(json!({
                "reports": reports, "gateways": setup.gateways, "load": setup.load, "algorithm": name,
                "added_until": until_name, "misrouted_share": line.misrouted, "queued_share": line.queued,
                "completed_per_s": line.completed, "rejected_share": line.rejected, "busy_share": line.busy,
                "begin_p50_ms": line.begin_p50_ms, "begin_p99_ms": line.begin_p99_ms,
            }));
        }
    }
    (text, Value::Array(lines))
}

/// What decides: places anywhere, and places by key.
fn algorithms() -> [(&'static str, Algorithm); 2] {
    let widening = Widening {
        sample_count: SampleCount::new(2).expect("2 is allowed"),
        max_queued: 0,
        ..Widening::default()
    };
    let spread = WaitAndWidenParameters { widening: widening.clone(), ..WaitAndWidenParameters::default() };
    let keyed = PulsarWaitAndWidenParameters {
        widening: Widening { affinity_wait: Duration::from_millis(100), ..widening },
        primary_admission: PrimaryAdmission::Capacity,
        ..PulsarWaitAndWidenParameters::default()
    };
    [
        ("wait-and-widen", Algorithm::WaitAndWiden(spread)),
        ("pulsar-w-a-w", Algorithm::PulsarWaitAndWiden(keyed)),
    ]
}

// === impl Line ===

impl Line {
    fn of(tallies: &[Tally], setup: &Setup) -> Self {
        let mean = |of: &dyn Fn(&Tally) -> f64| tallies.iter().map(of).sum::<f64>() / tallies.len() as f64;
        let mut misrouted: Vec<f64> = tallies.iter().map(Tally::misrouted_share).collect();
        misrouted.sort_unstable_by(f64::total_cmp);
        let quantile = |share| move |tally: &Tally| tally.begin_us.value_at_quantile(share) as f64 / 1e3;
        Self {
            misrouted,
            queued: mean(&|tally| tally.queued as f64 / tally.sent.max(1) as f64),
            completed: mean(&|tally| tally.completed as f64 / setup.measured.as_secs_f64()),
            rejected: mean(&|tally| tally.rejected as f64 / tally.offered.max(1) as f64),
            busy: mean(&|tally| tally.busy),
            begin_p50_ms: mean(&quantile(0.5)),
            begin_p99_ms: mean(&quantile(0.99)),
        }
    }
}
