//! The engine's stats as the control plane takes them, and the same numbers for Prometheus under vLLM's names.

use std::{
    cell::Cell,
    fmt::Write,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use super::engine::{Engine, Phase};

/// Reported for a prefill rate of 0 (no time): large, yet finite, as the control plane demands.
const UNLIMITED_TPS: f64 = 1_000_000.0;

/// Output is averaged over at least this long: a shorter window would report bursts as a rate.
const OUTPUT_WINDOW_MIN_SECONDS: f64 = 0.2;

/// Makes reports; remembers what it needs for rates.
pub(crate) struct Reporter {
    /// Whether every change is reported.
    change_driven: bool,
    window_start: Cell<Instant>,
    window_tokens: Cell<u64>,
    output_tps: Cell<f64>,
}

// === impl Reporter ===

impl Reporter {
    /// A reporter that begins to measure now; `change_driven` where every change is going to be reported.
    pub(crate) fn new(change_driven: bool) -> Self {
        Self {
            change_driven,
            window_start: Cell::new(Instant::now()),
            window_tokens: Cell::new(0),
            output_tps: Cell::new(0.0),
        }
    }

    /// One model's stats. All models share the engine, so each reports the whole of it.
    pub(crate) fn model_stats(&self, engine: &Engine) -> Value {
        let settings = &engine.settings;
        let counters = &engine.counters;
        let cache = engine.cache.borrow();
        let input_tps = if settings.prefill_tps > 0.0 { settings.prefill_tps } else { UNLIMITED_TPS };
        let queued_tokens =
            counters.tokens_in_phase(Phase::Queued) + counters.tokens_in_phase(Phase::PrefillQueued);
        let running_tokens =
            counters.tokens_in_phase(Phase::Prefill) + counters.tokens_in_phase(Phase::Decode);
        let mut stats = json!({
            "last_mean_input_tps": input_tps,
            "max_input_tps": input_tps,
            "output_tps": self.output_tps(engine),
            "queue_size": counters.in_phase(Phase::Queued),
            "queued_input_size": queued_tokens,
            "input_processing_queries": counters.in_phase(Phase::PrefillQueued) + counters.in_phase(Phase::Prefill),
            "output_generation_queries": counters.in_phase(Phase::Decode),
            "num_running_queries": counters.running(),
            "max_engine_concurrency": settings.concurrency,
            "total_query_input_size": queued_tokens + running_tokens,
            "kv_cache_capacity_tokens": cache.capacity_tokens(),
            "kv_cache_used_tokens": cache.used_tokens(),
            "kv_cache_free_tokens": cache.capacity_tokens() - cache.used_tokens(),
            "stats_observed_at_unix_ms": unix_ms(),
            "stats_sources": ["mock-engine"],
        });
        if settings.decode_tps > 0.0 {
            stats["max_output_tps"] = json!(settings.decode_tps * settings.concurrency as f64);
        }
        if self.change_driven {
            stats["stats_capabilities"] = json!(["change-driven"]);
        }
        if let Some(handover) = &engine.handover {
            stats["attempts"] = handover.borrow_mut().report(Instant::now());
        }
        stats
    }

    fn output_tps(&self, engine: &Engine) -> f64 {
        let seconds = self.window_start.get().elapsed().as_secs_f64();
        if seconds >= OUTPUT_WINDOW_MIN_SECONDS {
            let total = engine.counters.output_tokens.get();
            let tokens = total - self.window_tokens.replace(total);
            self.window_start.set(Instant::now());
            self.output_tps.set(tokens as f64 / seconds);
        }
        self.output_tps.get()
    }
}

/// Prometheus text with the names that vLLM's users know.
pub(crate) fn prometheus(engine: &Engine) -> String {
    let counters = &engine.counters;
    let cache = engine.cache.borrow();
    let labels = format!(
        "{{model_name={},engine={}}}",
        serde_json::to_string(&engine.settings.models[0]).unwrap_or_default(),
        serde_json::to_string(&engine.settings.id).unwrap_or_default()
    );
    let usage = if cache.capacity_tokens() == 0 {
        0.0
    } else {
        cache.used_tokens() as f64 / cache.capacity_tokens() as f64
    };
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, value: f64| {
        let _ = writeln!(text, "# TYPE {name} {kind}\n{name}{labels} {value}");
    };
    metric("vllm:num_requests_running", "gauge", counters.running() as f64);
    metric("vllm:num_requests_waiting", "gauge", counters.in_phase(Phase::Queued) as f64);
    metric("vllm:kv_cache_usage_perc", "gauge", usage);
    metric("vllm:prompt_tokens_total", "counter", counters.prompt_tokens.get() as f64);
    metric("vllm:generation_tokens_total", "counter", counters.output_tokens.get() as f64);
    metric("vllm:prefix_cache_queries_total", "counter", counters.prompt_tokens.get() as f64);
    metric("vllm:prefix_cache_hits_total", "counter", counters.cached_tokens.get() as f64);
    metric("vllm:request_success_total", "counter", counters.completed.get() as f64);
    metric("mock:requests_cancelled_total", "counter", counters.cancelled.get() as f64);
    metric("mock:requests_rejected_total", "counter", counters.rejected.get() as f64);
    text
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
