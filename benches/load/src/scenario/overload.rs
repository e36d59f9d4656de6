//! More requests than the engines can serve, all with one goal for their first token.
//!
//! The engines' capacity is exact: slots, each held for a fixed number of tokens at a fixed pace. What differs from
//! line to line is whom the gateway serves first, and whether it answers at once who cannot be served in time.

use std::{fmt::Write, time::Duration};

use serde_json::{Value, json};

use super::{
    CONNECTIONS, Offered, Stage, fleet,
    fleet::{EngineOptions, Reports},
};

const ENGINES: usize = 4;
const SLOTS: u32 = 8;
const OUTPUT_TOKENS: u64 = 50;
const DECODE_TPS: f64 = 100.0;
/// Offered load unless told otherwise, as a multiple of the capacity.
const OVERLOAD: f64 = 1.3;
/// Time to first token that clients want.
const SLO: Duration = Duration::from_secs(2);
/// Who waits longer than this is told that nobody has room.
const MAX_WAIT_MS: u64 = 30_000;
/// Sessions of the clients: many to a cluster.
const KEYS: usize = 256;

/// One line of the table.
struct Arm {
    name: &'static str,
    wait_order: &'static str,
    shed_unreachable: bool,
}

const ARMS: [Arm; 4] = [
    Arm { name: "adaptive, giving up early", wait_order: "adaptive", shed_unreachable: true },
    Arm { name: "oldest first, giving up early", wait_order: "oldest-first", shed_unreachable: true },
    Arm { name: "adaptive", wait_order: "adaptive", shed_unreachable: false },
    Arm { name: "oldest first", wait_order: "oldest-first", shed_unreachable: false },
];

pub(super) async fn tell(stage: &Stage<'_>) -> anyhow::Result<(String, Value)> {
    let capacity = ENGINES as f64 * f64::from(SLOTS) * DECODE_TPS / OUTPUT_TOKENS as f64;
    let rate = capacity * stage.rate.unwrap_or(OVERLOAD);
    let engine = EngineOptions {
        slots: SLOTS,
        prefill_tps: 0.0,
        decode_tps: DECODE_TPS,
        kv_capacity_tokens: 1 << 20,
        reports: Reports::OnChange,
    };
    let mut text = format!(
        "{ENGINES} engines, capacity {capacity:.0}/s, offered {rate:.1}/s for {} s, SLO {SLO:?}\n\n\
         {:32}{:>10}{:>10}{:>9}{:>10}{:>10}{:>8}{:>8}{:>8}\n",
        stage.time.as_secs(),
        "",
        "goodput/s",
        "of cap.",
        "answered",
        "TTFT p50",
        "TTFT p99",
        "shed",
        "expired",
        "other"
    );
    let mut lines = Vec::new();
    for arm in &ARMS {
        let routing = fleet::document(&json!({
            "algorithm": "pulsar-wait-and-widen",
            "primary_admission": "capacity",
            "max_queued": 4,
            "cache_affinity_wait_ms": 100,
            "default_max_wait_ms": MAX_WAIT_MS,
            "slo_ms": SLO.as_millis() as u64,
            "wait_order": arm.wait_order,
            "shed_unreachable": arm.shed_unreachable,
            // All of them: what is measured is the order, not this limit.
            "max_waiters": 65_536,
        }));
        let mut fleet = fleet::Fleet::start(stage.stargate, &vec![engine.clone(); ENGINES], &routing).await?;
        let offered = Offered {
            rate,
            affinity_keys: KEYS,
            body_bytes: 1024,
            max_tokens: OUTPUT_TOKENS,
            stream: true,
            connections: CONNECTIONS,
            slo: Some(SLO),
        };
        let report = stage.offer(&fleet, &offered).await?;
        let in_time = report.in_time.unwrap_or(0);
        let goodput = in_time as f64 / report.elapsed_s;
        let shed =
            fleet.metric("admission_rejections_total", &["reason=\"slo_unreachable\""]).await?.round() as u64;
        let refused: u64 =
            report.errors.iter().filter(|(kind, _)| *kind == "status 503").map(|(_, count)| count).sum();
        let (expired, other) = (refused.saturating_sub(shed), report.failed - refused);
        eprintln!("{}: goodput {goodput:.1}/s", arm.name);
        let _ = writeln!(
            text,
            "{:32}{goodput:>10.1}{:>9.0}%{:>9}{:>8.0}ms{:>8.0}ms{shed:>8}{expired:>8}{other:>8}",
            arm.name,
            100.0 * goodput / capacity,
            report.completed,
            report.first_byte.p50_us / 1e3,
            report.first_byte.p99_us / 1e3,
        );
        lines.push(json!({
            "arm": arm.name, "capacity_per_s": capacity, "offered_per_s": rate, "goodput_per_s": goodput,
            "shed": shed, "expired": expired, "report": report,
        }));
    }
    Ok((text, Value::Array(lines)))
}
