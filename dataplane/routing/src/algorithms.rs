//! How a cluster is chosen: an algorithm with its parameters. Values are valid by construction.

pub(crate) mod power_of_n;
pub(crate) mod pulsar;
pub(crate) mod pulsar_wait_and_widen;
pub(crate) mod question;
pub(crate) mod random;
pub(crate) mod round_robin;
pub(crate) mod wait_and_widen;
pub(crate) mod workspace;

use self::{
    power_of_n::PowerOfNParameters, pulsar::PulsarParameters,
    pulsar_wait_and_widen::parameters::PulsarWaitAndWidenParameters, question::Question,
    wait_and_widen::parameters::WaitAndWidenParameters, workspace::Workspace,
};
use crate::{
    FieldError, RendezvousWeight, Scalar, Seed, Widening,
    fields::configured::Configured,
    names::names,
    selection::{
        choice::{Choice, NoChoice},
        trace::Trace,
    },
};

/// A routing algorithm with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Algorithm {
    /// Samples distinct eligible clusters uniformly; the comparator picks.
    PowerOfN(PowerOfNParameters),
    /// Eligible clusters in turn.
    RoundRobin,
    /// A uniformly random eligible cluster.
    Random,
    /// The first eligible cluster of the key's weighted rendezvous ranking.
    Pulsar(PulsarParameters),
    /// Buckets of time to first token that open with waiting, behind an affinity group.
    WaitAndWiden(WaitAndWidenParameters),
    /// Buckets that open with waiting over bands of the key's ranking, which do so too.
    PulsarWaitAndWiden(PulsarWaitAndWidenParameters),
}

/// Which algorithm, without its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as in Algorithm")]
pub enum AlgorithmKind {
    PowerOfN,
    RoundRobin,
    Random,
    Pulsar,
    WaitAndWiden,
    PulsarWaitAndWiden,
}

// === impl Algorithm ===

impl Algorithm {
    /// Which one it is.
    pub fn kind(&self) -> AlgorithmKind {
        match self {
            Self::PowerOfN(_) => AlgorithmKind::PowerOfN,
            Self::RoundRobin => AlgorithmKind::RoundRobin,
            Self::Random => AlgorithmKind::Random,
            Self::Pulsar(_) => AlgorithmKind::Pulsar,
            Self::WaitAndWiden(_) => AlgorithmKind::WaitAndWiden,
            Self::PulsarWaitAndWiden(_) => AlgorithmKind::PulsarWaitAndWiden,
        }
    }

    /// The seed and the weight that it ranks clusters by; `None` when it has no rendezvous ranking.
    pub fn ranked_by(&self) -> Option<(&Seed, RendezvousWeight)> {
        match self {
            Self::Pulsar(parameters) => Some((&parameters.seed, parameters.weight)),
            Self::PulsarWaitAndWiden(parameters) => Some((&parameters.widening.seed, parameters.weight)),
            Self::PowerOfN(_) | Self::RoundRobin | Self::Random | Self::WaitAndWiden(_) => None,
        }
    }

    /// Whether a cluster without enough reported free KV tokens cannot be selected for a request that it ranks for.
    pub fn considers_kv_free_tokens(&self) -> bool {
        match self {
            Self::Pulsar(parameters) => parameters.consider_kv_free_tokens,
            Self::PulsarWaitAndWiden(parameters) => parameters.consider_kv_free_tokens,
            Self::PowerOfN(_) | Self::RoundRobin | Self::Random | Self::WaitAndWiden(_) => false,
        }
    }

    /// What opens for it with waiting, and how; `None` when nothing does.
    pub fn widening(&self) -> Option<&Widening> {
        match self {
            Self::WaitAndWiden(parameters) => Some(&parameters.widening),
            Self::PulsarWaitAndWiden(parameters) => Some(&parameters.widening),
            Self::PowerOfN(_) | Self::RoundRobin | Self::Random | Self::Pulsar(_) => None,
        }
    }

    /// Itself, changed by `fields`; what is none of its own fields is given to `other`.
    pub(crate) fn overlay<'a>(
        &self,
        fields: impl IntoIterator<Item = (&'a str, Scalar<'a>)>,
        other: impl FnMut(&str, &Scalar<'_>) -> Result<(), FieldError>,
    ) -> Result<Self, FieldError> {
        match self {
            Self::PowerOfN(parameters) => parameters.overlay(fields, other).map(Self::PowerOfN),
            Self::RoundRobin => ().overlay(fields, other).map(|()| Self::RoundRobin),
            Self::Random => ().overlay(fields, other).map(|()| Self::Random),
            Self::Pulsar(parameters) => parameters.overlay(fields, other).map(Self::Pulsar),
            Self::WaitAndWiden(parameters) => parameters.overlay(fields, other).map(Self::WaitAndWiden),
            Self::PulsarWaitAndWiden(parameters) => {
                parameters.overlay(fields, other).map(Self::PulsarWaitAndWiden)
            }
        }
    }

    /// Every field of its parameters with its value; those that are not set are left out.
    pub(crate) fn fields(&self) -> Vec<(&'static str, Scalar<'static>)> {
        match self {
            Self::PowerOfN(parameters) => parameters.values(),
            Self::RoundRobin | Self::Random => ().values(),
            Self::Pulsar(parameters) => parameters.values(),
            Self::WaitAndWiden(parameters) => parameters.values(),
            Self::PulsarWaitAndWiden(parameters) => parameters.values(),
        }
    }

    /// Chooses a cluster.
    #[expect(
        clippy::inline_always,
        reason = "pulsar takes 80 ns as a call and 72 in place, others some less"
    )]
    #[inline(always)]
    pub(crate) fn choose(
        &self,
        question: &Question<'_>,
        work: &mut Workspace,
        trace: &mut impl Trace,
    ) -> Result<Choice, NoChoice> {
        match self {
            Self::PowerOfN(parameters) => power_of_n::choose(question, parameters, &mut work.rng, trace),
            Self::RoundRobin => round_robin::choose(question, trace),
            Self::Random => random::choose(question, &mut work.rng),
            Self::Pulsar(parameters) => pulsar::choose(question, parameters, work, trace),
            Self::WaitAndWiden(parameters) => wait_and_widen::choose(question, parameters, work, trace),
            Self::PulsarWaitAndWiden(parameters) => {
                pulsar_wait_and_widen::choose(question, parameters, work, trace)
            }
        }
    }
}

impl Default for Algorithm {
    fn default() -> Self {
        Self::PowerOfN(PowerOfNParameters::default())
    }
}

// === impl AlgorithmKind ===

names!(AlgorithmKind {
    PowerOfN = "power-of-n",
    RoundRobin = "round-robin",
    Random = "random",
    Pulsar = "pulsar",
    WaitAndWiden = "wait-and-widen",
    PulsarWaitAndWiden = "pulsar-wait-and-widen",
});

impl AlgorithmKind {
    /// Reads a name or one of the field's aliases. Case is ignored, `_` reads as `-`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase().replace('_', "-");
        let named = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        named.or(match text.as_str() {
            "powerofn" | "powerof2" | "power-of-two" => Some(Self::PowerOfN),
            "groq-multiregion" => Some(Self::WaitAndWiden),
            "pulsar-multiregion" => Some(Self::PulsarWaitAndWiden),
            _ => None,
        })
    }

    /// The names of its parameters' fields.
    pub(crate) fn field_names(self) -> Vec<&'static str> {
        match self {
            Self::PowerOfN => PowerOfNParameters::names(),
            Self::RoundRobin | Self::Random => <()>::names(),
            Self::Pulsar => PulsarParameters::names(),
            Self::WaitAndWiden => WaitAndWidenParameters::names(),
            Self::PulsarWaitAndWiden => PulsarWaitAndWidenParameters::names(),
        }
    }

    /// The algorithm with default parameters.
    pub fn with_defaults(self) -> Algorithm {
        match self {
            Self::PowerOfN => Algorithm::PowerOfN(PowerOfNParameters::default()),
            Self::RoundRobin => Algorithm::RoundRobin,
            Self::Random => Algorithm::Random,
            Self::Pulsar => Algorithm::Pulsar(PulsarParameters::default()),
            Self::WaitAndWiden => Algorithm::WaitAndWiden(WaitAndWidenParameters::default()),
            Self::PulsarWaitAndWiden => {
                Algorithm::PulsarWaitAndWiden(PulsarWaitAndWidenParameters::default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_are_read() {
        for kind in AlgorithmKind::ALL {
            assert_eq!(AlgorithmKind::parse(kind.as_str()), Some(kind));
            assert_eq!(AlgorithmKind::parse(&kind.as_str().to_uppercase().replace('-', "_")), Some(kind));
            assert_eq!(kind.with_defaults().kind(), kind);
        }
        for (alias, kind) in [
            ("powerOfN", AlgorithmKind::PowerOfN),
            ("powerOf2", AlgorithmKind::PowerOfN),
            ("power-of-two", AlgorithmKind::PowerOfN),
            ("groq_multiregion", AlgorithmKind::WaitAndWiden),
            ("pulsar-multiregion", AlgorithmKind::PulsarWaitAndWiden),
        ] {
            assert_eq!(AlgorithmKind::parse(alias), Some(kind), "{alias}");
        }
        assert_eq!(AlgorithmKind::parse("best"), None);
    }
}
