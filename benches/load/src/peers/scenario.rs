//! What is measured, and how much of it.

use std::fmt;

use serde::Serialize;

use super::stage::EngineOptions;
use crate::generator::positive;

/// Descriptors that a proxy needs besides its streams.
const OTHER_DESCRIPTORS: u64 = 500;

/// Which scenarios to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Which {
    /// JSON requests of 1 KB: cost in a closed loop, latency in an open one.
    Json,
    /// SSE streams at a steady rate.
    Sse,
    /// As many SSE streams at once as descriptors allow: memory.
    Streams,
    /// Long prompts.
    Prompts,
    /// Many backends.
    Backends,
}

/// One scenario: each has its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    Json,
    Sse,
    Streams,
    Prompts { body_bytes: usize },
    Backends { count: usize },
}

/// Sizes of the load.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub(super) struct Sizes {
    /// Addresses that the engines listen on, but for the backends scenario.
    #[arg(long, default_value_t = 4, value_parser = count(64))]
    pub(super) upstreams: usize,
    /// Connections of the JSON and backends scenarios.
    #[arg(long, default_value_t = 64, value_parser = count(4096))]
    pub(super) connections: usize,
    /// Requests of a closed loop.
    #[arg(long, default_value_t = 150_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(super) requests: u64,
    /// A closed loop that has not done its requests after this time ends.
    #[arg(long, default_value_t = 4.0, value_parser = positive)]
    pub(super) turn_seconds: f64,
    /// Mean bytes of a request's body, but for the prompts scenario.
    #[arg(long, default_value_t = 1024)]
    pub(super) body_bytes: usize,
    /// Requests a second of a round's open loop, where latency is measured.
    #[arg(long, default_value_t = 2000.0, value_parser = positive)]
    pub(super) open_rate: f64,
    /// Seconds of a round's open loop.
    #[arg(long, default_value_t = 4.0, value_parser = positive)]
    pub(super) open_seconds: f64,
    /// Concurrent streams of the SSE scenario.
    #[arg(long, default_value_t = 200, value_parser = count(4096))]
    pub(super) sse_streams: usize,
    /// Chunks a second of each.
    #[arg(long, default_value_t = 50.0, value_parser = positive)]
    pub(super) chunks_per_s: f64,
    /// Seconds that they last.
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    pub(super) stream_seconds: f64,
    /// Variation of the engines' token intervals, as a fraction: without it all streams step together, in bursts.
    #[arg(long, default_value_t = 0.3, value_parser = fraction)]
    pub(super) jitter: f64,
    /// Concurrent streams of the streams scenario. A proxy needs two descriptors for each.
    #[arg(long, default_value_t = 9500, value_parser = count(1_000_000))]
    pub(super) open_streams: usize,
    /// Of these, opened a second, at most.
    #[arg(long, default_value_t = 2000.0, value_parser = positive)]
    pub(super) ramp: f64,
    /// Those that have not been opened after this time never are.
    #[arg(long, default_value_t = 20.0, value_parser = positive)]
    pub(super) opening_seconds: f64,
    /// Chunks a second of each of them.
    #[arg(long, default_value_t = 0.5, value_parser = positive)]
    pub(super) open_chunks_per_s: f64,
    /// Mean bytes of the prompts scenario's bodies, one table each.
    #[arg(long, value_delimiter = ',', default_values_t = [220_000, 1_000_000], value_parser = count(32 << 20))]
    pub(super) prompt_bytes: Vec<usize>,
    /// Connections of the prompts scenario.
    #[arg(long, default_value_t = 16, value_parser = count(4096))]
    pub(super) prompt_connections: usize,
    /// Numbers of backends, one table each.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000], value_parser = count(4096))]
    pub(super) backends: Vec<usize>,
}

// === impl Sizes ===

impl Sizes {
    /// Keeps the streams that are open at once to what a proxy may hold with so many descriptors.
    pub(super) fn fit_descriptors(&mut self, descriptors: u64) {
        let streams =
            usize::try_from(descriptors.saturating_sub(OTHER_DESCRIPTORS) / 2).unwrap_or(usize::MAX).max(1);
        if self.open_streams > streams {
            eprintln!("{streams} streams instead of {}: {descriptors} descriptors", self.open_streams);
            self.open_streams = streams;
        }
    }
}

// === impl Which ===

impl Which {
    /// The scenarios that it stands for.
    pub(super) fn scenarios(self, sizes: &Sizes) -> Vec<Scenario> {
        match self {
            Self::Json => vec![Scenario::Json],
            Self::Sse => vec![Scenario::Sse],
            Self::Streams => vec![Scenario::Streams],
            Self::Prompts => {
                sizes.prompt_bytes.iter().map(|&body_bytes| Scenario::Prompts { body_bytes }).collect()
            }
            Self::Backends => sizes.backends.iter().map(|&count| Scenario::Backends { count }).collect(),
        }
    }
}

// === impl Scenario ===

impl Scenario {
    /// The engines that it needs.
    pub(super) fn engines(self, sizes: &Sizes) -> EngineOptions {
        let (addresses, decode_tps) = match self {
            Self::Json | Self::Prompts { .. } => (sizes.upstreams, 0.0),
            Self::Sse => (sizes.upstreams, sizes.chunks_per_s),
            Self::Streams => (sizes.upstreams, sizes.open_chunks_per_s),
            Self::Backends { count } => (count, 0.0),
        };
        EngineOptions { addresses, decode_tps, jitter: sizes.jitter }
    }

    /// Whether each turn has a contestant of its own, alone on its CPU: where memory is what counts, what former
    /// turns left behind must not, and a thousand backends give those that wait a lot to do.
    pub(super) fn starts_anew(self) -> bool {
        matches!(self, Self::Streams | Self::Backends { .. })
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json => out.write_str("json"),
            Self::Sse => out.write_str("sse"),
            Self::Streams => out.write_str("streams"),
            Self::Prompts { body_bytes } => write!(out, "prompts of {body_bytes} bytes"),
            Self::Backends { count } => write!(out, "{count} backends"),
        }
    }
}

impl Serialize for Scenario {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Parses a number from 1 to `max`.
fn count(max: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| {
        text.parse()
            .ok()
            .filter(|number| (1..=max).contains(number))
            .ok_or_else(|| format!("not within 1..={max}"))
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number| (0.0..=1.0).contains(number))
        .ok_or_else(|| "not within 0..=1".to_owned())
}
