//! Who asks for what, and when.

use anyhow::ensure;
use serde::Deserialize;

use super::Network;

/// The clients of a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clients {
    /// Where they are; without it they are in every region alike.
    pub(crate) region: Option<String>,
    pub(crate) arrivals: Arrivals,
    /// Sessions that are alive at a time. A request without a session of its own makes a new one ("distinct").
    pub(crate) sessions: u32,
    #[serde(default)]
    pub(crate) popularity: Popularity,
    /// For a while a few sessions take more than their share.
    pub(crate) hot: Option<HotSet>,
    /// Prompt tokens of a request; of its first one where prompts grow.
    pub(crate) prompt_tokens: Size,
    /// Share of a prompt that the session's other requests begin with as well; where prompts grow all of it is.
    #[serde(default)]
    pub(crate) shared: f64,
    /// Leading tokens that sessions of one group have in common, part of `prompt_tokens`.
    #[serde(default)]
    pub(crate) group_tokens: u32,
    /// Groups of sessions.
    #[serde(default = "one")]
    pub(crate) groups: u32,
    /// Prompts grow from turn to turn.
    pub(crate) growth: Option<Growth>,
    pub(crate) output_tokens: Size,
    /// Time to the first token that clients want, and send as `x-request-slo-ms`.
    pub(crate) slo_ms: f64,
    /// Clients give up on a request after this time.
    pub(crate) timeout_ms: f64,
    /// How often a client sends a request again that was refused or timed out, a second later.
    #[serde(default)]
    pub(crate) retries: u32,
}

/// When requests come: exactly one of the fields says so.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arrivals {
    /// Requests a second at random (Poisson).
    pub(crate) rate: Option<f64>,
    /// Requests a second at random, as a share of what the engines do with every shared prefix cached.
    pub(crate) load: Option<f64>,
    /// Such shares, each from its time on.
    #[serde(default)]
    pub(crate) stages: Vec<Stage>,
    /// So many clients that send the next request when the last one has ended.
    pub(crate) workers: Option<u32>,
    /// CSV of `at_s,session,prompt_tokens,output_tokens`, ordered by time: a trace.
    pub(crate) trace: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stage {
    pub(crate) from_s: f64,
    pub(crate) load: f64,
}

/// Which session a request is of.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Popularity {
    #[default]
    Uniform,
    /// The i-th of them with a probability proportional to 1 / i^s.
    Zipf(f64),
    /// Every request is a session of its own.
    Distinct,
}

/// A few sessions that take a share of all requests for a while.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HotSet {
    pub(crate) from_s: f64,
    pub(crate) until_s: f64,
    pub(crate) sessions: u32,
    pub(crate) share: f64,
}

/// How a session's prompts grow.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Growth {
    /// Tokens that the client adds each turn, besides the last answer.
    pub(crate) turn_tokens: u32,
    /// A session ends, and another begins, when its prompt would be longer.
    pub(crate) prompt_tokens_max: u32,
}

/// A number of tokens.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Size {
    Fixed(u32),
    /// Lognormal of this median, with a bound.
    Lognormal {
        median: u32,
        sigma: f64,
        max: u32,
    },
}

fn one() -> u32 {
    1
}

// === impl Clients ===

impl Clients {
    pub(super) fn validate(&self, network: &Network) -> anyhow::Result<()> {
        if let Some(region) = &self.region {
            ensure!(
                network.regions.contains(region),
                "region: found {region:?}, allowed: {}",
                network.regions.join(", ")
            );
        }
        let Arrivals { rate, load, stages, workers, trace } = &self.arrivals;
        let given = [rate.is_some(), load.is_some(), !stages.is_empty(), workers.is_some(), trace.is_some()];
        ensure!(
            given.iter().filter(|is_given| **is_given).count() == 1,
            "arrivals: allowed: exactly one of rate, load, stages, workers and trace"
        );
        let rates = rate.iter().chain(load).copied().chain(stages.iter().map(|stage| stage.load));
        for rate in rates {
            ensure!((0.0..=1e6).contains(&rate), "arrivals: found {rate}, allowed: 0 to 1000000");
        }
        ensure!(
            stages.is_sorted_by(|a, b| a.from_s < b.from_s),
            "arrivals.stages: allowed: ordered by from_s"
        );
        ensure!(
            (1..=1 << 24).contains(&self.sessions),
            "sessions: found {}, allowed: 1 to 16777216",
            self.sessions
        );
        ensure!((0.0..=1.0).contains(&self.shared), "shared: found {}, allowed: 0 to 1", self.shared);
        ensure!(self.groups >= 1, "groups: found 0, allowed: at least 1");
        ensure!(self.slo_ms > 0.0 && self.timeout_ms > 0.0, "slo_ms and timeout_ms: allowed: above 0");
        for (name, size) in [("prompt_tokens", self.prompt_tokens), ("output_tokens", self.output_tokens)] {
            ensure!(
                size.is_valid(),
                "{name}: found {size:?}, allowed: 1 to 1000000 tokens, sigma from 0 to 4"
            );
        }
        if let Popularity::Zipf(exponent) = self.popularity {
            ensure!((0.0..=4.0).contains(&exponent), "popularity.zipf: found {exponent}, allowed: 0 to 4");
        }
        if let Some(hot) = self.hot {
            ensure!(
                (0.0..=1.0).contains(&hot.share) && (1..=self.sessions).contains(&hot.sessions),
                "hot: allowed: a share from 0 to 1, and 1 to {} sessions",
                self.sessions
            );
        }
        Ok(())
    }
}

// === impl Size ===

impl Size {
    const TOKENS_MAX: u32 = 1_000_000;

    fn is_valid(self) -> bool {
        match self {
            Self::Fixed(tokens) => (1..=Self::TOKENS_MAX).contains(&tokens),
            Self::Lognormal { median, sigma, max } => {
                (1..=max).contains(&median) && max <= Self::TOKENS_MAX && (0.0..=4.0).contains(&sigma)
            }
        }
    }

    pub(crate) fn draw(self, rng: &mut fastrand::Rng) -> u32 {
        match self {
            Self::Fixed(tokens) => tokens,
            Self::Lognormal { median, sigma, max } => {
                // Box and Muller's way from two uniform numbers to a normal one.
                let normal =
                    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
                ((f64::from(median) * (sigma * normal).exp()) as u32).clamp(1, max)
            }
        }
    }
}
