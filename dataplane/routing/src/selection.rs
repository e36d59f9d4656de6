//! The selection that both widening algorithms make from a set of candidates: of those whose bucket is open,
//! that have capacity and no longer queue than is allowed, a few are sampled and the comparator picks.

pub(crate) mod buckets;
pub(crate) mod candidate;
pub(crate) mod choice;
pub(crate) mod comparator;
pub(crate) mod moment;
pub(crate) mod queue_slo;
pub(crate) mod sample;
pub(crate) mod trace;
pub(crate) mod widening;

use self::{
    buckets::Buckets,
    candidate::{Candidate, CandidateSet, Picked, TimeRange},
    choice::NoChoice,
    comparator::Best,
    moment::{BucketTtft, Moment},
    sample::DistinctSample,
    trace::Trace,
    widening::Widening,
};
use crate::{
    Cluster, EffectiveStats, RoutingRequest, Seconds, Tokens, UnavailableReason, UnknownConcurrency, Wait,
    WaitReason, core_loads::unflushed::Unflushed,
};

/// What applies to all candidates of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a> {
    clusters: &'a [Cluster],
    widening: &'a Widening,
    request: &'a RoutingRequest<'a>,
    unflushed: &'a Unflushed,
    input_tokens: Tokens,
    priority: u32,
    ignores_queue_time: bool,
    ignores_prefill: bool,
    unknown_concurrency: UnknownConcurrency,
    is_waiting: bool,
    pub(crate) elapsed: Moment,
    pub(crate) queue_delay_allowed: Option<Seconds>,
}

/// Nobody was selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NonePicked {
    /// When the next bucket of the set opens.
    pub(crate) next_unlock: Option<Moment>,
}

/// Room to select in. It keeps its capacity from decision to decision.
#[derive(Debug, Default)]
pub(crate) struct SelectionScratch {
    /// What is beyond the candidates of this decision is of an earlier one; so it is in `open`.
    candidates: Vec<Candidate>,
    /// Positions in `candidates` of those that can be sampled.
    open: Vec<u32>,
    sorted: Vec<BucketTtft>,
}

// === impl Selection ===

impl<'a> Selection<'a> {
    pub(crate) fn new(
        clusters: &'a [Cluster],
        widening: &'a Widening,
        request: &'a RoutingRequest<'a>,
        unflushed: &'a Unflushed,
    ) -> Self {
        let queue_delay_allowed = widening.queue_slo.map(|slo| slo.allowed(request));
        Self {
            clusters,
            widening,
            request,
            unflushed,
            input_tokens: request.input_tokens,
            priority: request.priority,
            ignores_queue_time: widening.ignore_queue_time,
            ignores_prefill: widening.ignore_input_processing_time,
            unknown_concurrency: widening.unknown_concurrency,
            is_waiting: request.is_waiting,
            elapsed: request.elapsed.into(),
            queue_delay_allowed,
        }
    }

    /// Selects one of `members`.
    pub(crate) fn select(
        &self,
        set: &CandidateSet,
        members: impl Iterator<Item = usize>,
        scratch: &mut SelectionScratch,
        rng: &mut fastrand::Rng,
        trace: &mut impl Trace,
    ) -> Result<Picked, NonePicked> {
        let (candidates, range) = self.measure(set, members, &mut scratch.candidates);
        if candidates.is_empty() {
            trace.considers(set, candidates);
            return Err(NonePicked { next_unlock: None });
        }
        let buckets = self.buckets(set, range);
        let times = candidates.iter().map(|candidate| candidate.bucket_ttft);
        let through = buckets.opened(self.elapsed, range.slowest, times.clone(), &mut scratch.sorted);
        trace.considers(set, candidates);
        // However many buckets open later on, there is room to sort them.
        if scratch.sorted.capacity() < candidates.len() {
            scratch.sorted.reserve(candidates.len());
        }
        // Written and then kept or not: whether one is kept is as good as random, and a branch on that costs
        // more than all else here.
        if scratch.open.len() < candidates.len() {
            scratch.open.resize(candidates.len(), 0);
        }
        let mut open = 0;
        for (position, candidate) in candidates.iter().enumerate() {
            scratch.open[open] = position as u32;
            let is_unlocked = candidate.bucket_ttft <= through;
            open += usize::from(candidate.is_admitting) & usize::from(is_unlocked);
        }
        let mut best = Best::new();
        let mut sample = DistinctSample::new(open as u32, self.widening.sample_count);
        while let Some(drawn) = sample.next(rng) {
            let candidate = &candidates[scratch.open[drawn as usize] as usize];
            let cost = self.cost(set, candidate);
            trace.samples(set.kind, candidate.cluster(), cost);
            best.offer(Picked { cluster: candidate.cluster(), seen: candidate.seen }, cost, rng);
        }
        best.winner().ok_or_else(|| NonePicked { next_unlock: buckets.next_unlock(through, times) })
    }

    /// Looks at every member once.
    pub(crate) fn measure<'c>(
        &self,
        set: &CandidateSet,
        members: impl Iterator<Item = usize>,
        room: &'c mut Vec<Candidate>,
    ) -> (&'c [Candidate], TimeRange) {
        // Copies, which no write to the candidates can reach: they stay in registers.
        let (this, set) = (*self, *set);
        let mut range = TimeRange { fastest: BucketTtft::INFINITE, slowest: BucketTtft::ZERO };
        if room.len() < this.clusters.len() {
            room.resize(this.clusters.len(), Candidate::default());
        }
        let mut count = 0;
        // Into room that is there already: a push asks for it every time.
        for (candidate, index) in room.iter_mut().zip(members) {
            let cluster = &this.clusters[index];
            let load = this.unflushed.read(&cluster.load, &cluster.stats, this.priority);
            let stats = EffectiveStats::with_load(&cluster.stats, load, this.priority);
            let queue_delay = stats.queue_delay();
            let bucket_ttft = this.bucket_ttft(&set, &stats, queue_delay);
            range.fastest = range.fastest.min(bucket_ttft);
            range.slowest = range.slowest.max(bucket_ttft);
            let is_admitting = this.has_capacity(&set, &stats) && this.allows(queue_delay);
            let seen = load.sent.attempts;
            *candidate = Candidate { cluster: index as u32, is_admitting, bucket_ttft, seen };
            count += 1;
        }
        (&room[..count], range)
    }

    pub(crate) fn buckets(&self, set: &CandidateSet, range: TimeRange) -> Buckets {
        Buckets::new(self.widening, range.fastest, set.since)
    }

    /// Time to first token, less what bucket formation ignores.
    #[inline]
    fn bucket_ttft(
        &self,
        set: &CandidateSet,
        stats: &EffectiveStats<'_>,
        queue_delay: Seconds,
    ) -> BucketTtft {
        let queue_delay = if self.ignores_queue_time { Seconds::ZERO } else { queue_delay };
        let prefill = if self.ignores_prefill { Seconds::ZERO } else { self.prefill(set, stats) };
        BucketTtft::new(stats.reported.rtt, queue_delay + prefill)
    }

    #[inline]
    pub(crate) fn prefill(&self, set: &CandidateSet, stats: &EffectiveStats<'_>) -> Seconds {
        stats.prefill(self.input_tokens, set.prefill_scale)
    }

    #[inline]
    pub(crate) fn has_capacity(&self, set: &CandidateSet, stats: &EffectiveStats<'_>) -> bool {
        let is_one_of_many = self.is_waiting || set.is_overflow && stats.shows_little_room(set.max_queued);
        stats.has_room(set.max_queued, self.unknown_concurrency, is_one_of_many)
    }

    pub(crate) fn allows_queue_delay(&self, stats: &EffectiveStats<'_>) -> bool {
        self.allows(stats.queue_delay())
    }

    #[inline]
    fn allows(&self, queue_delay: Seconds) -> bool {
        self.queue_delay_allowed.is_none_or(|allowed| queue_delay <= allowed)
    }

    fn cost(&self, set: &CandidateSet, candidate: &Candidate) -> f64 {
        self.widening.comparator.cost(&self.effective(candidate), self.request, set.prefill_scale)
    }

    /// Its stats now. Another look at few of them is less work than to keep those of all.
    pub(crate) fn effective(&self, candidate: &Candidate) -> EffectiveStats<'a> {
        self.unflushed.effective(&self.clusters[candidate.cluster as usize], self.priority)
    }
}

// === impl NonePicked ===

impl NonePicked {
    /// What a request does whose affinity group, held for it until `until`, has no place.
    pub(crate) fn hold(self, until: Moment) -> NoChoice {
        let until = self.next_unlock.map_or(until, |unlock| unlock.min(until));
        NoChoice::Wait(Wait { until: until.to_duration(), reason: WaitReason::Affinity })
    }

    /// What it does when neither set has a place: it waits for the next bucket of either, or for the next
    /// band of ranks.
    pub(crate) fn wait(self, group_unlock: Option<Moment>, next_band: Option<Moment>) -> NoChoice {
        let bucket = match (self.next_unlock, group_unlock) {
            (Some(open), Some(group)) => Some(open.min(group)),
            (open, group) => open.or(group),
        };
        let (until, reason) = match (next_band, bucket) {
            (None, None) => return NoChoice::Unavailable(UnavailableReason::NoCapacity),
            (Some(band), Some(bucket)) if bucket < band => (bucket, WaitReason::Bucket),
            (Some(band), _) => (band, WaitReason::Band),
            (None, Some(bucket)) => (bucket, WaitReason::Bucket),
        };
        NoChoice::Wait(Wait { until: until.to_duration(), reason })
    }
}
