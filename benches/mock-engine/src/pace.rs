//! When tokens come: prefill time of a prompt and the moments of its output tokens, from rates and a seed.
//!
//! Offsets from one start, so that late timers do not add up over a long answer.

use std::time::Duration;

/// The moments of output tokens, counted from the end of prefill, when the first one is there.
pub(crate) struct Pace {
    /// Zero: all at once.
    interval: Duration,
    /// Each interval is varied by up to this fraction, both ways.
    jitter: f64,
    rng: fastrand::Rng,
    next: Duration,
}

/// Time to compute `tokens` at `tokens_per_second`; a rate of 0 takes no time.
pub(crate) fn work_time(tokens: u64, tokens_per_second: f64) -> Duration {
    if tokens_per_second > 0.0 {
        Duration::from_secs_f64(tokens as f64 / tokens_per_second)
    } else {
        Duration::ZERO
    }
}

impl Pace {
    /// One token each 1/`tokens_per_second` seconds; a rate of 0 is as fast as possible.
    pub(crate) fn new(tokens_per_second: f64, jitter: f64, rng: fastrand::Rng) -> Self {
        Self { interval: work_time(1, tokens_per_second), jitter, rng, next: Duration::ZERO }
    }

    /// When the next token is there.
    pub(crate) fn next_token(&mut self) -> Duration {
        let due = self.next;
        if !self.interval.is_zero() {
            let factor = 1.0 + self.jitter * (2.0 * self.rng.f64() - 1.0);
            self.next += self.interval.mul_f64(factor);
        }
        due
    }

    /// When the last of `tokens` (further) tokens is there.
    pub(crate) fn last_of(mut self, tokens: u64) -> Duration {
        if self.interval.is_zero() {
            return self.next;
        }
        (0..tokens).fold(Duration::ZERO, |_, _| self.next_token())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(rate: f64, jitter: f64) -> Pace {
        Pace::new(rate, jitter, fastrand::Rng::with_seed(7))
    }

    #[test]
    fn tokens_come_at_the_rate() {
        let mut steady = pace(50.0, 0.0);
        let due: Vec<_> = (0..3).map(|_| steady.next_token().as_millis()).collect();
        assert_eq!(due, [0, 20, 40]);
        assert_eq!(pace(50.0, 0.0).last_of(101), Duration::from_secs(2));
        assert_eq!(pace(0.0, 0.5).last_of(1000), Duration::ZERO);
        assert_eq!(work_time(250, 20_000.0), Duration::from_micros(12_500));
        assert_eq!(work_time(250, 0.0), Duration::ZERO);
    }

    #[test]
    fn jitter_varies_intervals_within_its_fraction_and_repeats_with_the_seed() {
        let offsets = |mut pace: Pace| (0..100).map(|_| pace.next_token()).collect::<Vec<_>>();
        let (first, second) = (offsets(pace(50.0, 0.5)), offsets(pace(50.0, 0.5)));
        assert_eq!(first, second);
        let gaps: Vec<_> =
            first.windows(2).map(|pair| pair[1].as_secs_f64() - pair[0].as_secs_f64()).collect();
        assert!(gaps.iter().all(|gap| (0.0099..=0.0301).contains(gap)));
        assert!(gaps.iter().any(|gap| *gap < 0.015) && gaps.iter().any(|gap| *gap > 0.025));
    }
}
