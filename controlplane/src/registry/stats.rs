//! What an engine reports of one model, as it comes in over REST.
//!
//! Checked while it is read: a number that is not finite, negative or absurd, or a field that is not known, is
//! an error with its path, since a router that believes a nonsensical load sends everything to one engine.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, Serialize, de};

use super::{
    attempts::Attempts,
    bounded_map::{bounded_map, key},
};
use crate::ranged::Whole;

/// Requests in one engine or fleet.
pub type Requests = Whole<0, 1_000_000_000>;
/// Tokens in one engine or fleet.
pub type TokenCount = Whole<0, 1_000_000_000_000_000>;
/// Milliseconds since the Unix epoch, up to what a double holds exactly (the year 287 396).
pub type UnixMillis = Whole<0, 9_007_199_254_740_992>;

/// Highest rate that is believed, in tokens per second.
const RATE_MAX: f64 = 1e12;
/// Longest queue time that is believed: one day.
const ESTIMATE_MS_MAX: f64 = 86_400_000.0;
/// Most priorities with an estimate, and most sources and capabilities.
const ENTRIES_MAX: usize = 64;
/// The capability of a publisher that reports every change.
const CHANGE_DRIVEN: &str = "change-driven";
/// Longest source or capability, in bytes.
const LABEL_BYTES_MAX: usize = 128;

/// Stats of one model of one backend; all optional. A throughput of 0 counts as not reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "named in docs/api.md, and told at `stargate_routing::ClusterStats`")]
pub struct ModelStats {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_mean_input_tps: Option<Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_input_tps: Option<Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tps: Option<Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tps: Option<Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_size: Option<Requests>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_input_size: Option<TokenCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_processing_queries: Option<Requests>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_generation_queries: Option<Requests>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_running_queries: Option<Requests>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_engine_concurrency: Option<Requests>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_query_input_size: Option<TokenCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_time_estimate_ms_by_priority: Option<QueueTimeEstimates>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_capacity_tokens: Option<TokenCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_used_tokens: Option<TokenCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_free_tokens: Option<TokenCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats_observed_at_unix_ms: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats_sources: Option<Labels>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats_capabilities: Option<Labels>,
    /// The attempts that these stats include; absent where the publisher does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Attempts>,
}

/// What is known of how far a publisher's stats follow what is sent to it, the most exact first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reporting {
    /// Its reports say which attempts they include.
    HandsOver,
    /// It reports every change.
    ChangeDriven,
    /// It says neither: what was sent may show in its next report, or in the one after.
    Polled,
}

/// A finite number of tokens per second, from 0 to 1e12.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Rate(f64);

/// Estimated queue time by priority, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct QueueTimeEstimates(BTreeMap<u32, f64>);

/// Names of sources or capabilities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Labels(Vec<String>);

// === impl ModelStats ===

impl ModelStats {
    /// How far they follow what is sent to their publisher.
    pub fn reporting(&self) -> Reporting {
        let has =
            |capability| self.stats_capabilities.as_ref().is_some_and(|labels| labels.contain(capability));
        if self.attempts.is_some() {
            Reporting::HandsOver
        } else if has(CHANGE_DRIVEN) {
            Reporting::ChangeDriven
        } else {
            Reporting::Polled
        }
    }

    /// Takes the attempts for those of another registration: of this one they include none.
    pub(super) fn disown_attempts(&mut self) {
        self.attempts = self.attempts.is_some().then(Attempts::default);
    }

    /// Takes over from `former` what is sticky and absent here.
    pub(super) fn keep_sticky(&mut self, former: &Self) {
        let reported = |own: Option<Rate>, former| own.filter(|rate| rate.get() > 0.0).or(former);
        self.last_mean_input_tps = reported(self.last_mean_input_tps, former.last_mean_input_tps);
        self.max_input_tps = reported(self.max_input_tps, former.max_input_tps);
    }
}

// === impl Rate ===

impl Rate {
    /// `None` when it is not finite, negative or absurd.
    pub fn new(tokens_per_second: f64) -> Option<Self> {
        (0.0..=RATE_MAX).contains(&tokens_per_second).then_some(Self(tokens_per_second))
    }

    /// Tokens per second.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bounded_number(deserializer, RATE_MAX, "a finite number from 0 to 1e12").map(Self)
    }
}

fn bounded_number<'de, D: Deserializer<'de>>(
    deserializer: D,
    max: f64,
    allowed: &'static str,
) -> Result<f64, D::Error> {
    struct Visitor {
        max: f64,
        allowed: &'static str,
    }
    impl de::Visitor<'_> for Visitor {
        type Value = f64;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.allowed)
        }
        fn visit_f64<E: de::Error>(self, value: f64) -> Result<f64, E> {
            // A negative zero is a zero: it must not divide into a negative infinity.
            if (0.0..=self.max).contains(&value) {
                Ok(value.abs())
            } else {
                Err(E::invalid_value(de::Unexpected::Float(value), &self))
            }
        }
        fn visit_u64<E: de::Error>(self, value: u64) -> Result<f64, E> {
            self.visit_f64(value as f64)
        }
        fn visit_i64<E: de::Error>(self, value: i64) -> Result<f64, E> {
            self.visit_f64(value as f64)
        }
    }
    deserializer.deserialize_f64(Visitor { max, allowed })
}

// === impl QueueTimeEstimates ===

impl QueueTimeEstimates {
    /// (priority, milliseconds), ordered by priority.
    pub fn iter(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.0.iter().map(|(priority, ms)| (*priority, *ms))
    }
}

impl<'de> Deserialize<'de> for QueueTimeEstimates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EstimateMs(f64);
        impl<'de> Deserialize<'de> for EstimateMs {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                bounded_number(deserializer, ESTIMATE_MS_MAX, "milliseconds from 0 to 86400000").map(Self)
            }
        }
        #[derive(PartialEq, Eq, PartialOrd, Ord)]
        struct Priority(u32);
        impl<'de> Deserialize<'de> for Priority {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                key(deserializer, "a priority from \"0\" to \"4294967295\"", |text| text.parse().ok())
                    .map(Self)
            }
        }
        let allowed = "priorities (\"0\" to \"4294967295\") with milliseconds";
        let estimates = bounded_map(deserializer, ENTRIES_MAX, allowed)?;
        let estimate = |(Priority(priority), EstimateMs(ms))| (priority, ms);
        Ok(Self(estimates.into_iter().map(estimate).collect()))
    }
}

// === impl Labels ===

impl Labels {
    /// Whether `label` is one of them.
    pub fn contain(&self, label: &str) -> bool {
        self.0.iter().any(|other| other == label)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Labels;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of up to {ENTRIES_MAX} strings of up to {LABEL_BYTES_MAX} bytes")
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Labels, A::Error> {
                let mut labels = Vec::new();
                while let Some(label) = items.next_element::<String>()? {
                    if label.len() > LABEL_BYTES_MAX || labels.len() == ENTRIES_MAX {
                        return Err(de::Error::invalid_length(label.len().max(labels.len() + 1), &self));
                    }
                    labels.push(label);
                }
                Ok(Labels(labels))
            }
        }
        deserializer.deserialize_seq(Visitor)
    }
}
