//! What a backend's traffic shows of its prefill throughput, for backends that report none.
//!
//! Every complete response gives a sample: input tokens over the time to its first byte. Both are summed with
//! a decay and divided, so that long prompts, which say most, weigh most, and a few tiny ones (all overhead)
//! do not. Time to first byte also holds queueing, the network and, for answers that are not streamed, the
//! whole generation: the estimate errs low, alike for all backends of a target, and so still compares them.
//! It is forgotten after a while without samples: one that came out too low would otherwise keep the traffic
//! away that could correct it.

use std::time::Duration;

use stargate_routing::Tokens;
use tokio::time::Instant;

/// Share of what is remembered that each sample replaces.
const DECAY: f64 = 1.0 / 16.0;
/// Samples before an estimate counts: an engine's first answers are its slowest (kernels compile, caches are
/// cold), and an estimate that is too low would keep further samples away.
const SAMPLES_MIN: u32 = 4;
/// An estimate is good for this long after its last sample; then the backend counts as unknown again, and so as
/// fast as the fastest, and is tried. Long against the pauses of a backend that is in use, short against an
/// operator's patience.
const LIFE: Duration = Duration::from_secs(30);
/// Routing sees steps of a fourth of a doubling: about what an estimate is worth, and backends that are alike
/// mostly tie instead of the one that measured 1 % faster getting every request.
const STEPS_PER_DOUBLING: f64 = 4.0;
/// How far the estimate must move from the step that it is on, in steps: more than half of one, so that it does
/// not swing between two.
const CHANGE_MIN: f64 = 0.75;
/// Bounds of what is believed, in tokens per second.
const TPS_RANGE: std::ops::RangeInclusive<f64> = 1e-3..=1e9;

/// What routing takes for the throughput of a backend that nobody knows anything of, when nothing of its
/// target is known either: about what one accelerator of today prefills of an 8B model. It only has to be
/// finite and the same for all.
pub const ASSUMED_INPUT_TPS: f64 = 10_000.0;

/// One complete response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Input tokens of the request.
    pub input: Tokens,
    /// From sending it to the response's head.
    pub first_byte: Duration,
}

/// A smoothed estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThroughputEstimate {
    tokens: f64,
    seconds: f64,
    samples: u32,
    published: Option<f64>,
    last_sample: Option<Instant>,
}

// === impl ThroughputEstimate ===

impl ThroughputEstimate {
    /// Takes a sample. True when what is published changed.
    pub fn add(&mut self, sample: Sample, now: Instant) -> bool {
        let seconds = sample.first_byte.as_secs_f64();
        if sample.input.0 == 0 || seconds <= 0.0 {
            return false;
        }
        self.last_sample = Some(now);
        self.tokens += sample.input.0 as f64 - self.tokens * DECAY;
        self.seconds += seconds - self.seconds * DECAY;
        self.samples = self.samples.saturating_add(1);
        if self.samples < SAMPLES_MIN {
            return false;
        }
        let now = (self.tokens / self.seconds).clamp(*TPS_RANGE.start(), *TPS_RANGE.end());
        let step = now.log2() * STEPS_PER_DOUBLING;
        let is_near = |published: f64| (step - published.log2() * STEPS_PER_DOUBLING).abs() < CHANGE_MIN;
        if self.published.is_some_and(is_near) {
            return false;
        }
        self.published = Some((step.round() / STEPS_PER_DOUBLING).exp2());
        true
    }

    /// Forgets what is too old. True when that changes what is published.
    pub fn expire(&mut self, now: Instant) -> bool {
        if self.last_sample.is_none_or(|last| now.saturating_duration_since(last) < LIFE) {
            return false;
        }
        let was_published = self.published.is_some();
        *self = Self::default();
        was_published
    }

    /// Tokens per second as routing knows it; `None` until there are enough samples.
    pub fn published(&self) -> Option<f64> {
        self.published
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(tokens: u64, ms: u64) -> Sample {
        Sample { input: Tokens(tokens), first_byte: Duration::from_millis(ms) }
    }

    #[test]
    fn a_constant_rate_is_learned_after_enough_samples() {
        let (mut estimate, now) = (ThroughputEstimate::default(), Instant::now());
        for _ in 1..SAMPLES_MIN {
            assert!(!estimate.add(sample(1000, 100), now));
            assert_eq!(estimate.published(), None);
        }
        assert!(estimate.add(sample(1000, 100), now));
        let step = 2f64.powf(13.25);
        assert!((estimate.published().unwrap() - step).abs() < 1e-6, "the nearest step to 10 000");
        assert!(!estimate.add(sample(1000, 100), now), "nothing new");
    }

    #[test]
    fn it_follows_a_change_and_long_prompts_weigh_most() {
        let (mut estimate, now) = (ThroughputEstimate::default(), Instant::now());
        for _ in 0..200 {
            estimate.add(sample(10_000, 1000), now);
            estimate.add(sample(1, 50), now);
        }
        let mixed = estimate.published().unwrap();
        assert!((8_000.0..12_000.0).contains(&mixed), "{mixed}");
        for _ in 0..200 {
            estimate.add(sample(10_000, 2000), now);
        }
        let slower = estimate.published().unwrap();
        assert!((4_000.0..6_000.0).contains(&slower), "{slower}");
    }

    #[test]
    fn backends_that_are_alike_mostly_tie() {
        let published = |ms| {
            let mut estimate = ThroughputEstimate::default();
            for _ in 0..SAMPLES_MIN {
                estimate.add(sample(1000, ms), Instant::now());
            }
            estimate.published()
        };
        assert_eq!(published(100), published(104));
        assert_ne!(published(100), published(130));
    }

    #[test]
    fn samples_that_say_nothing_are_ignored() {
        let (mut estimate, now) = (ThroughputEstimate::default(), Instant::now());
        for _ in 0..10 {
            assert!(!estimate.add(sample(0, 100), now));
            assert!(!estimate.add(sample(100, 0), now));
        }
        assert_eq!(estimate, ThroughputEstimate::default());
    }

    #[test]
    fn an_estimate_without_samples_is_forgotten_and_learned_anew() {
        let (mut estimate, start) = (ThroughputEstimate::default(), Instant::now());
        for _ in 0..SAMPLES_MIN {
            estimate.add(sample(1000, 10_000), start);
        }
        assert!(estimate.published().unwrap() < 200.0);
        assert!(!estimate.expire(start + LIFE - Duration::from_millis(1)));
        assert!(estimate.published().is_some());
        assert!(estimate.expire(start + LIFE));
        assert_eq!(estimate.published(), None);
        assert!(!estimate.expire(start + 2 * LIFE), "once");
        for _ in 0..SAMPLES_MIN {
            estimate.add(sample(1000, 100), start + LIFE);
        }
        assert!(estimate.published().unwrap() > 5_000.0);
    }
}
