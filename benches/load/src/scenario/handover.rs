//! Engines that report once a second, in what they make of their slots: with and without saying which requests each
//! report includes, and beside engines that report every change.
//!
//! A request that arrives where no slot is free queues in the engine, out of the gateway's hands; a slot that nobody is
//! sent to is wasted. A gateway that knows what a report includes needs to do neither.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{
    CONNECTIONS, Offered, Stage,
    fleet::{self, EngineOptions, Reports},
};

const ENGINES: usize = 4;
const SLOTS: u32 = 8;
const OUTPUT_TOKENS: u64 = 50;
const DECODE_TPS: f64 = 100.0;
/// Offered loads, as multiples of the capacity, unless told otherwise.
const LOADS: [f64; 4] = [0.6, 0.8, 1.0, 1.3];
/// Who waits longer than this for a place is told that nobody has room.
const MAX_WAIT_MS: u64 = 2_000;
const KEYS: usize = 256;

const ARMS: [(&str, Reports); 3] = [
    ("every 1 s", Reports::EverySecond),
    ("every 1 s, exact handover", Reports::EverySecondWithHandover),
    ("on every change", Reports::OnChange),
];

pub(super) async fn tell(stage: &Stage<'_>) -> anyhow::Result<(String, Value)> {
    let capacity = ENGINES as f64 * f64::from(SLOTS) * DECODE_TPS / OUTPUT_TOKENS as f64;
    let routing = fleet::document(&json!({
        "algorithm": "wait-and-widen",
        "max_queued": 0,
        "default_max_wait_ms": MAX_WAIT_MS,
        "max_waiters": 65_536,
    }));
    let mut text = format!(
        "{ENGINES} engines of {SLOTS} slots, capacity {capacity:.0}/s, {} s each; a request waits in the gateway for \
         {MAX_WAIT_MS} ms at most\n\n{:28}{:>8}{:>14}{:>10}{:>10}{:>22}\n",
        stage.time.as_secs(),
        "stats",
        "load",
        "completed/s",
        "TTFT p50",
        "TTFT p99",
        "found no free slot",
    );
    let loads = stage.rate.map_or(LOADS.to_vec(), |load| vec![load]);
    let mut lines = Vec::new();
    for (name, reports) in ARMS {
        let engine = EngineOptions {
            slots: SLOTS,
            prefill_tps: 0.0,
            decode_tps: DECODE_TPS,
            kv_capacity_tokens: 1 << 20,
            reports,
        };
        for load in &loads {
            let mut fleet =
                fleet::Fleet::start(stage.stargate, &vec![engine.clone(); ENGINES], &routing).await?;
            let offered = Offered {
                rate: capacity * load,
                affinity_keys: KEYS,
                body_bytes: 1024,
                max_tokens: OUTPUT_TOKENS,
                stream: true,
                connections: CONNECTIONS,
                slo: None,
            };
            let report = stage.offer(&fleet, &offered).await?;
            let queued = fleet.engine_totals().await?.arrived_without_free_slot;
            let completed = report.completed as f64 / report.elapsed_s;
            let queued_share = queued as f64 / report.completed.max(1) as f64;
            eprintln!("{name}, load {load}: {completed:.1}/s, {queued} found no free slot");
            let _ = writeln!(
                text,
                "{name:28}{load:>8}{completed:>14.1}{:>8.0}ms{:>8.0}ms{queued:>14} ({:.1} %)",
                report.first_byte.p50_us / 1e3,
                report.first_byte.p99_us / 1e3,
                100.0 * queued_share,
            );
            lines.push(json!({
                "stats": name, "load": load, "capacity_per_s": capacity, "completed_per_s": completed,
                "found_no_free_slot": queued, "report": report,
            }));
        }
    }
    Ok((text, Value::Array(lines)))
}
