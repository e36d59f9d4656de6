//! Sessions whose prompts are worth keeping, four engines whose caches hold a quarter of them each, one engine slow.
//!
//! An algorithm that sends each session where its prompt is cached needs little prefill; one that spreads sessions
//! over all engines makes all caches hold a little of everything.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{
    CONNECTIONS, Offered, Stage, fleet,
    fleet::{EngineOptions, Reports},
};

const KEYS: usize = 64;
/// Bytes of a request: about 2 000 tokens.
const BODY_BYTES: usize = 8 * 1024;
const PROMPT_TOKENS: u64 = 2_048;
const OUTPUT_TOKENS: u64 = 16;
/// An engine at full speed computes a cold prompt in a tenth of a second.
const ENGINE: EngineOptions = EngineOptions {
    slots: 8,
    prefill_tps: 20_000.0,
    decode_tps: 100.0,
    // A quarter of all sessions, and a quarter more for those under way.
    kv_capacity_tokens: KEYS as u64 / 4 * (PROMPT_TOKENS + OUTPUT_TOKENS) * 5 / 4,
    reports: Reports::OnChange,
};
/// What the fourth engine has left of its speed.
const SLOWED: f64 = 0.5;
/// Requests a second unless told otherwise: within what cold engines can do, so that everybody copes somehow.
const RATE: f64 = 28.0;

pub(super) async fn tell(stage: &Stage<'_>) -> anyhow::Result<(String, Value)> {
    let slow = EngineOptions {
        prefill_tps: ENGINE.prefill_tps * SLOWED,
        decode_tps: ENGINE.decode_tps * SLOWED,
        ..ENGINE
    };
    let engines = [ENGINE, ENGINE, ENGINE, slow];
    let rate = stage.rate.unwrap_or(RATE);
    let mut text = format!(
        "{KEYS} sessions of {PROMPT_TOKENS} prompt tokens, 4 engines (the last at {SLOWED} of the others' speed), \
         {rate}/s for {} s\n\n{:34}{:>10}{:>10}{:>10}{:>10}{:>8}\n",
        stage.time.as_secs(),
        "",
        "hit rate",
        "TTFT p50",
        "TTFT p99",
        "overflow",
        "failed"
    );
    let mut lines = Vec::new();
    for (name, policy) in policies() {
        let mut fleet = fleet::Fleet::start(stage.stargate, &engines, &fleet::document(&policy)).await?;
        let offered = Offered {
            rate,
            affinity_keys: KEYS,
            body_bytes: BODY_BYTES,
            max_tokens: OUTPUT_TOKENS,
            stream: true,
            connections: CONNECTIONS,
            slo: None,
        };
        let report = stage.offer(&fleet, &offered).await?;
        let totals = fleet.engine_totals().await?;
        let hit_rate = totals.cached_tokens as f64 / (totals.prompt_tokens as f64).max(1.0);
        let selections = fleet.metric("routing_selections_total", &[]).await?;
        let fallbacks = fleet.metric("routing_selections_total", &["selection=\"fallback\""]).await?;
        let overflow = fallbacks / selections.max(1.0);
        eprintln!("{name}: hit rate {hit_rate:.3}");
        let _ = writeln!(
            text,
            "{name:34}{:>9.1}%{:>8.1}ms{:>8.1}ms{:>9.1}%{:>8}",
            100.0 * hit_rate,
            report.first_byte.p50_us / 1e3,
            report.first_byte.p99_us / 1e3,
            100.0 * overflow,
            report.failed,
        );
        lines.push(json!({
            "policy": policy, "name": name, "hit_rate": hit_rate, "overflow": overflow, "report": report,
        }));
    }
    Ok((text, Value::Array(lines)))
}

fn policies() -> Vec<(&'static str, Value)> {
    let waiting = |mut policy: Value| {
        policy["default_max_wait_ms"] = json!(30_000);
        policy
    };
    let guarded = json!({
        "algorithm": "pulsar-wait-and-widen", "primary_admission": "capacity", "max_queued": 4,
        "cache_affinity_wait_ms": 100,
    });
    vec![
        ("random", json!("random")),
        ("round-robin", json!("round-robin")),
        ("power-of-n, ttft", json!("power-of-n")),
        ("power-of-n, ttft-backlog", json!({"algorithm": "power-of-n", "comparator": "ttft-backlog"})),
        ("pulsar", json!("pulsar")),
        (
            "wait-and-widen, group of 1",
            waiting(json!({
                "algorithm": "wait-and-widen", "cache_affinity_backend_selection_count": 1,
                "cache_affinity_wait_ms": 100, "max_queued": 4,
            })),
        ),
        (
            "pulsar-wait-and-widen, as published",
            waiting(json!({
                "algorithm": "pulsar-wait-and-widen", "max_queued": 4, "cache_affinity_wait_ms": 100,
            })),
        ),
        ("pulsar-wait-and-widen, capacity", waiting(guarded)),
    ]
}
