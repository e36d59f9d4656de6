//! What a decision was made of: every cluster of a target with all that counted for or against it.
//!
//! The decision is a live one that tells its steps ([`Trace`]), and every figure beside it comes from the
//! functions that the live decision calls. Explaining changes nothing: no turn is taken, no load is counted.

pub(crate) mod explanation;

use std::ops::ControlFlow;

use crate::{
    Algorithm, Band, Candidacy, ClusterIndex, Decision, DecisionState, Exclusions, ExplainedCluster,
    Explanation, Method, Ranking, RendezvousWeight, RoutingRequest, Slot, Target, Verdict, admit,
    algorithms::{pulsar_wait_and_widen::bands::Bands, wait_and_widen::ring::cache::RingCache},
    best_ttft,
    core_loads::unflushed::Unflushed,
    decide::decide_traced,
    request::eligible::Eligible,
    selection::{
        Selection,
        candidate::{Candidate, CandidateSet, SetKind, TimeRange},
        moment::{BucketTtft, Moment},
        trace::Trace,
    },
};

/// What a decision told of itself.
#[derive(Default)]
struct Record {
    considered: Vec<Considered>,
    sampled: Vec<(SetKind, ClusterIndex, f64)>,
}

/// A set that was, or would be, selected from.
struct Considered {
    set: CandidateSet,
    candidates: Vec<Candidate>,
}

/// How the algorithm ranks this request.
struct Ranks {
    weight: RendezvousWeight,
    considers_kv: bool,
    /// Ranked clusters in order.
    order: Vec<ClusterIndex>,
    bands: Option<Bands>,
    /// When the affinity group is given up.
    affinity_wait_ends: Moment,
}

/// How the algorithm widens for this request.
struct Widens<'a> {
    selection: Selection<'a>,
    group: Vec<ClusterIndex>,
    group_set: CandidateSet,
    open_set: CandidateSet,
    /// Whether only clusters with a rank can be selected.
    ranks: bool,
}

/// Decides, and tells what the decision was made of. Allocates.
pub fn explain(
    target: &Target,
    method: &Method,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    state: &mut DecisionState,
) -> Explanation {
    let algorithm = &method.algorithm;
    let mut record = Record::default();
    let decision = decide_traced(target, algorithm, request, exclusions, state, &mut record);
    let eligible = Eligible::new(&target.clusters, exclusions);
    let DecisionState { loads, work } = state;
    let unflushed = &*loads.unflushed();
    let ranks = Ranks::of(target, algorithm, request, &eligible, unflushed);
    let widens = Widens::of(target, algorithm, request, unflushed, ranks.as_ref(), &mut work.rings);

    let mut rows: Vec<_> = (0..target.clusters.len())
        .map(|index| row(target, ClusterIndex(index), request, unflushed, &eligible, ranks.as_ref()))
        .collect();
    if let Some(widens) = &widens {
        widens.fill(&mut rows, &record);
    }
    for (_, cluster, cost) in &record.sampled {
        rows[cluster.0].cost = Some(*cost);
    }
    for row in &mut rows {
        row.verdict = verdict(row, &decision, algorithm, request, &record);
    }
    Explanation {
        decision,
        algorithm: algorithm.kind(),
        admission: admit(target, method, request, exclusions, loads),
        best_ttft: best_ttft(target, algorithm, request, exclusions, loads),
        queue_delay_allowed: widens.as_ref().and_then(|widens| widens.selection.queue_delay_allowed),
        affinity_wait_ends: widens
            .as_ref()
            .filter(|widens| !widens.group.is_empty())
            .map(|widens| widens.open_set.since.to_duration()),
        slot: ranks.as_ref().and(request.affinity_key).map(|key| Slot::of(key).number()),
        clusters: rows,
    }
}

/// What can be told of a cluster without the steps of the decision.
fn row(
    target: &Target,
    index: ClusterIndex,
    request: &RoutingRequest<'_>,
    unflushed: &Unflushed,
    eligible: &Eligible,
    ranks: Option<&Ranks>,
) -> ExplainedCluster {
    let cluster = &target.clusters[index.0];
    let stats = unflushed.effective(cluster, request.priority);
    let rank =
        ranks.and_then(|ranks| ranks.order.iter().position(|ranked| *ranked == index)).map(|at| at + 1);
    let band = ranks.and_then(|ranks| ranks.bands).zip(rank).map(|(bands, rank)| {
        let (number, opens_at) = bands.of_rank(rank);
        Band { number, opens_at: opens_at.to_duration() }
    });
    ExplainedCluster {
        cluster: index,
        cluster_id: cluster.cluster_id.clone(),
        verdict: Verdict::NotConsidered,
        is_excluded: !eligible.has(index),
        num_running_queries: stats.num_running_queries,
        max_engine_concurrency: cluster.stats.max_engine_concurrency,
        queue_size: stats.queue_size,
        queued_input: stats.queued_input,
        rtt: cluster.stats.rtt.into(),
        queue_delay: stats.queue_delay(),
        prefill: stats.prefill(request.input_tokens, 1.0),
        ttft: stats.ttft(request.input_tokens),
        kv_free: cluster.stats.kv_free_tokens(),
        is_kv_feasible: ranks
            .filter(|ranks| ranks.considers_kv)
            .map(|_| cluster.stats.has_kv_for(request.input_tokens)),
        weight: ranks.and_then(|ranks| cluster.rendezvous.get(ranks.weight)),
        rank: rank.map(|rank| rank as u32),
        is_in_group: false,
        band,
        in_group: None,
        in_open_set: None,
        cost: None,
    }
}

fn verdict(
    row: &ExplainedCluster,
    decision: &Decision,
    algorithm: &Algorithm,
    request: &RoutingRequest<'_>,
    record: &Record,
) -> Verdict {
    if matches!(decision, Decision::Selected(selected) if selected.cluster == row.cluster) {
        return Verdict::Chosen;
    }
    if row.is_excluded {
        return Verdict::Excluded;
    }
    let ranks = match algorithm {
        Algorithm::RoundRobin => return Verdict::NotItsTurn,
        Algorithm::Random => return Verdict::NotSampled,
        Algorithm::PowerOfN(_) => return sampling_verdict(row.cost.is_some()),
        Algorithm::Pulsar(_) if request.affinity_key.is_none() => {
            return sampling_verdict(row.cost.is_some());
        }
        Algorithm::WaitAndWiden(_) => false,
        Algorithm::Pulsar(_) => true,
        Algorithm::PulsarWaitAndWiden(_) => request.affinity_key.is_some(),
    };
    if ranks && row.weight.is_none() {
        return Verdict::NoWeight;
    }
    if row.is_kv_feasible == Some(false) {
        return Verdict::KvShort;
    }
    if matches!(algorithm, Algorithm::Pulsar(_)) {
        return Verdict::RankedLower;
    }
    if row.band.is_some_and(|band| band.opens_at > request.elapsed) {
        return Verdict::BandLocked;
    }
    // Beyond a primary that had a place, only its queue makes a request look.
    let has_left = record.set(SetKind::Open).is_some() && record.set(SetKind::Group).is_none();
    if has_left && row.rank == Some(1) {
        return Verdict::QueueTooLong;
    }
    let considered = [(SetKind::Open, &row.in_open_set), (SetKind::Group, &row.in_group)];
    let considered = considered.iter().find(|(kind, _)| record.set(*kind).is_some());
    let Some(candidacy) = considered.and_then(|(_, candidacy)| candidacy.as_ref()) else {
        return Verdict::NotConsidered;
    };
    if !candidacy.is_unlocked {
        Verdict::BucketLocked
    } else if !candidacy.has_capacity {
        Verdict::Full
    } else if !candidacy.is_queue_delay_allowed {
        Verdict::QueueTooLong
    } else {
        sampling_verdict(candidacy.is_sampled)
    }
}

fn sampling_verdict(is_sampled: bool) -> Verdict {
    if is_sampled { Verdict::Outdone } else { Verdict::NotSampled }
}

// === impl Record ===

impl Record {
    fn set(&self, kind: SetKind) -> Option<&Considered> {
        self.considered.iter().find(|considered| considered.set.kind == kind)
    }

    fn has_sampled(&self, kind: SetKind, cluster: ClusterIndex) -> bool {
        self.sampled.iter().any(|(set, sampled, _)| *set == kind && *sampled == cluster)
    }
}

impl Trace for Record {
    const TAKES_TURNS: bool = false;

    fn considers(&mut self, set: &CandidateSet, candidates: &[Candidate]) {
        self.considered.push(Considered { set: *set, candidates: candidates.to_vec() });
    }

    fn samples(&mut self, set: SetKind, cluster: ClusterIndex, cost: f64) {
        self.sampled.push((set, cluster, cost));
    }
}

// === impl Ranks ===

impl Ranks {
    fn of(
        target: &Target,
        algorithm: &Algorithm,
        request: &RoutingRequest<'_>,
        eligible: &Eligible,
        unflushed: &Unflushed,
    ) -> Option<Self> {
        let key = request.affinity_key?;
        let (seed, weight) = algorithm.ranked_by()?;
        let considers_kv = algorithm.considers_kv_free_tokens();
        let order = Ranking::new(target, seed, weight, key).to_vec();
        let home = || {
            let primary = order.first().filter(|primary| eligible.has(**primary))?;
            let cluster = &target.clusters[primary.0];
            let is_candidate = !considers_kv || cluster.stats.has_kv_for(request.input_tokens);
            is_candidate.then(|| unflushed.effective(cluster, request.priority).queue_delay())
        };
        let (bands, affinity_wait_ends) = match algorithm {
            Algorithm::PulsarWaitAndWiden(parameters) => {
                let ends = parameters.affinity_wait_ends_at(Slot::of(key), home()).into();
                (Some(parameters.bands(ends)), ends)
            }
            Algorithm::PowerOfN(_)
            | Algorithm::RoundRobin
            | Algorithm::Random
            | Algorithm::Pulsar(_)
            | Algorithm::WaitAndWiden(_) => (None, Moment::ZERO),
        };
        Some(Self { weight, considers_kv, order, bands, affinity_wait_ends })
    }
}

// === impl Widens ===

impl<'a> Widens<'a> {
    fn of(
        target: &'a Target,
        algorithm: &'a Algorithm,
        request: &'a RoutingRequest<'a>,
        unflushed: &'a Unflushed,
        ranks: Option<&Ranks>,
        rings: &mut RingCache,
    ) -> Option<Self> {
        let is_ranking = ranks.is_some();
        let (widening, group, max_queued, wait_ends) = match algorithm {
            Algorithm::WaitAndWiden(parameters) => {
                let key = request.affinity_key.filter(|_| parameters.affinity_group > 0);
                let group = key.map_or(&[][..], |key| rings.group(&target.fleet(), parameters, key));
                let group = group.iter().map(|index| ClusterIndex(usize::from(*index))).collect();
                let widening = &parameters.widening;
                (widening, group, widening.max_queued, widening.affinity_wait.into())
            }
            Algorithm::PulsarWaitAndWiden(parameters) => {
                let order = ranks.map_or(&[][..], |ranks| &ranks.order);
                let group = order.iter().take(parameters.affinity_group_ranks()).copied().collect();
                let wait_ends = ranks.map_or(Moment::ZERO, |ranks| ranks.affinity_wait_ends);
                (&parameters.widening, group, parameters.fallback_max_queued, wait_ends)
            }
            Algorithm::PowerOfN(_) | Algorithm::RoundRobin | Algorithm::Random | Algorithm::Pulsar(_) => {
                return None;
            }
        };
        let group: Vec<ClusterIndex> = group;
        let since = if group.is_empty() { Moment::ZERO } else { wait_ends };
        Some(Self {
            selection: Selection::new(&target.clusters, widening, request, unflushed),
            group,
            group_set: CandidateSet::group(widening),
            open_set: if is_ranking {
                CandidateSet::overflow(max_queued, since)
            } else {
                CandidateSet::open(max_queued, since)
            },
            ranks: is_ranking,
        })
    }

    /// Tells of every cluster how it fares in the sets.
    fn fill(&self, rows: &mut [ExplainedCluster], record: &Record) {
        for cluster in &self.group {
            rows[cluster.0].is_in_group = true;
        }
        for set in [&self.group_set, &self.open_set] {
            let candidates = match record.set(set.kind) {
                Some(considered) => considered.candidates.clone(),
                None => self.would_be_candidates(set, rows),
            };
            for (cluster, candidacy) in self.candidacies(set, &candidates, record) {
                match set.kind {
                    SetKind::Group => rows[cluster.0].in_group = Some(candidacy),
                    SetKind::Open => rows[cluster.0].in_open_set = Some(candidacy),
                }
            }
        }
    }

    /// The candidates of a set that the decision did not come to.
    fn would_be_candidates(&self, set: &CandidateSet, rows: &[ExplainedCluster]) -> Vec<Candidate> {
        let opens_by = self.selection.elapsed.max(set.since).to_duration();
        let is_member = |row: &&ExplainedCluster| match set.kind {
            SetKind::Group => row.is_in_group,
            SetKind::Open => row.band.is_none_or(|band| band.opens_at <= opens_by),
        };
        let is_candidate = |row: &&ExplainedCluster| {
            !row.is_excluded && row.is_kv_feasible != Some(false) && (row.rank.is_some() || !self.ranks)
        };
        let members = rows.iter().filter(is_member).filter(is_candidate).map(|row| row.cluster.0);
        let mut room = Vec::new();
        self.selection.measure(set, members, &mut room).0.to_vec()
    }

    fn candidacies(
        &self,
        set: &CandidateSet,
        candidates: &[Candidate],
        record: &Record,
    ) -> Vec<(ClusterIndex, Candidacy)> {
        let times = candidates.iter().map(|candidate| candidate.bucket_ttft);
        let range = TimeRange {
            fastest: times.clone().fold(BucketTtft::INFINITE, BucketTtft::min),
            slowest: times.clone().fold(BucketTtft::ZERO, BucketTtft::max),
        };
        let mut buckets = Vec::new();
        self.selection.buckets(set, range).walk(times, &mut Vec::new(), |bucket| {
            buckets.push(bucket);
            ControlFlow::Continue(())
        });
        let candidacy = |candidate: &Candidate| {
            let cluster = candidate.cluster();
            let stats = self.selection.effective(candidate);
            let number = buckets.partition_point(|bucket| bucket.start <= candidate.bucket_ttft);
            let unlocks_at = buckets[number - 1].unlocks_at;
            let candidacy = Candidacy {
                prefill: self.selection.prefill(set, &stats),
                bucket_ttft: candidate.bucket_ttft.to_seconds(),
                bucket: number as u32,
                unlocks_at: (unlocks_at < Moment::NEVER).then(|| unlocks_at.to_duration()),
                is_unlocked: unlocks_at <= self.selection.elapsed,
                max_queued: set.max_queued,
                has_capacity: self.selection.has_capacity(set, &stats),
                is_queue_delay_allowed: self.selection.allows_queue_delay(&stats),
                is_sampled: record.has_sampled(set.kind, cluster),
            };
            (cluster, candidacy)
        };
        candidates.iter().map(candidacy).collect()
    }
}

#[cfg(test)]
mod tests;
