//! `[routing]`: how a cluster is chosen, for all models and for one.
//!
//! A model's section takes over from `[routing]` what it does not say itself; parameters of an algorithm are
//! taken over only when it is the same algorithm. A parameter that the algorithm does not use is an error,
//! since it would be ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use stargate_routing as routing;

use super::{Violation, ranged::Whole};
use crate::names::ModelName;

/// Most leading messages that can make an affinity key: beyond this a key is as good as unique.
const LEADING_MESSAGES_MAX: u64 = 64;

/// `[routing]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Routing {
    /// How a cluster is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<AlgorithmName>,
    /// power-of-n: how many clusters are sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_count: Option<SampleCount>,
    /// power-of-n, and pulsar for requests without a key: who wins among sampled clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparator: Option<Comparator>,
    /// pulsar: another seed is another ranking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// pulsar: what a cluster's share of keys is proportional to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendezvous_weight: Option<RendezvousWeight>,
    /// pulsar: walk past clusters without enough free KV tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consider_kv_free_tokens: Option<bool>,
    /// How many leading messages make the affinity key of a request that brings none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity_from_leading_messages: Option<LeadingMessages>,
    /// The same for one model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<ModelName, ModelRouting>,
}

/// `[routing.models."…"]`: the keys of `[routing]`, for one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelRouting {
    /// See [`Routing::algorithm`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<AlgorithmName>,
    /// See [`Routing::sample_count`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_count: Option<SampleCount>,
    /// See [`Routing::comparator`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparator: Option<Comparator>,
    /// See [`Routing::seed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// See [`Routing::rendezvous_weight`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendezvous_weight: Option<RendezvousWeight>,
    /// See [`Routing::consider_kv_free_tokens`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consider_kv_free_tokens: Option<bool>,
    /// See [`Routing::affinity_from_leading_messages`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity_from_leading_messages: Option<LeadingMessages>,
}

/// A sample size.
pub(super) type SampleCount = Whole<1, { routing::SampleCount::MAX as u64 }>;
/// A ranking seed; TOML has no integers above this.
pub(super) type Seed = Whole<0, { i64::MAX as u64 }>;
/// A number of leading messages; 0 turns the derivation off.
pub(super) type LeadingMessages = Whole<0, LEADING_MESSAGES_MAX>;

/// Name of an algorithm. Case is ignored, `_` reads as `-`, and the aliases of the field are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlgorithmName {
    /// `power-of-n`, also `powerOfN`, `powerOf2`, `power-of-two`.
    #[default]
    PowerOfN,
    /// `round-robin`.
    RoundRobin,
    /// `random`.
    Random,
    /// `pulsar`.
    Pulsar,
}

/// Who wins among sampled clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "named as in the decision core, which documents them")]
pub enum Comparator {
    Ttft,
    TtftBacklog,
    QueueTime,
    InputWorkSeconds,
    Utilization,
    NumRequestsQueued,
}

/// What a cluster's share of keys is proportional to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "named as in the decision core, which documents them")]
pub enum RendezvousWeight {
    MaxInputTps,
    LastMeanInputTps,
}

// === impl Routing ===

impl Routing {
    /// What holds for `model`.
    pub fn policy(&self, model: &str) -> routing::Policy {
        match self.models.get(model) {
            None => self.as_model().policy(),
            Some(own) => own.over(&self.as_model()).policy(),
        }
    }

    /// The first parameter that would be ignored, if any.
    pub(super) fn validate(&self) -> Result<(), Violation> {
        self.as_model().validate("routing", self.algorithm.unwrap_or_default())?;
        for (model, own) in &self.models {
            let algorithm = own.algorithm.or(self.algorithm).unwrap_or_default();
            own.validate(&format!("routing.models.{model:?}", model = model.as_str()), algorithm)?;
        }
        Ok(())
    }

    fn as_model(&self) -> ModelRouting {
        ModelRouting {
            algorithm: self.algorithm,
            sample_count: self.sample_count,
            comparator: self.comparator,
            seed: self.seed,
            rendezvous_weight: self.rendezvous_weight,
            consider_kv_free_tokens: self.consider_kv_free_tokens,
            affinity_from_leading_messages: self.affinity_from_leading_messages,
        }
    }
}

// === impl ModelRouting ===

impl ModelRouting {
    fn over(&self, general: &Self) -> Self {
        let same = self.algorithm.is_none()
            || self.algorithm.unwrap_or_default() == general.algorithm.unwrap_or_default();
        let inherited = if same { general.clone() } else { Self::default() };
        Self {
            algorithm: self.algorithm.or(general.algorithm),
            sample_count: self.sample_count.or(inherited.sample_count),
            comparator: self.comparator.or(inherited.comparator),
            seed: self.seed.or(inherited.seed),
            rendezvous_weight: self.rendezvous_weight.or(inherited.rendezvous_weight),
            consider_kv_free_tokens: self.consider_kv_free_tokens.or(inherited.consider_kv_free_tokens),
            affinity_from_leading_messages: self
                .affinity_from_leading_messages
                .or(general.affinity_from_leading_messages),
        }
    }

    fn policy(&self) -> routing::Policy {
        let comparator = self.comparator.map_or_else(Default::default, Comparator::into);
        let algorithm = match self.algorithm.unwrap_or_default() {
            AlgorithmName::PowerOfN => routing::Algorithm::PowerOfN(routing::PowerOfNParameters {
                sample_count: self
                    .sample_count
                    .and_then(|count| routing::SampleCount::new(count.get()))
                    .unwrap_or_default(),
                comparator,
            }),
            AlgorithmName::RoundRobin => routing::Algorithm::RoundRobin,
            AlgorithmName::Random => routing::Algorithm::Random,
            AlgorithmName::Pulsar => routing::Algorithm::Pulsar(routing::PulsarParameters {
                seed: self
                    .seed
                    .map_or_else(Default::default, |seed| routing::Seed::new(&seed.get().to_string())),
                weight: self.rendezvous_weight.map_or_else(Default::default, RendezvousWeight::into),
                consider_kv_free_tokens: self.consider_kv_free_tokens.unwrap_or(false),
                comparator,
            }),
        };
        routing::Policy {
            method: routing::Method { algorithm, ..Default::default() },
            affinity_from_leading_messages: self
                .affinity_from_leading_messages
                .map_or(0, LeadingMessages::count),
            ..Default::default()
        }
    }

    fn validate(&self, section: &str, algorithm: AlgorithmName) -> Result<(), Violation> {
        use AlgorithmName::{PowerOfN, Pulsar};
        for (key, is_set, used_by, used_by_text) in [
            ("sample_count", self.sample_count.is_some(), &[PowerOfN][..], "power-of-n"),
            ("comparator", self.comparator.is_some(), &[PowerOfN, Pulsar], "power-of-n and pulsar"),
            ("seed", self.seed.is_some(), &[Pulsar], "pulsar"),
            ("rendezvous_weight", self.rendezvous_weight.is_some(), &[Pulsar], "pulsar"),
            ("consider_kv_free_tokens", self.consider_kv_free_tokens.is_some(), &[Pulsar], "pulsar"),
        ] {
            if is_set && !used_by.contains(&algorithm) {
                return Err(Violation {
                    key: format!("{section}.{key}"),
                    found: format!("it is set, but algorithm {} does not use it", algorithm.as_str()),
                    allowed: format!("only with {used_by_text}"),
                });
            }
        }
        Ok(())
    }
}

// === impl AlgorithmName ===

impl AlgorithmName {
    /// Its name in configuration, metrics and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PowerOfN => "power-of-n",
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::Pulsar => "pulsar",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().replace('_', "-").as_str() {
            "power-of-n" | "powerofn" | "powerof2" | "power-of-two" => Some(Self::PowerOfN),
            "round-robin" => Some(Self::RoundRobin),
            "random" => Some(Self::Random),
            "pulsar" => Some(Self::Pulsar),
            _ => None,
        }
    }
}

impl Serialize for AlgorithmName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for AlgorithmName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = AlgorithmName;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("one of `power-of-n`, `round-robin`, `random`, `pulsar`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<AlgorithmName, E> {
                AlgorithmName::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

impl From<Comparator> for routing::Comparator {
    fn from(value: Comparator) -> Self {
        match value {
            Comparator::Ttft => Self::Ttft,
            Comparator::TtftBacklog => Self::TtftBacklog,
            Comparator::QueueTime => Self::QueueTime,
            Comparator::InputWorkSeconds => Self::InputWorkSeconds,
            Comparator::Utilization => Self::Utilization,
            Comparator::NumRequestsQueued => Self::NumRequestsQueued,
        }
    }
}

impl From<routing::Comparator> for Comparator {
    fn from(value: routing::Comparator) -> Self {
        match value {
            routing::Comparator::Ttft => Self::Ttft,
            routing::Comparator::TtftBacklog => Self::TtftBacklog,
            routing::Comparator::QueueTime => Self::QueueTime,
            routing::Comparator::InputWorkSeconds => Self::InputWorkSeconds,
            routing::Comparator::Utilization => Self::Utilization,
            routing::Comparator::NumRequestsQueued => Self::NumRequestsQueued,
        }
    }
}

impl From<RendezvousWeight> for routing::RendezvousWeight {
    fn from(value: RendezvousWeight) -> Self {
        match value {
            RendezvousWeight::MaxInputTps => Self::MaxInputTps,
            RendezvousWeight::LastMeanInputTps => Self::LastMeanInputTps,
        }
    }
}

impl From<routing::RendezvousWeight> for RendezvousWeight {
    fn from(value: routing::RendezvousWeight) -> Self {
        match value {
            routing::RendezvousWeight::MaxInputTps => Self::MaxInputTps,
            routing::RendezvousWeight::LastMeanInputTps => Self::LastMeanInputTps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Routing {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_model_takes_over_what_it_does_not_say() {
        let routing = parse(
            "algorithm = 'pulsar'\nseed = 7\naffinity_from_leading_messages = 1\n\
             [models.m]\nconsider_kv_free_tokens = true\n[models.r]\nalgorithm = 'ROUND_ROBIN'",
        );
        routing.validate().unwrap();
        let routing::Algorithm::Pulsar(parameters) = routing.policy("m").method.algorithm else { panic!() };
        assert_eq!((parameters.seed.as_str(), parameters.consider_kv_free_tokens), ("7", true));
        let other = routing.policy("r");
        assert_eq!(other.method.algorithm, routing::Algorithm::RoundRobin);
        assert_eq!(other.affinity_from_leading_messages, 1);
    }

    #[test]
    fn a_parameter_that_would_be_ignored_is_an_error() {
        let violation = parse("algorithm = 'random'\nsample_count = 3").validate().unwrap_err();
        assert_eq!(violation.key, "routing.sample_count");
        let violation = parse("[models.\"a.b\"]\nseed = 3").validate().unwrap_err();
        assert_eq!(violation.key, "routing.models.\"a.b\".seed");
        assert!(violation.found.contains("power-of-n"), "{violation:?}");
    }

    #[test]
    fn aliases_are_read() {
        for alias in ["powerOfN", "powerOf2", "power-of-two", "POWER_OF_N"] {
            assert_eq!(AlgorithmName::parse(alias), Some(AlgorithmName::PowerOfN), "{alias}");
        }
        assert_eq!(AlgorithmName::parse("best"), None);
    }
}
