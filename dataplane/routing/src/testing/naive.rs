//! A second implementation of every algorithm, for tests: by the letter of docs/routing.md, with lists that are
//! sorted and walked, and nothing shared with the first but the types and the hash function.
//!
//! It answers with every outcome that is possible: where chance decides, any of these may come.

#![allow(clippy::float_cmp, reason = "two computations of one formula, in the same order of operations")]

mod agreement;

use std::{cmp::Ordering, collections::BTreeMap, time::Duration};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::{
    Accounting, Algorithm, Cluster, Comparator, Decision, Exclusions, PrimaryAdmission,
    PulsarWaitAndWidenParameters, RendezvousWeight, RoomShare, RoutingRequest, Seed, Target,
    UnavailableReason, UnknownConcurrency, WaitAndWidenParameters, WaitReason, Widening,
    testing::fleet::Plan,
};

/// What a decision can come to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Selected {
        cluster: usize,
        rank: u32,
        is_fallback: bool,
        after_kv_skip: bool,
    },
    /// In nanoseconds from the arrival.
    Wait {
        until: f64,
        reason: WaitReason,
    },
    Unavailable(UnavailableReason),
}

/// A decision to be made.
pub(crate) struct Naive<'a> {
    pub(crate) target: &'a Target,
    /// What the target was made of: all that was sent to its clusters, piece by piece.
    pub(crate) plans: &'a [Plan],
    pub(crate) request: &'a RoutingRequest<'a>,
    pub(crate) exclusions: &'a Exclusions,
}

/// What a set is selected from by.
#[derive(Clone, Copy)]
struct Rules<'a> {
    widening: &'a Widening,
    scale: f64,
    max_queued: u64,
    since: f64,
    is_overflow: bool,
}

struct Bucket {
    start: f64,
    /// Infinite for one that never opens.
    unlocks_at: f64,
    members: Vec<usize>,
}

fn ns(duration: Duration) -> f64 {
    duration.as_nanos() as f64
}

/// Counts of one cluster.
#[derive(Clone, Copy, Default)]
struct Counts {
    running: u64,
    queued: u64,
    queued_input: u64,
}

impl Counts {
    /// One more runs, and is queued with its input unless the engine has begun to answer.
    fn add(&mut self, queued: Option<u64>) {
        self.running = self.running.saturating_add(1);
        if let Some(tokens) = queued {
            self.queued = self.queued.saturating_add(1);
            self.queued_input = self.queued_input.saturating_add(tokens.min(1 << 40));
        }
    }
}

impl Outcome {
    pub(crate) fn of(decision: &Decision) -> Self {
        match decision {
            Decision::Selected(selected) => Self::Selected {
                cluster: selected.cluster.0,
                rank: selected.rank,
                is_fallback: selected.is_fallback,
                after_kv_skip: selected.after_kv_skip,
            },
            Decision::Wait(wait) => Self::Wait { until: ns(wait.until), reason: wait.reason },
            Decision::Unavailable(reason) => Self::Unavailable(*reason),
        }
    }

    /// Equal; of waits of more than 50 days only that they are so long.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        const FOREVER: f64 = 4.3e15;
        // Beyond 12 days sums of gaps depend on their order by a nanosecond; below, this is equality.
        let is_near = |a: f64, b: f64| (a - b).abs() <= 1e-15 * a;
        match (self, other) {
            (Self::Wait { until: a, reason: x }, Self::Wait { until: b, reason: y }) => {
                x == y && (is_near(*a, *b) || (*a > FOREVER && *b > FOREVER))
            }
            _ => self == other,
        }
    }
}

impl<'a> Naive<'a> {
    pub(crate) fn decide(&self, algorithm: &Algorithm) -> Vec<Outcome> {
        if self.target.clusters.is_empty() {
            return vec![Outcome::Unavailable(UnavailableReason::NoActiveBackend)];
        }
        let eligible: Vec<usize> =
            (0..self.target.clusters.len()).filter(|index| !self.is_excluded(*index)).collect();
        if eligible.is_empty() {
            return vec![Outcome::Unavailable(UnavailableReason::AllExcluded)];
        }
        match algorithm {
            Algorithm::PowerOfN(parameters) => {
                plain(&self.winners(&eligible, parameters.sample_count.get(), parameters.comparator, 1.0))
            }
            Algorithm::RoundRobin | Algorithm::Random => plain(&eligible),
            Algorithm::Pulsar(parameters) => {
                let Some(key) = self.request.affinity_key else {
                    return plain(&self.winners(&eligible, 2, parameters.comparator, 1.0));
                };
                let ranking = self.ranking(&parameters.seed, parameters.weight, key);
                let considers_kv = parameters.consider_kv_free_tokens;
                let walk = ranking.iter().position(|index| self.is_candidate(*index, considers_kv));
                match walk {
                    None => vec![Outcome::Unavailable(UnavailableReason::NoEligibleCandidate)],
                    Some(position) => vec![Outcome::Selected {
                        cluster: ranking[position],
                        rank: position as u32 + 1,
                        is_fallback: position > 0,
                        after_kv_skip: self.is_kv_skipped(&ranking[..position], considers_kv),
                    }],
                }
            }
            Algorithm::WaitAndWiden(parameters) => self.wait_and_widen(parameters, &eligible),
            Algorithm::PulsarWaitAndWiden(parameters) => self.pulsar_wait_and_widen(parameters, &eligible),
        }
    }

    fn wait_and_widen(&self, parameters: &WaitAndWidenParameters, eligible: &[usize]) -> Vec<Outcome> {
        let widening = &parameters.widening;
        let global =
            Rules { widening, scale: 1.0, max_queued: widening.max_queued, since: 0.0, is_overflow: false };
        let (Some(key), 1..) = (self.request.affinity_key, parameters.affinity_group) else {
            return match self.select(eligible, global) {
                Ok(winners) => plain(&winners),
                Err(None) => vec![Outcome::Unavailable(UnavailableReason::NoCapacity)],
                Err(Some(until)) => vec![Outcome::Wait { until, reason: WaitReason::Bucket }],
            };
        };
        let mut group = self.ring_group(parameters, key);
        group.retain(|index| eligible.contains(index));
        let group_unlock =
            match self.select(&group, Rules { scale: widening.affinity_input_tokens_scale, ..global }) {
                Ok(winners) => return plain(&winners),
                Err(unlock) => unlock.unwrap_or(f64::INFINITY),
            };
        let wait = ns(widening.affinity_wait);
        if ns(self.request.elapsed) < wait {
            return vec![Outcome::Wait { until: wait.min(group_unlock), reason: WaitReason::Affinity }];
        }
        match self.select(eligible, Rules { since: wait, ..global }) {
            Ok(winners) => winners
                .iter()
                .map(|winner| Outcome::Selected {
                    cluster: *winner,
                    rank: 2,
                    is_fallback: true,
                    after_kv_skip: false,
                })
                .collect(),
            Err(unlock) => {
                let until = unlock.unwrap_or(f64::INFINITY).min(group_unlock);
                if until == f64::INFINITY {
                    return vec![Outcome::Unavailable(UnavailableReason::NoCapacity)];
                }
                vec![Outcome::Wait { until, reason: WaitReason::Bucket }]
            }
        }
    }

    fn pulsar_wait_and_widen(
        &self,
        parameters: &PulsarWaitAndWidenParameters,
        eligible: &[usize],
    ) -> Vec<Outcome> {
        let widening = &parameters.widening;
        let considers_kv = parameters.consider_kv_free_tokens;
        let overflow = self.overflow_rules(parameters);
        let Some(key) = self.request.affinity_key else {
            return match self.select(eligible, overflow) {
                Ok(winners) => plain(&winners),
                Err(None) => vec![Outcome::Unavailable(UnavailableReason::NoCapacity)],
                Err(Some(until)) => vec![Outcome::Wait { until, reason: WaitReason::Bucket }],
            };
        };
        let ranking = self.ranking(&widening.seed, parameters.weight, key);
        let Some(primary) = ranking.first().copied() else {
            return vec![Outcome::Unavailable(UnavailableReason::NoEligibleCandidate)];
        };
        let select_ranked = |winners: Vec<usize>, is_fallback: bool| -> Vec<Outcome> {
            let ranked = winners.into_iter().map(|cluster| {
                let position = ranking.iter().position(|ranked| *ranked == cluster).unwrap();
                let after_kv_skip = self.is_kv_skipped(&ranking[..position], considers_kv);
                Outcome::Selected { cluster, rank: position as u32 + 1, is_fallback, after_kv_skip }
            });
            ranked.collect()
        };
        let candidates_of = |ranks: usize| -> Vec<usize> {
            let ranks = ranking.iter().take(ranks).copied();
            ranks.filter(|index| self.is_candidate(*index, considers_kv)).collect()
        };
        let group_size = parameters.affinity_group.max(1) as usize;
        let mut wait = Self::affinity_wait(parameters, key);
        if parameters.affinity_wait_spread > 0.0 && self.is_candidate(primary, considers_kv) {
            // Infinite only where nobody knows how fast it works, and then nobody waits for it.
            let in_queue = Duration::try_from_secs_f64(self.queue_delay(primary));
            wait = in_queue.map_or(0.0, |in_queue| (wait - ns(in_queue)).max(0.0));
        }
        let elapsed = ns(self.request.elapsed);
        if widening.queue_slo.is_none() && self.is_candidate(primary, considers_kv) {
            let has_capacity =
                self.has_capacity(primary, widening.max_queued, widening.unknown_concurrency, false);
            if parameters.primary_admission == PrimaryAdmission::Eligible || has_capacity {
                let stays = || select_ranked(vec![primary], false);
                let has_to_queue = self.queue_delay(primary) > 0.0;
                let is_left = parameters.affinity_wait_spread > 0.0
                    && parameters.primary_admission == PrimaryAdmission::Capacity
                    && has_to_queue
                    && elapsed >= wait;
                if !is_left {
                    return stays();
                }
                let next = candidates_of(group_size + 2).into_iter().filter(|index| *index != primary);
                let Ok(winners) = self.select(&next.collect::<Vec<_>>(), Rules { since: wait, ..overflow })
                else {
                    return stays();
                };
                let ttft_at_home = self.cost(primary, Comparator::Ttft, widening.affinity_input_tokens_scale);
                let is_sooner = |index: &usize| self.cost(*index, Comparator::Ttft, 1.0) < ttft_at_home;
                let (sooner, later): (Vec<usize>, Vec<usize>) = winners.into_iter().partition(is_sooner);
                let mut outcomes = select_ranked(sooner, true);
                if !later.is_empty() {
                    outcomes.extend(stays());
                }
                return outcomes;
            }
        }
        if ranking.iter().all(|index| self.is_excluded(*index)) {
            return vec![Outcome::Unavailable(UnavailableReason::AllExcluded)];
        }
        let group = Rules {
            scale: widening.affinity_input_tokens_scale,
            max_queued: widening.max_queued,
            is_overflow: false,
            ..overflow
        };
        let group_unlock = match self.select(&candidates_of(group_size), group) {
            Ok(winners) => return select_ranked(winners, false),
            Err(unlock) => unlock.unwrap_or(f64::INFINITY),
        };
        if elapsed < wait {
            return vec![Outcome::Wait { until: wait.min(group_unlock), reason: WaitReason::Affinity }];
        }

        let interval = ns(parameters.band_widen_interval.unwrap_or(widening.affinity_wait));
        let mut open_ranks = group_size + 2;
        let mut next_opening = wait + interval;
        let mut growth = 4;
        while open_ranks < ranking.len() && next_opening <= elapsed {
            open_ranks += growth;
            growth *= 2;
            next_opening += interval;
        }
        if open_ranks >= ranking.len() {
            next_opening = f64::INFINITY;
        }
        let next_unlock = match self.select(&candidates_of(open_ranks), Rules { since: wait, ..overflow }) {
            Ok(winners) => return select_ranked(winners, true),
            Err(unlock) => unlock.unwrap_or(f64::INFINITY).min(group_unlock),
        };
        if next_opening.min(next_unlock) == f64::INFINITY {
            vec![Outcome::Unavailable(UnavailableReason::NoCapacity)]
        } else if next_opening <= next_unlock {
            vec![Outcome::Wait { until: next_opening, reason: WaitReason::Band }]
        } else {
            vec![Outcome::Wait { until: next_unlock, reason: WaitReason::Bucket }]
        }
    }

    /// Those that may win, or else when the next bucket opens.
    fn select(&self, set: &[usize], rules: Rules<'a>) -> Result<Vec<usize>, Option<f64>> {
        let buckets = self.buckets(set, rules);
        let elapsed = ns(self.request.elapsed);
        let unlocked = buckets.iter().filter(|bucket| bucket.unlocks_at <= elapsed);
        let admitting: Vec<usize> = unlocked
            .flat_map(|bucket| &bucket.members)
            .copied()
            .filter(|index| {
                self.has_capacity(
                    *index,
                    rules.max_queued,
                    rules.widening.unknown_concurrency,
                    rules.is_overflow,
                ) && self
                    .allowed_queue_delay(rules.widening)
                    .is_none_or(|max| self.queue_delay(*index) <= max)
            })
            .collect();
        if admitting.is_empty() {
            let next = buckets.iter().map(|bucket| bucket.unlocks_at).find(|unlock| *unlock > elapsed);
            return Err(next.filter(|unlock| *unlock < f64::INFINITY));
        }
        let Widening { sample_count, comparator, .. } = rules.widening;
        Ok(self.winners(&admitting, sample_count.get(), *comparator, rules.scale))
    }

    fn buckets(&self, set: &[usize], rules: Rules<'a>) -> Vec<Bucket> {
        let mut sorted: Vec<(f64, usize)> =
            set.iter().map(|index| (self.bucket_ttft(*index, rules), *index)).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| self.id(a.1).cmp(self.id(b.1))));
        let factor = rules.widening.next_bucket_unlock_factor;
        let mut buckets: Vec<Bucket> = Vec::new();
        let mut gaps = 0.0;
        for (time, index) in sorted {
            match buckets.last_mut() {
                Some(last)
                    if last.start == time || time - last.start <= ns(rules.widening.ttft_bucket_size) =>
                {
                    last.members.push(index);
                }
                last => {
                    gaps += last.map_or(0.0, |last| time - last.start);
                    let wait = if factor == 0.0 { 0.0 } else { (gaps * factor).ceil() };
                    let unlocks_at = rules.since + wait;
                    // Centuries: more than a clock of nanoseconds in 64 bits can tell.
                    let unlocks_at = if unlocks_at >= 2_f64.powi(64) { f64::INFINITY } else { unlocks_at };
                    buckets.push(Bucket { start: time, unlocks_at, members: vec![index] });
                }
            }
        }
        buckets
    }

    /// In nanoseconds.
    fn bucket_ttft(&self, index: usize, rules: Rules<'a>) -> f64 {
        let queue = if rules.widening.ignore_queue_time { 0.0 } else { self.queue_delay(index) };
        let ignores_prefill = rules.widening.ignore_input_processing_time;
        let prefill = if ignores_prefill { 0.0 } else { self.prefill(index, rules.scale) };
        self.cluster(index).stats.rtt.0 as f64 + ((queue + prefill) * 1e9).round_ties_even()
    }

    /// Every candidate that wins some sample: enough others must be no better.
    fn winners(&self, candidates: &[usize], n: usize, comparator: Comparator, scale: f64) -> Vec<usize> {
        let others_needed = n.min(candidates.len()) - 1;
        let cost = |index: usize| self.cost(index, comparator, scale);
        let may_win = |index: &usize| {
            let no_better = |other: &&usize| *other != index && cost(**other) >= cost(*index);
            candidates.iter().filter(no_better).count() >= others_needed
        };
        candidates.iter().copied().filter(may_win).collect()
    }

    pub(crate) fn cost(&self, index: usize, comparator: Comparator, scale: f64) -> f64 {
        let stats = &self.cluster(index).stats;
        let rtt = stats.rtt.0 as f64 / 1e9;
        match comparator {
            Comparator::Ttft => rtt + self.queue_delay(index) + self.prefill(index, scale),
            Comparator::TtftBacklog => rtt + self.backlog(index) + self.prefill(index, scale),
            Comparator::QueueTime => self.queue_delay(index),
            Comparator::InputWorkSeconds => {
                self.work(index, self.queued_input(index).saturating_add(self.request.input_tokens.0))
            }
            Comparator::Utilization => {
                self.running(index) as f64 / stats.max_engine_concurrency.max(1) as f64
            }
            Comparator::NumRequestsQueued => self.counts(index).queued as f64,
        }
    }

    fn cluster(&self, index: usize) -> &'a Cluster {
        &self.target.clusters[index]
    }

    fn id(&self, index: usize) -> &'a str {
        &self.cluster(index).cluster_id
    }

    fn running(&self, index: usize) -> u64 {
        self.counts(index).running
    }

    fn queued_input(&self, index: usize) -> u64 {
        self.counts(index).queued_input
    }

    /// What was reported, with what was sent.
    fn counts(&self, index: usize) -> Counts {
        let (stats, plan) = (&self.cluster(index).stats, &self.plans[index]);
        let mut counts = Counts {
            running: stats.num_running_queries,
            queued: stats.queue_size,
            queued_input: stats.queued_input.0,
        };
        match stats.accounting {
            Accounting::InFlight => {
                let mut in_flight = Counts::default();
                for (tokens, is_answered) in &plan.in_flight {
                    in_flight.add(if *is_answered { None } else { Some(*tokens) });
                }
                for (_, tokens) in &plan.just_taken {
                    in_flight.add(Some(*tokens));
                }
                counts.running = counts.running.max(in_flight.running);
                counts.queued = counts.queued.max(in_flight.queued);
                counts.queued_input = counts.queued_input.max(in_flight.queued_input);
            }
            Accounting::Reservations => {
                // Who ended made way for a queued one, as long as there was any.
                for left in (1..=plan.ended).rev() {
                    if counts.queued == 0 {
                        counts.running = counts.running.saturating_sub(left);
                        break;
                    }
                    counts.queued -= 1;
                }
                if stats.queue_size > 0 {
                    let went = u128::from(stats.queue_size - counts.queued);
                    let share = u128::from(stats.queued_input.0) * went / u128::from(stats.queue_size);
                    counts.queued_input -= share as u64;
                }
                for (_, tokens) in self.reserved(index) {
                    counts.add(Some(tokens));
                }
            }
        }
        counts
    }

    fn reserved(&self, index: usize) -> impl Iterator<Item = (u32, u64)> {
        self.plans[index].reserved.iter().chain(&self.plans[index].just_taken).copied()
    }

    fn work(&self, index: usize, tokens: u64) -> f64 {
        let capacity = self.cluster(index).stats.last_mean_input_tps.0;
        match (tokens, capacity.is_finite() && capacity > 0.0) {
            (0, _) => 0.0,
            (_, false) => f64::INFINITY,
            (tokens, true) => tokens as f64 / capacity,
        }
    }

    fn prefill(&self, index: usize, scale: f64) -> f64 {
        match self.work(index, self.request.input_tokens.0) {
            f64::INFINITY => f64::INFINITY,
            time => time * scale,
        }
    }

    fn backlog(&self, index: usize) -> f64 {
        let stats = &self.cluster(index).stats;
        if stats.queue_time_estimates.is_empty() {
            return self.work(index, self.queued_input(index));
        }
        // Estimates by priority: what is published, and the tokens reserved since, which take their time on top.
        let published = stats.queue_time_estimates.iter();
        let mut estimates: BTreeMap<u32, (u64, u64)> =
            published.map(|(priority, estimate)| (*priority, (estimate.0, 0))).collect();
        let applying = |estimates: &BTreeMap<u32, (u64, u64)>, priority: u32| {
            estimates.range(..=priority).next_back().map_or((0, 0), |(_, estimate)| *estimate)
        };
        if stats.accounting == Accounting::Reservations {
            for (priority, tokens) in self.reserved(index) {
                // The least urgent share one.
                let priority = priority.min(15);
                let own = applying(&estimates, priority);
                estimates.entry(priority).or_insert(own);
                for (_, (_, reserved)) in estimates.range_mut(priority..) {
                    *reserved += tokens.min(1 << 40);
                }
            }
        }
        let (published, reserved) = applying(&estimates, self.request.priority);
        published as f64 / 1e9 + self.work(index, reserved)
    }

    fn queue_delay(&self, index: usize) -> f64 {
        let slots = self.cluster(index).stats.max_engine_concurrency;
        if slots > 0 && self.running(index) < slots { 0.0 } else { self.backlog(index) }
    }

    fn has_capacity(
        &self,
        index: usize,
        max_queued: u64,
        unknown: UnknownConcurrency,
        is_overflow: bool,
    ) -> bool {
        let stats = &self.cluster(index).stats;
        let places = match stats.max_engine_concurrency {
            0 => return unknown == UnknownConcurrency::Free,
            slots => slots.saturating_add(max_queued),
        };
        let (running, reported) = (self.running(index), stats.num_running_queries);
        if running >= places {
            return false;
        }
        let RoomShare { share, draw } = stats.room_share;
        let is_little = places.saturating_sub(reported) < places / 8;
        let is_limited = self.request.is_waiting || is_overflow && is_little;
        if !is_limited || stats.accounting == Accounting::InFlight || share >= 1.0 {
            return true;
        }
        // One more than what came on top of the report has to fit into our part of what the report leaves.
        let ours = places.saturating_sub(reported) as f64 * f64::from(share) + f64::from(draw);
        running as f64 + 1.0 - reported as f64 <= ours
    }

    fn overflow_rules(&self, parameters: &'a PulsarWaitAndWidenParameters) -> Rules<'a> {
        Rules {
            widening: &parameters.widening,
            scale: 1.0,
            max_queued: parameters.fallback_max_queued,
            since: 0.0,
            is_overflow: self.request.affinity_key.is_some(),
        }
    }

    /// In nanoseconds.
    fn affinity_wait(parameters: &PulsarWaitAndWidenParameters, key: &[u8]) -> f64 {
        let (wait, spread) = (parameters.widening.affinity_wait, parameters.affinity_wait_spread);
        if spread == 0.0 {
            return ns(wait);
        }
        let slot = (xxh3_64(key) >> 48) as f64;
        let share = 1.0 - spread * (1.0 - (slot + 0.5) / 65_536.0);
        ns(Duration::from_secs_f64(wait.as_secs_f64() * share))
    }

    fn allowed_queue_delay(&self, widening: &Widening) -> Option<f64> {
        let slo = widening.queue_slo?;
        let (floor, ceil) = (slo.floor().as_secs_f64(), slo.ceil().as_secs_f64());
        Some(match self.request.slo.map(Duration::from) {
            Some(slo) if slo > Duration::ZERO && self.request.elapsed < slo => {
                floor + (ceil - floor) * (self.request.elapsed.as_secs_f64() / slo.as_secs_f64())
            }
            _ => ceil,
        })
    }

    fn is_excluded(&self, index: usize) -> bool {
        let cluster = self.cluster(index);
        self.exclusions.has_cluster(cluster.uid)
            || cluster.backends.iter().all(|backend| self.exclusions.has_backend(backend.uid))
    }

    fn is_kv_feasible(&self, index: usize) -> bool {
        let stats = &self.cluster(index).stats;
        let free = match (stats.kv_free, stats.kv_capacity, stats.kv_used) {
            (Some(free), _, _) => Some(free.0),
            (None, Some(capacity), Some(used)) => Some(capacity.0.saturating_sub(used.0)),
            _ => None,
        };
        free.is_some_and(|free| free >= self.request.input_tokens.0)
    }

    fn is_candidate(&self, index: usize, considers_kv: bool) -> bool {
        !self.is_excluded(index) && (!considers_kv || self.is_kv_feasible(index))
    }

    fn is_kv_skipped(&self, ahead: &[usize], considers_kv: bool) -> bool {
        considers_kv && ahead.iter().any(|index| !self.is_excluded(*index) && !self.is_kv_feasible(*index))
    }

    /// Hash of the scope and model under a seed.
    fn base(&self, seed: &Seed) -> u64 {
        let seed = if seed.as_str().is_empty() { 0 } else { xxh3_64(seed.as_str().as_bytes()) };
        let name = &self.target.name;
        let scope = name.routing_key.as_ref().map_or(seed, |key| xxh3_64_with_seed(key.as_bytes(), seed));
        xxh3_64_with_seed(name.model.as_bytes(), scope)
    }

    /// All weighted clusters, the best first.
    fn ranking(&self, seed: &Seed, weight: RendezvousWeight, key: &[u8]) -> Vec<usize> {
        let slot = (xxh3_64(key) >> 48) as u32;
        let key_hash = xxh3_64_with_seed(&slot.to_le_bytes(), self.base(seed));
        let mut scored: Vec<(f64, usize)> = Vec::new();
        for (index, cluster) in self.target.clusters.iter().enumerate() {
            let weight = match weight {
                RendezvousWeight::MaxInputTps => cluster.rendezvous.max_input_tps,
                RendezvousWeight::LastMeanInputTps => cluster.rendezvous.last_mean_input_tps,
            };
            if weight > 0.0 && weight.is_finite() {
                let mut hash = key_hash ^ xxh3_64(cluster.cluster_id.as_bytes());
                hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                hash ^= hash >> 31;
                let u = ((hash >> 12) as f64 + 0.5) / 2_f64.powi(52);
                scored.push((weight / -u.ln(), index));
            }
        }
        scored.sort_by(|a, b| match b.0.total_cmp(&a.0) {
            Ordering::Equal => self.id(a.1).cmp(self.id(b.1)),
            order => order,
        });
        scored.into_iter().map(|(_, index)| index).collect()
    }

    /// The first k distinct clusters clockwise from the key.
    fn ring_group(&self, parameters: &WaitAndWidenParameters, key: &[u8]) -> Vec<usize> {
        let seed = &parameters.widening.seed;
        let position = xxh3_64_with_seed(key, self.base(seed));
        let seed = if seed.as_str().is_empty() { 0 } else { xxh3_64(seed.as_str().as_bytes()) };
        let mut points = Vec::new();
        for (index, cluster) in self.target.clusters.iter().enumerate() {
            for node in 0..u32::from(parameters.virtual_nodes.get()) {
                let id_hash = xxh3_64(cluster.cluster_id.as_bytes());
                let bytes = [&id_hash.to_le_bytes()[..], &node.to_le_bytes()[..]].concat();
                points.push((xxh3_64_with_seed(&bytes, seed).wrapping_sub(position), index));
            }
        }
        points.sort_unstable();
        let mut group = Vec::new();
        for (_, index) in points {
            if group.len() < parameters.affinity_group as usize && !group.contains(&index) {
                group.push(index);
            }
        }
        group
    }
}

/// The outcomes of an algorithm without ranks.
fn plain(clusters: &[usize]) -> Vec<Outcome> {
    let outcome = |cluster: &usize| Outcome::Selected {
        cluster: *cluster,
        rank: 1,
        is_fallback: false,
        after_kv_skip: false,
    };
    clusters.iter().map(outcome).collect()
}
