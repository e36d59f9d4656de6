//! What kinds of engines there are, as scenarios describe them.

use anyhow::Context;
use serde::Deserialize;

use super::{Engine, Kind, clock::Clock, kv_cache::KvCache, slots::SlotEngine};

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
}

const SLOTS_MAX: u32 = 4_096;
/// Of prefill and decode.
const TPS_MIN: f64 = 1.0;
const TPS_MAX: f64 = 1e9;
const KV_TOKENS_MAX: u32 = 4_000_000_000;
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
        }
    }

    /// An engine with nothing to do, at nominal speed.
    pub(in crate::sim) fn build(&self) -> Engine {
        let kind = match *self {
            Self::Slots { slots, prefill_tps, decode_tps, kv_tokens, block_tokens } => {
                let cache = KvCache::new(kv_tokens, block_tokens);
                Kind::Slots(SlotEngine::new(slots as usize, prefill_tps, decode_tps, cache))
            }
        };
        Engine { clock: Clock::new(), kind }
    }

    /// The prefill throughput that it would report, in input tokens/s: with nothing else to do.
    pub(in crate::sim) fn reported_input_tps(&self) -> f64 {
        match *self {
            Self::Slots { prefill_tps, .. } => prefill_tps,
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
