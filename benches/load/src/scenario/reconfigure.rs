//! The routing configuration is replaced again and again under load: no request may notice.
//!
//! Every change names another seed, so that nearly every key moves. After each, the cores say which snapshot they
//! decide by; the time until all have the new one is taken from before the change was sent. In between, documents
//! that cannot be applied are offered, and must be refused whole.

use std::{
    fmt::Write,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::ensure;
use serde_json::{Value, json};
use stargate_wire::net::race::{First, race};

use super::{
    Offered, Stage, fleet,
    fleet::{EngineOptions, Fleet, Reports},
};
use crate::generator::report::Report;

/// Requests a second unless told otherwise.
const RATE: f64 = 5_000.0;
const CONNECTIONS: usize = 256;
/// Between two changes.
const PAUSE: Duration = Duration::from_millis(200);
/// The load runs for this long before the first change.
const LEAD: Duration = Duration::from_millis(500);
const ENGINE: EngineOptions = EngineOptions {
    slots: 1024,
    prefill_tps: 0.0,
    decode_tps: 0.0,
    kv_capacity_tokens: 1 << 24,
    reports: Reports::OnChange,
};

/// What the changes took.
#[derive(Default)]
struct Changes {
    /// From sending a change to its answer.
    answered: Vec<Duration>,
    /// From sending a change until every core decided by it.
    switched: Vec<Duration>,
    /// What was said of documents that cannot be applied: status, path, message.
    refused: Vec<(u16, String, String)>,
}

pub(super) async fn tell(stage: &Stage<'_>) -> anyhow::Result<(String, Value)> {
    let rate = stage.rate.unwrap_or(RATE);
    let mut loaded = Fleet::start(stage.stargate, &vec![ENGINE; 4], &change(0)).await?;
    let gateway = loaded.gateway;
    let offered = Offered {
        rate,
        affinity_keys: 1024,
        body_bytes: 1024,
        max_tokens: 4,
        stream: false,
        connections: CONNECTIONS,
        slo: None,
    };
    let pid = loaded.gateway_pid();
    let mut changes = Changes::default();
    let report = {
        let load = pin!(stage.offer_to(gateway, pid, &offered));
        let changing = pin!(changes.go_on(&mut loaded));
        match race(load, changing).await {
            First::Left(report) => report?,
            First::Right(ended) => {
                ended?;
                anyhow::bail!("the changes ended before the load");
            }
        }
    };
    ensure!(!changes.switched.is_empty(), "no change was made: the load was too short");
    let text = changes.text(rate, &report);
    let json = json!({
        "rate": rate, "report": report, "changes": changes.switched.len(),
        "answered_ms": millis(&changes.answered), "switched_ms": millis(&changes.switched),
        "refused": changes.refused,
    });
    Ok((text, json))
}

/// The document of the `number`-th change.
fn change(number: usize) -> Value {
    fleet::document(&json!({ "algorithm": "pulsar", "seed": format!("change-{number}") }))
}

/// Documents that cannot be applied.
fn wrong() -> [Value; 3] {
    [
        fleet::document(&json!({ "algorithm": "pulsar", "max_queued": 3 })),
        fleet::document(&json!({ "algorithm": "wait-and-widen", "next_bucket_unlock_factor": -1 })),
        json!({ "request_algorithms": { "random": "pulsar" } }),
    ]
}

fn millis(times: &[Duration]) -> Vec<f64> {
    times.iter().map(|time| time.as_secs_f64() * 1e3).collect()
}

// === impl Changes ===

impl Changes {
    /// Changes the configuration until nobody waits for it any more.
    async fn go_on(&mut self, fleet: &mut Fleet) -> anyhow::Result<()> {
        monoio::time::sleep(LEAD).await;
        for document in wrong() {
            let (status, answer) = fleet.put_routing(&document).await?;
            ensure!(status == 422, "a wrong document was answered with {status}: {answer}");
            let text = |key: &str| answer["error"][key].as_str().unwrap_or_default().to_owned();
            self.refused.push((status, text("param"), text("message")));
        }
        for number in 1.. {
            let sent = Instant::now();
            let (status, answer) = fleet.put_routing(&change(number)).await?;
            ensure!(status == 200, "a change was answered with {status}: {answer}");
            self.answered.push(sent.elapsed());
            let published = fleet.metric("snapshot_version", &[]).await?;
            loop {
                let cores = fleet.metric_samples("core_snapshot_version").await?;
                ensure!(!cores.is_empty(), "no core tells its snapshot");
                let slowest = cores.iter().map(|(_, version)| *version).fold(f64::INFINITY, f64::min);
                if slowest >= published {
                    break;
                }
                ensure!(sent.elapsed() < Duration::from_secs(5), "a core still decides by {slowest}");
            }
            self.switched.push(sent.elapsed());
            monoio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    fn text(&self, rate: f64, report: &Report) -> String {
        let mut text = format!(
            "{} changes at {rate:.0} requests/s: {} answered, {} failed, {} never sent\n",
            self.switched.len(),
            report.completed,
            report.failed,
            report.open.as_ref().map_or(0, |open| open.unsent)
        );
        for (name, times) in [("answered after", &self.answered), ("all cores after", &self.switched)] {
            let mut times = millis(times);
            times.sort_by(f64::total_cmp);
            let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
            let _ = writeln!(text, "{name:16} p50 {:.2} ms, max {:.2} ms", at(0.5), at(1.0));
        }
        for (status, param, message) in &self.refused {
            let _ = writeln!(text, "refused: {status} {param}: {message}");
        }
        let _ = writeln!(
            text,
            "TTFT p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
            report.first_byte.p50_us / 1e3,
            report.first_byte.p99_us / 1e3,
            report.first_byte.max_us / 1e3
        );
        text
    }
}
