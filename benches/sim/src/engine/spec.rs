//! What kinds of engines there are, as scenarios describe them.

use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;

use super::{
    Engine, Kind,
    batching::{BatchingEngine, Costs},
    clock::{Clock, Picos},
    kv_cache::KvCache,
    room::Room,
    slots::SlotEngine,
};

/// An engine's properties, at nominal speed.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum EngineSpec {
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
    pub(crate) fn validate(&self) -> anyhow::Result<()> {
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
    pub(crate) fn build(&self) -> Engine {
        let kind = match *self {
            Self::Slots { slots, prefill_tps, decode_tps, kv_tokens, block_tokens } => {
                let room = Room::new(slots as usize, KvCache::new(kv_tokens, block_tokens));
                Kind::Slots(SlotEngine::new(room, prefill_tps, decode_tps))
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
                let room = Room::new(slots as usize, KvCache::new(kv_tokens, block_tokens));
                Kind::Batching(BatchingEngine::new(room, batched_tokens, costs))
            }
        };
        Engine { clock: Clock::new(), now: Duration::ZERO, kind }
    }

    /// The prefill throughput that it would report, in input tokens/s: with nothing else to do.
    pub(crate) fn reported_input_tps(&self) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(properties: &str) -> EngineSpec {
        serde_json::from_str(&format!("{{{properties}}}")).unwrap()
    }

    const SLOTS: &str = r#""kind": "slots", "slots": 25, "prefill_tps": 66610, "decode_tps": 128.6"#;
    const BATCHING: &str = r#""kind": "batching", "slots": 25, "batched_tokens": 2048, "step_ms": 10,
        "prefill_us_per_token": 15, "decode_us_per_request": 50"#;

    #[test]
    fn what_is_left_out_has_its_default() {
        let spec = EngineSpec::Slots {
            slots: 25,
            prefill_tps: 66_610.0,
            decode_tps: 128.6,
            kv_tokens: 0,
            block_tokens: 16,
        };
        assert_eq!(parse(SLOTS), spec);
        let EngineSpec::Batching { block_tokens, context_us_per_1k_tokens, .. } = parse(BATCHING) else {
            panic!("another kind")
        };
        assert_eq!((block_tokens, context_us_per_1k_tokens), (16, 0.0));
        let unknown = serde_json::from_str::<EngineSpec>(&format!("{{{SLOTS}, \"step_ms\": 1}}"));
        assert!(unknown.unwrap_err().to_string().contains("unknown field `step_ms`"));
    }

    #[test]
    fn what_it_reports_is_prefill_with_nothing_else_to_do() {
        assert!((parse(SLOTS).reported_input_tps() - 66_610.0).abs() < 1e-9);
        // 2048 tokens in 10 + 30.72 ms.
        assert!((parse(BATCHING).reported_input_tps() - 50_294.695_481).abs() < 1e-6);
    }

    #[test]
    fn an_error_names_what_is_out_of_its_bounds() {
        let error = |spec: &str, from: &str, to: &str| {
            assert!(parse(spec).validate().is_ok() && spec.contains(from));
            format!("{:#}", parse(&spec.replace(from, to)).validate().unwrap_err())
        };
        let slots = error(SLOTS, "\"slots\": 25", "\"slots\": 0");
        assert_eq!(slots, "slots = 0: must be from 1 to 4096");
        let pace = error(SLOTS, "128.6", "0.5");
        assert_eq!(pace, "decode_tps = 0.5: must be from 1 to 1000000000");
        let budget = error(BATCHING, "2048", "24");
        assert_eq!(
            budget,
            "a step has a token for each slot: batched_tokens = 24: must be from 25 to 1048576"
        );
        let step = error(BATCHING, "\"step_ms\": 10", "\"step_ms\": 0");
        assert_eq!(step, "step_ms = 0: must be from 0.001 to 10000");
        let memory = error(SLOTS, "128.6", "128.6, \"kv_tokens\": 15");
        assert_eq!(memory, "without a limit it is 0: kv_tokens = 15: must be from 16 to 4000000000");
    }
}
