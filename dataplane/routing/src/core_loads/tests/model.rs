//! What a core's loads are to come to, by a list of attempts that is walked through at every step: an attempt counts from
//! its selection to its end, and its reservation until it expires, is handed over or dropped, or the attempt ends.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{Accounting, BackendUid, ClusterUid, CoreInclusion, Tokens};

pub(super) type Uids = (ClusterUid, BackendUid);

/// All attempts of all cores.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) attempts: Vec<Sent>,
    pub(super) cores: Vec<Core>,
}

#[derive(Debug, Default)]
pub(super) struct Core {
    passed_ms: u128,
    /// The latest report of each that says which attempts it includes.
    reports: BTreeMap<Uids, u64>,
    /// Of those in it, how many have ended since.
    pub(super) ended: BTreeMap<Uids, u64>,
    sequences: BTreeMap<BackendUid, u64>,
    pub(super) created: u64,
    pub(super) expired: u64,
    pub(super) released: u64,
    pub(super) dropped: u64,
    pub(super) handed_over: u64,
}

/// An attempt.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) core: usize,
    pub(super) uids: Uids,
    pub(super) tokens: u64,
    pub(super) priority: u32,
    pub(super) has_lane: bool,
    pub(super) is_queued: bool,
    pub(super) sequence: Option<u64>,
    pub(super) standing: Standing,
    /// The first whole millisecond at which it may end by time.
    due_ms: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Timed,
    Awaited,
    Included,
    Over,
}

/// What is to be known of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) running: u64,
    pub(super) queued: u64,
    pub(super) queued_input: u64,
    pub(super) reserved: u64,
    pub(super) reserved_input: u64,
    pub(super) ended: u64,
    /// Tokens reserved at each priority from 0 or before it.
    pub(super) ahead: Vec<u64>,
}

/// Priorities that are told apart, and one more.
pub(super) const PRIORITIES: u32 = 17;

fn is_pending(sent: &Sent) -> bool {
    matches!(sent.standing, Standing::Timed | Standing::Awaited)
}

impl Model {
    pub(super) fn of_cores(count: usize) -> Self {
        Self { cores: (0..count).map(|_| Core::default()).collect(), ..Self::default() }
    }

    /// Sends an attempt; its number comes back.
    #[expect(clippy::too_many_arguments, reason = "all that an attempt is made of")]
    pub(super) fn send(
        &mut self,
        core: usize,
        uids: Uids,
        (priority, tokens): (u32, u64),
        accounting: Accounting,
        has_estimates: bool,
        publishes_stats: bool,
        (now, ttl): (Duration, Duration),
    ) -> Option<u64> {
        let state = &mut self.cores[core];
        let sequence = publishes_stats.then(|| {
            let sequence = state.sequences.entry(uids.1).or_default();
            *sequence += 1;
            *sequence
        });
        let is_reserved = accounting == Accounting::Reservations;
        state.created += u64::from(is_reserved);
        let standing = match (is_reserved, publishes_stats && state.reports.contains_key(&uids)) {
            (false, _) => Standing::Over,
            (true, true) => Standing::Awaited,
            (true, false) => Standing::Timed,
        };
        self.attempts.push(Sent {
            core,
            uids,
            tokens: tokens.min(1 << 40),
            priority: priority.min(15),
            has_lane: is_reserved && has_estimates,
            is_queued: true,
            sequence,
            standing,
            due_ms: (now + ttl).as_nanos().div_ceil(1_000_000),
        });
        sequence
    }

    pub(super) fn end(&mut self, which: usize) {
        let sent = self.attempts.swap_remove(which);
        let core = &mut self.cores[sent.core];
        if is_pending(&sent) {
            core.released += 1;
        } else if sent.standing == Standing::Included {
            *core.ended.entry(sent.uids).or_default() += 1;
        }
    }

    pub(super) fn advance(&mut self, core: usize, now: Duration) {
        self.cores[core].passed_ms = self.cores[core].passed_ms.max(now.as_millis());
        for sent in self.attempts.iter_mut().filter(|sent| sent.core == core) {
            if sent.standing == Standing::Timed && sent.due_ms <= now.as_millis() {
                sent.standing = Standing::Over;
                self.cores[core].expired += 1;
            }
        }
    }

    pub(super) fn follow(
        &mut self,
        core: usize,
        registered: &BTreeSet<BackendUid>,
        reports: &BTreeMap<Uids, (u64, Option<CoreInclusion>)>,
    ) {
        let state = &mut self.cores[core];
        let is_gone = |backend: &BackendUid| !registered.contains(backend);
        state.sequences.retain(|backend, _| !is_gone(backend));
        for sent in self.attempts.iter_mut().filter(|sent| sent.core == core && is_gone(&sent.uids.1)) {
            state.dropped += u64::from(is_pending(sent));
            sent.standing = Standing::Over;
        }
        let known = std::mem::take(&mut state.reports);
        state.ended.retain(|uids, _| {
            !is_gone(&uids.1) && reports.get(uids).is_some_and(|(report, _)| *report <= known[uids])
        });
        for sent in self.attempts.iter_mut().filter(|sent| sent.core == core) {
            match (reports.get(&sent.uids), sent.standing) {
                (None, Standing::Awaited) if sent.due_ms <= state.passed_ms => {
                    sent.standing = Standing::Over;
                    state.expired += 1;
                }
                (None, Standing::Awaited) => sent.standing = Standing::Timed,
                (None, Standing::Included) => sent.standing = Standing::Over,
                (Some((report, Some(included))), Standing::Awaited) if *report > known[&sent.uids] => {
                    let sequence = sent.sequence.unwrap();
                    let is_of_this_registration = included.through <= state.sequences[&sent.uids.1];
                    let includes = sequence <= included.through && !included.except.contains(&sequence);
                    if is_of_this_registration && includes {
                        sent.standing = Standing::Included;
                        state.handed_over += 1;
                    }
                }
                _ => {}
            }
        }
        for (uids, (report, _)) in reports {
            let latest = known.get(uids).map_or(*report, |known| *report.max(known));
            state.reports.insert(*uids, latest);
        }
    }

    /// The highest number that a core has given out at a backend.
    pub(super) fn last_sequence(&self, core: usize, backend: BackendUid) -> u64 {
        self.cores[core].sequences.get(&backend).copied().unwrap_or_default()
    }

    pub(super) fn pending(&self, core: usize) -> u64 {
        self.attempts.iter().filter(|sent| sent.core == core && is_pending(sent)).count() as u64
    }

    pub(super) fn totals(&self, cluster: ClusterUid) -> Totals {
        let sent = || self.attempts.iter().filter(|sent| sent.uids.0 == cluster);
        let queued = || sent().filter(|sent| sent.is_queued);
        let reserved = || sent().filter(|sent| is_pending(sent));
        let tokens = |sent: &Sent| sent.tokens;
        let ended = self.cores.iter().flat_map(|core| &core.ended);
        Totals {
            running: sent().count() as u64,
            queued: queued().count() as u64,
            queued_input: queued().map(tokens).sum(),
            reserved: reserved().count() as u64,
            reserved_input: reserved().map(tokens).sum(),
            ended: ended.filter(|(uids, _)| uids.0 == cluster).map(|(_, count)| count).sum(),
            ahead: (0..PRIORITIES)
                .map(|priority| {
                    let ahead = reserved().filter(|sent| sent.has_lane && sent.priority <= priority);
                    ahead.map(tokens).sum()
                })
                .collect(),
        }
    }
}

impl Totals {
    /// What was read.
    pub(super) fn read(
        (in_flight, reserved): (crate::load::Amount, crate::load::Amount),
        ended: u64,
        ahead: impl Iterator<Item = Tokens>,
    ) -> Self {
        Self {
            running: in_flight.attempts.running(),
            queued: in_flight.attempts.queued(),
            queued_input: in_flight.tokens.0,
            reserved: reserved.attempts.running(),
            reserved_input: reserved.tokens.0,
            ended,
            ahead: ahead.map(|tokens| tokens.0).collect(),
        }
    }
}
