//! Counts what happens in a run, and makes an outcome of it.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

use super::{
    clients::Ask,
    outcome::{Outcome, Quantiles, Second},
};

pub(super) struct Tally {
    warmup: Duration,
    end: Duration,
    slo: Duration,
    offered: u64,
    completed: u64,
    good: u64,
    rejected: u64,
    timed_out: u64,
    sent: u64,
    overflown: u64,
    /// Requests that were sent for the first time.
    started: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    arrived: u64,
    queued: u64,
    misrouted: u64,
    slot_time: Duration,
    ttft_us: Histogram<u64>,
    e2e_us: Histogram<u64>,
    /// By session: asked for and served in time.
    sessions: Vec<(u32, u32)>,
    seconds: Vec<Second>,
}

/// The longest time that is told apart.
const LONGEST_US: u64 = 3_600_000_000;

// === impl Tally ===

impl Tally {
    pub(super) fn new(warmup: Duration, measured: Duration, slo: Duration) -> Self {
        let times = || Histogram::new_with_max(LONGEST_US, 3).expect("bounds that are allowed");
        let end = warmup + measured;
        Self {
            warmup,
            end,
            slo,
            offered: 0,
            completed: 0,
            good: 0,
            rejected: 0,
            timed_out: 0,
            sent: 0,
            overflown: 0,
            started: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            arrived: 0,
            queued: 0,
            misrouted: 0,
            slot_time: Duration::ZERO,
            ttft_us: times(),
            e2e_us: times(),
            sessions: Vec::new(),
            seconds: vec![Second::default(); end.as_secs_f64().ceil() as usize],
        }
    }

    pub(super) fn end(&self) -> Duration {
        self.end
    }

    pub(super) fn offered(&mut self, now: Duration, ask: &Ask) {
        self.second(now).offered += 1;
        if self.is_measured(now) {
            self.offered += 1;
            if let Some(place) = ask.place {
                self.session(place).0 += 1;
            }
        }
    }

    pub(super) fn sent(&mut self, now: Duration, is_first: bool, is_overflow: bool) {
        if self.is_measured(now) {
            self.sent += 1;
            self.started += u64::from(is_first);
            self.overflown += u64::from(is_overflow);
        }
    }

    pub(super) fn arrived(&mut self, now: Duration, finds_slot: bool, is_avoidable: bool) {
        if self.is_measured(now) {
            self.arrived += 1;
            self.queued += u64::from(!finds_slot);
            self.misrouted += u64::from(is_avoidable);
        }
    }

    pub(super) fn began(&mut self, now: Duration, prompt_tokens: u32, cached_tokens: u32) {
        let second = self.second(now);
        second.prompt_tokens += u64::from(prompt_tokens);
        second.cached_tokens += u64::from(cached_tokens);
        if self.is_measured(now) {
            self.prompt_tokens += u64::from(prompt_tokens);
            self.cached_tokens += u64::from(cached_tokens);
        }
    }

    /// A slot was taken in this time.
    pub(super) fn held_slot(&mut self, from: Duration, to: Duration) {
        self.slot_time += to.min(self.end).saturating_sub(from.max(self.warmup));
    }

    pub(super) fn first_token(&mut self, now: Duration, ttft: Duration) {
        if self.is_measured(now) {
            self.ttft_us.saturating_record(ttft.as_micros() as u64);
        }
    }

    pub(super) fn completed(&mut self, now: Duration, ask: &Ask, ttft: Duration, e2e: Duration) {
        let is_good = ttft <= self.slo;
        self.second(now).good += u32::from(is_good);
        if self.is_measured(now) {
            self.completed += 1;
            self.good += u64::from(is_good);
            self.e2e_us.saturating_record(e2e.as_micros() as u64);
            if let Some(place) = ask.place.filter(|_| is_good) {
                self.session(place).1 += 1;
            }
        }
    }

    pub(super) fn rejected(&mut self, now: Duration) {
        self.second(now).rejected += 1;
        self.rejected += u64::from(self.is_measured(now));
    }

    pub(super) fn timed_out(&mut self, now: Duration) {
        self.second(now).rejected += 1;
        self.timed_out += u64::from(self.is_measured(now));
    }

    /// So many wait in gateways at the end of the second before `now`.
    pub(super) fn waiting(&mut self, now: Duration, waiting: usize) {
        let last = (now.as_secs() as usize).checked_sub(1);
        if let Some(second) = last.and_then(|last| self.seconds.get_mut(last)) {
            second.waiting = waiting as u32;
        }
    }

    /// The outcome of a run that took so much CPU time, of engines that do `bound_per_s` at best and have `slots`.
    pub(super) fn into_outcome(
        self,
        (scenario, policy, seed): (&str, &str, u64),
        point: BTreeMap<String, String>,
        bound_per_s: f64,
        slots: u64,
        cpu_time: Duration,
    ) -> Outcome {
        let measured_s = self.end.saturating_sub(self.warmup).as_secs_f64();
        let per_s = |count: u64| count as f64 / measured_s;
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let offered_per_s = per_s(self.offered);
        Outcome {
            scenario: scenario.to_owned(),
            point,
            policy: policy.to_owned(),
            seed,
            offered_per_s,
            completed_per_s: per_s(self.completed),
            goodput_per_s: per_s(self.good),
            bound_per_s: bound_per_s.min(offered_per_s),
            rejected_per_s: per_s(self.rejected),
            timed_out_per_s: per_s(self.timed_out),
            ttft_ms: quantiles(&self.ttft_us),
            e2e_ms: quantiles(&self.e2e_us),
            token_reuse: share(self.cached_tokens, self.prompt_tokens),
            overflow_share: share(self.overflown, self.sent),
            attempts_per_request: share(self.sent, self.started),
            fairness: self.fairness(),
            misrouted_share: share(self.misrouted, self.arrived),
            queued_share: share(self.queued, self.arrived),
            busy_share: self.slot_time.as_secs_f64() / (slots as f64 * measured_s),
            seconds: self.seconds,
            cpu_time,
        }
    }

    /// Jain's index over the sessions that asked at all.
    fn fairness(&self) -> f64 {
        let shares = self.sessions.iter().filter(|(asked, _)| *asked > 0);
        let shares = shares.map(|(asked, served)| (f64::from(*served) / f64::from(*asked)).min(1.0));
        let (count, sum, squares) = shares.fold((0.0, 0.0, 0.0), |(count, sum, squares), share| {
            (count + 1.0, sum + share, squares + share * share)
        });
        if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
    }

    fn is_measured(&self, now: Duration) -> bool {
        now >= self.warmup
    }

    fn session(&mut self, place: u32) -> &mut (u32, u32) {
        let place = place as usize;
        if self.sessions.len() <= place {
            self.sessions.resize(place + 1, (0, 0));
        }
        &mut self.sessions[place]
    }

    fn second(&mut self, now: Duration) -> &mut Second {
        let last = self.seconds.len() - 1;
        &mut self.seconds[(now.as_secs() as usize).min(last)]
    }
}

fn quantiles(times: &Histogram<u64>) -> Quantiles {
    let ms = |quantile| times.value_at_quantile(quantile) as f64 / 1000.0;
    if times.is_empty() {
        return Quantiles::default();
    }
    Quantiles { p50: ms(0.5), p90: ms(0.9), p99: ms(0.99), mean: times.mean() / 1000.0 }
}

#[cfg(test)]
mod tests;
