//! What kinds of engines there are, as scenarios describe them.

use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;

use super::{
    Engine, Kind,
    batching::{BatchingEngine, Costs},
    clock::{Clock, Picos},
    kv_cache::KvCache,
    slots::SlotEngine,
};

/// An engine's properties, at nominal speed.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::sim) enum EngineSpec {
    /// Prefills one prompt after the other, first come, first served, while requests in decode run each at its own
    /// pace. A request is in a slot from before its prefill to its end, and has its KV memory as long.
    Slots {
        slots: u32,
        /// Input tokens/s.
        prefill_tps: f64,
        /// Output tokens/s of each request.
        decode_tps: f64,
        /// 0: without a limit.
        #[serde(default)]
        kv_tokens: u64,
        #[serde(default = "default_block_tokens")]
        block_tokens: u32,
    },
    /// Continuous batching in steps, with prefills cut into chunks, and preemption when the KV memory is full: as in
    /// vLLM.
    Batching {
        slots: u32,
        /// Tokens computed in one step at most.
        batched_tokens: u32,
        /// 0: without a limit.
        #[serde(default)]
        kv_tokens: u64,
        #[serde(default = "default_block_tokens")]
        block_tokens: u32,
        /// What any step takes.
        step_ms: f64,
        prefill_us_per_token: f64,
        decode_us_per_request: f64,
        /// For the tokens that all requests in decode have so far.
        #[serde(default)]
        context_us_per_1k_tokens: f64,
    },
}

const SLOTS_MAX: u32 = 4_096;
/// Of prefill and decode.
const TPS_MIN: f64 = 1.0;
const TPS_MAX: f64 = 1e9;
const KV_TOKENS_MAX: u32 = 4_000_000_000;
const BATCHED_TOKENS_MAX: u32 = 1 << 20;
/// Of what a step takes, in ms; of a token or request in it, in us.
const STEP_MS_MIN: f64 = 1e-3;
const STEP_MS_MAX: f64 = 10_000.0;
const STEP_US_MAX: f64 = 10_000.0;
const BLOCK_TOKENS_MAX: u32 = 1 << 16;

/// vLLM's.
fn default_block_tokens() -> u32 {
    16
}

// === impl EngineSpec ===

impl EngineSpec {
    /// Checks every property's bounds; an error names the property, and whoever read it knows where it stands.
    pub(in crate::sim) fn validate(&self) -> anyhow::Result<()> {
        match *self {
            Self::Slots { slots, prefill_tps, decode_tps, kv_tokens, block_tokens } => {
                within("slots", slots.into(), 1.0, SLOTS_MAX.into())?;
                within("prefill_tps", prefill_tps, TPS_MIN, TPS_MAX)?;
                within("decode_tps", decode_tps, TPS_MIN, TPS_MAX)?;
                memory(kv_tokens, block_tokens)
            }
            Self::Batching {
                slots,
                batched_tokens,
                kv_tokens,
                block_tokens,
                step_ms,
                prefill_us_per_token,
                decode_us_per_request,
                context_us_per_1k_tokens,
            } => {
                within("slots", slots.into(), 1.0, SLOTS_MAX.into())?;
                within("batched_tokens", batched_tokens.into(), slots.into(), BATCHED_TOKENS_MAX.into())
                    .context("a step has a token for each slot")?;
                within("step_ms", step_ms, STEP_MS_MIN, STEP_MS_MAX)?;
                within("prefill_us_per_token", prefill_us_per_token, 0.0, STEP_US_MAX)?;
                within("decode_us_per_request", decode_us_per_request, 0.0, STEP_US_MAX)?;
                within("context_us_per_1k_tokens", context_us_per_1k_tokens, 0.0, STEP_US_MAX)?;
                memory(kv_tokens, block_tokens)
            }
        }
    }

    /// An engine with nothing to do, at nominal speed.
    pub(in crate::sim) fn build(&self) -> Engine {
        let kind = match *self {
            Self::Slots { slots, prefill_tps, decode_tps, kv_tokens, block_tokens } => {
                let cache = KvCache::new(kv_tokens, block_tokens);
                Kind::Slots(SlotEngine::new(slots as usize, prefill_tps, decode_tps, cache))
            }
            Self::Batching {
                slots,
                batched_tokens,
                kv_tokens,
                block_tokens,
                step_ms,
                prefill_us_per_token,
                decode_us_per_request,
                context_us_per_1k_tokens,
            } => {
                let costs = Costs {
                    step: Picos::from_seconds(step_ms / 1e3),
                    prefill_token: Picos::from_seconds(prefill_us_per_token / 1e6),
                    decode: Picos::from_seconds(decode_us_per_request / 1e6),
                    context_token: Picos::from_seconds(context_us_per_1k_tokens / 1e9),
                };
                let cache = KvCache::new(kv_tokens, block_tokens);
                Kind::Batching(BatchingEngine::new(slots as usize, batched_tokens, costs, cache))
            }
        };
        Engine { clock: Clock::new(), now: Duration::ZERO, kind }
    }

    /// The prefill throughput that it would report, in input tokens/s: with nothing else to do.
    pub(in crate::sim) fn reported_input_tps(&self) -> f64 {
        match *self {
            Self::Slots { prefill_tps, .. } => prefill_tps,
            Self::Batching { batched_tokens, step_ms, prefill_us_per_token, .. } => {
                let tokens = f64::from(batched_tokens);
                tokens / (step_ms / 1e3 + tokens * prefill_us_per_token / 1e6)
            }
        }
    }
}

fn memory(kv_tokens: u64, block_tokens: u32) -> anyhow::Result<()> {
    within("block_tokens", block_tokens.into(), 1.0, BLOCK_TOKENS_MAX.into())?;
    if kv_tokens == 0 {
        return Ok(());
    }
    within("kv_tokens", kv_tokens as f64, block_tokens.into(), KV_TOKENS_MAX.into())
        .context("without a limit it is 0")
}

fn within(property: &str, value: f64, min: f64, max: f64) -> anyhow::Result<()> {
    anyhow::ensure!((min..=max).contains(&value), "{property} = {value}: must be from {min} to {max}");
    Ok(())
}
