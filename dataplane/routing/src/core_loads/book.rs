//! A core's attempts, and how their reservations come to an end: the first of four ends that comes is the only one.
//!
//! All of it happens on one thread, one step after the other, so there is nothing for two ends to race for. Each takes
//! the reservation out of where it waits, and whoever comes later finds it over.

use std::{sync::Arc, time::Duration};

use slab::Slab;

use super::{
    attempt::{Attempt, Reservation},
    chain::Chain,
    counts::ReservationCounts,
    handovers::Handovers,
    uid_hash::UidMap,
    unflushed::Unflushed,
    wheel::Wheel,
};
use crate::{Backend, BackendUid, ClusterUid, CoreInclusion, Inclusions, load::Change};

/// The attempts of one core that are not over.
#[derive(Debug, Default)]
pub(super) struct Book {
    attempts: Slab<Attempt>,
    wheel: Wheel,
    handovers: Handovers,
    /// Numbers given out, by backend.
    sequences: UidMap<BackendUid, u64>,
    /// The registrations that are known.
    backends: Option<Arc<[Arc<Backend>]>>,
    counts: ReservationCounts,
}

// === impl Book ===

impl Book {
    pub(super) fn counts(&self) -> ReservationCounts {
        self.counts
    }

    /// Enters an attempt, with a reservation that lives for so long. Where the backend's reports say which attempts they
    /// include, it is pending until one includes this, and else until its time is over.
    pub(super) fn hold(
        &mut self,
        mut attempt: Attempt,
        cluster: ClusterUid,
        backend: &Backend,
        ttl: Option<Duration>,
        unflushed: &mut Unflushed,
    ) -> u32 {
        if backend.publishes_stats {
            let sequence = self.sequences.entry(backend.uid).or_default();
            *sequence += 1;
            attempt.sequence = *sequence;
        }
        let Some(ttl) = ttl else {
            return self.attempts.insert(attempt) as u32;
        };
        self.counts.created += 1;
        self.counts.pending += 1;
        attempt.due = Wheel::tick_at_or_after(unflushed.now().saturating_add(ttl));
        let list = self.handovers.find(cluster, backend.uid).filter(|_| backend.publishes_stats);
        if let Some(list) = list {
            let handover = self.handovers.get_mut(list);
            handover.set_cluster(attempt.cluster, unflushed);
            attempt.reservation = Reservation::Awaited(list);
            let key = self.attempts.insert(attempt) as u32;
            handover.awaiting.push_last(key, &mut self.attempts);
            key
        } else {
            self.counts.count_ttl(ttl);
            attempt.reservation = Reservation::Timed;
            let key = self.attempts.insert(attempt) as u32;
            self.wheel.insert(key, &mut self.attempts);
            key
        }
    }

    pub(super) fn sequence(&self, key: u32) -> Option<u64> {
        Some(self.attempts[key as usize].sequence).filter(|sequence| *sequence > 0)
    }

    /// When the reservation of this attempt ends by time, if it does.
    pub(super) fn expiry_of(&self, key: u32) -> Option<Duration> {
        let attempt = &self.attempts[key as usize];
        (attempt.reservation == Reservation::Timed).then(|| Duration::from_millis(attempt.due))
    }

    pub(super) fn first_byte(&mut self, key: u32, unflushed: &mut Unflushed) {
        let attempt = &mut self.attempts[key as usize];
        if let Some(change) = attempt.answering() {
            unflushed.change(attempt.cluster, &change);
        }
    }

    /// An attempt is over, and with it its reservation, if that is pending. Where the reported stats include the
    /// attempt, they are one too many from now on.
    pub(super) fn leave(&mut self, key: u32, unflushed: &mut Unflushed) {
        self.take_out(key);
        let mut attempt = self.attempts.remove(key as usize);
        let mut change = attempt.leaving();
        if attempt.is_pending() {
            self.counts.pending -= 1;
            self.counts.released += 1;
            Change { reserved: change.reserved, lane: change.lane, .. } = attempt.unreserving();
        } else if let Reservation::Included(list) = attempt.reservation {
            self.handovers.get_mut(list).count_ended();
            change.ended = 1;
        }
        unflushed.change(attempt.cluster, &change);
        unflushed.clusters().release(attempt.cluster);
    }

    /// Ends the reservations whose time is over.
    pub(super) fn expire(&mut self, now: Duration, unflushed: &mut Unflushed) {
        while let Some(first) = self.wheel.next_passed(now) {
            let mut next = Some(first);
            while let Some(key) = next {
                next = Chain::after(key, &self.attempts);
                if self.attempts[key as usize].due <= Wheel::tick_at_or_before(now) {
                    self.end(key, Reservation::Over, unflushed);
                    self.counts.expired += 1;
                }
            }
        }
    }

    /// When the next reservation may end by time.
    pub(super) fn next_expiry(&self) -> Option<Duration> {
        self.wheel.next_due()
    }

    /// Ends what belongs to registrations that are not among these, which are all, ordered by uid.
    pub(super) fn follow_registrations(&mut self, backends: &Arc<[Arc<Backend>]>, unflushed: &mut Unflushed) {
        if self.backends.as_ref().is_some_and(|known| Arc::ptr_eq(known, backends)) {
            return;
        }
        self.backends = Some(backends.clone());
        let is_registered =
            |uid: BackendUid| backends.binary_search_by_key(&uid, |backend| backend.uid).is_ok();
        for key in self.keys(|attempt| !is_registered(attempt.backend)) {
            if self.attempts[key as usize].is_pending() {
                self.end(key, Reservation::Over, unflushed);
                self.counts.dropped += 1;
            }
        }
        self.remove_handovers(|(_, backend)| !is_registered(backend), unflushed);
        self.sequences.retain(|backend, _| is_registered(*backend));
        unflushed.clusters().forget_unused();
        // Room for the number of the first attempt at each, so that none has to make it.
        self.sequences.reserve(backends.len().saturating_sub(self.sequences.len()));
    }

    /// Hands over what newer reports include.
    pub(super) fn follow_inclusions(
        &mut self,
        inclusions: &Inclusions,
        core: u32,
        unflushed: &mut Unflushed,
    ) {
        if self.handovers.inclusions.is_copy_of(inclusions) {
            return;
        }
        self.handovers.inclusions = inclusions.clone();
        for (cluster, backend, inclusion) in inclusions.iter() {
            match self.handovers.find(cluster, backend) {
                None => self.handovers.insert(cluster, backend, inclusion.report),
                Some(list) if self.handovers.get_mut(list).report < inclusion.report => {
                    let handover = self.handovers.get_mut(list);
                    handover.report = inclusion.report;
                    handover.forget_ended(unflushed);
                    // Marks beyond what was sent are of another registration of the backend, numbered anew.
                    let sent = self.sequences.get(&backend).copied().unwrap_or_default();
                    if let Some(included) = inclusion.of_core(core).filter(|core| core.through <= sent) {
                        self.hand_over(list, included, unflushed);
                    }
                }
                Some(_) => {}
            }
        }
        if self.handovers.len() > inclusions.len() {
            self.remove_handovers(|(cluster, backend)| inclusions.get(cluster, backend).is_none(), unflushed);
        }
    }

    fn hand_over(&mut self, list: u32, included: &CoreInclusion, unflushed: &mut Unflushed) {
        let mut next = self.handovers.get_mut(list).awaiting.first();
        while let Some(key) = next {
            let sequence = self.attempts[key as usize].sequence;
            if sequence > included.through {
                break;
            }
            next = Chain::after(key, &self.attempts);
            if included.includes(sequence) {
                self.end(key, Reservation::Included(list), unflushed);
                self.counts.handed_over += 1;
            }
        }
    }

    /// Removes the lists of which no report will tell any more. What still waits there ends by time.
    fn remove_handovers(
        &mut self,
        is_gone: impl Fn((ClusterUid, BackendUid)) -> bool,
        unflushed: &mut Unflushed,
    ) {
        let lists = self.handovers.iter_mut().filter(|(_, handover)| is_gone(handover.uids));
        let lists: Vec<u32> = lists
            .map(|(list, handover)| {
                handover.forget_ended(unflushed);
                list
            })
            .collect();
        if lists.is_empty() {
            return;
        }
        for key in self.keys(|attempt| attempt.reservation.list().is_some_and(|list| lists.contains(&list))) {
            let attempt = &self.attempts[key as usize];
            let is_late = attempt.due <= Wheel::tick_at_or_before(unflushed.now());
            if !attempt.is_pending() {
                self.attempts[key as usize].reservation = Reservation::Over;
            } else if is_late {
                self.end(key, Reservation::Over, unflushed);
                self.counts.expired += 1;
            } else {
                self.take_out(key);
                self.attempts[key as usize].reservation = Reservation::Timed;
                self.wheel.insert(key, &mut self.attempts);
            }
        }
        for list in lists {
            self.handovers.remove(list, unflushed);
        }
    }

    /// Undoes the counts of attempts that ended: nobody will be told of another report.
    pub(super) fn forget_ended(&mut self, unflushed: &mut Unflushed) {
        debug_assert!(self.attempts.is_empty(), "a handle outlives its core");
        for (_, handover) in self.handovers.iter_mut() {
            handover.forget_ended(unflushed);
        }
    }

    /// Ends a pending reservation.
    fn end(&mut self, key: u32, to: Reservation, unflushed: &mut Unflushed) {
        self.take_out(key);
        self.counts.pending -= 1;
        let attempt = &mut self.attempts[key as usize];
        attempt.reservation = to;
        unflushed.change(attempt.cluster, &attempt.unreserving());
    }

    /// Takes a reservation out of where it waits.
    fn take_out(&mut self, key: u32) {
        match self.attempts[key as usize].reservation {
            Reservation::Timed => self.wheel.remove(key, &mut self.attempts),
            Reservation::Awaited(list) => {
                self.handovers.get_mut(list).awaiting.remove(key, &mut self.attempts);
            }
            Reservation::Included(_) | Reservation::Over => {}
        }
    }

    fn keys(&self, is_meant: impl Fn(&Attempt) -> bool) -> Vec<u32> {
        let meant = self.attempts.iter().filter(|(_, attempt)| is_meant(attempt));
        meant.map(|(key, _)| key as u32).collect()
    }
}
