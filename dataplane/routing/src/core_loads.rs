//! One core's part in the load of clusters: what it has sent and has not told the other cores yet, and the
//! reservations that it has pending.
//!
//! A reservation stands for work just sent that the stats of its cluster cannot contain yet. It ends when the stats
//! must contain it: after one round trip to its backend or, where the backend says which attempts its report
//! includes, with the first report that does.
//!
//! Cores that wrote to the same counters at every request would wait for each other's caches. So a core keeps its
//! changes to itself, fewer than [`CHANGES_HELD_MAX`] of them and for at most [`unflushed::HELD_MAX`], and sees them in its
//! own decisions at once. What is traded: another core may decide by a load that misses them. Where one more request
//! matters, that would let two cores take one idle cluster of several, or one last place; so there it is avoided. When
//! a cluster runs few requests or has few slots left, an entry goes to the shared counters at once, by an exchange that
//! fails when another core came first, and the decision is made again. What such an entry can still miss is what another
//! core sent within the last [`unflushed::HELD_MAX`], when the cluster was neither.
//!
//! It has no clock: `now` is the time since a start that the caller chose, and never goes back.

pub(crate) mod attempt;
mod book;
mod chain;
mod clusters;
pub(crate) mod counts;
mod handovers;
pub(crate) mod inclusion;
pub(crate) mod running;
mod uid_hash;
pub(crate) mod unflushed;
mod wheel;

use std::{
    cell::{Cell, Ref, RefCell},
    fmt,
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use self::{
    attempt::{Charge, Place},
    book::Book,
    counts::ReservationCounts,
    inclusion::Inclusions,
    unflushed::{CHANGES_HELD_MAX, Unflushed},
};
use crate::{
    Accounting, Backend, Cluster, EffectiveStats, RoutingRequest,
    load::{Amount, Attempts, Change},
};

/// A cluster that runs fewer requests than this is as good as idle: one more is a difference.
const IDLE_BELOW: u64 = CHANGES_HELD_MAX as u64;
/// A cluster with no more free slots than this is nearly full. Two cores may keep so much back; more of them may
/// together keep back more, but of one cluster and within a turn of their event loops do not.
const NEARLY_FULL_AT: u64 = 2 * CHANGES_HELD_MAX as u64;

/// What one core has sent to clusters. Its handles keep it alive.
pub struct CoreLoads {
    /// CPU number of the core.
    core: u32,
    /// Whether other cores send to the same clusters.
    is_shared: bool,
    ttl: RangeInclusive<Duration>,
    /// Before this there is nothing to tell, and no reservation to end.
    quiet_until: Cell<Duration>,
    unflushed: RefCell<Unflushed>,
    book: RefCell<Book>,
}

// === impl CoreLoads ===

impl CoreLoads {
    /// The bounds of a reservation's life that nobody configured: below the least, stats cannot have come back over
    /// any network; above the most, they come too late to matter.
    pub const TTL: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_millis(2_000);

    /// Of the core on CPU `core`, one of `cores` that share clusters. A reservation that is not handed over lives for
    /// one round trip to its backend, within the bounds `ttl`; where none was measured, for the least of them.
    pub fn new(core: u32, cores: usize, ttl: RangeInclusive<Duration>) -> Self {
        Self {
            core,
            is_shared: cores > 1,
            ttl,
            quiet_until: Cell::new(Duration::MAX),
            unflushed: RefCell::default(),
            book: RefCell::default(),
        }
    }

    /// Tells the other cores what was kept from them for long enough, and ends the reservations whose time is over:
    /// none before it, each at most a millisecond after it. Decisions that enter begin with this.
    pub fn advance(&self, now: Duration) {
        let unflushed = &mut *self.unflushed.borrow_mut();
        unflushed.advance(now);
        if now < self.quiet_until.get() {
            return;
        }
        let book = &mut *self.book.borrow_mut();
        book.expire(now, unflushed);
        if unflushed.due().is_some_and(|due| due <= now) {
            unflushed.flush();
        }
        self.quiet_until.set(Duration::MAX);
        self.is_due_at(unflushed.due());
        self.is_due_at(book.next_expiry());
    }

    /// When [`Self::advance`] is to be called next; it may have passed already. There may turn out to be nothing to do
    /// by then.
    pub fn next_due(&self) -> Option<Duration> {
        Some(self.quiet_until.get()).filter(|due| *due < Duration::MAX)
    }

    /// Ends the reservations of registrations that are not among `backends`, where that list is known, and hands over those
    /// of attempts that `inclusions` tell of.
    pub(crate) fn follow_reports(&self, backends: Option<&Arc<[Arc<Backend>]>>, inclusions: &Inclusions) {
        let unflushed = &mut *self.unflushed.borrow_mut();
        let book = &mut *self.book.borrow_mut();
        if let Some(backends) = backends {
            book.follow_registrations(backends, unflushed);
        }
        book.follow_inclusions(inclusions, self.core, unflushed);
        self.is_due_at(unflushed.due());
        self.is_due_at(book.next_expiry());
    }

    /// Tells the other cores everything at once.
    pub fn flush(&self) {
        self.unflushed.borrow_mut().flush();
    }

    /// What has become of this core's reservations.
    pub fn counts(&self) -> ReservationCounts {
        self.book.borrow().counts()
    }

    /// How many reservations have ended while their attempts went on: expired, handed over or dropped. Once it has
    /// grown, who waits may find a place.
    pub fn lapsed(&self) -> u64 {
        self.book.borrow().counts().lapsed()
    }

    /// What is kept from the other cores: decisions of this one see it on top of the shared load.
    pub(crate) fn unflushed(&self) -> Ref<'_, Unflushed> {
        self.unflushed.borrow()
    }

    /// Takes a place in a cluster of these stats, where so many attempts were seen when it was chosen for its load;
    /// `None` where it was chosen whatever that was. Fails where one more matters and another core came first: then the
    /// choice is to be made again.
    pub(crate) fn take_place(
        &self,
        cluster: &Cluster,
        request: &RoutingRequest<'_>,
        stats: &EffectiveStats<'_>,
        seen: Option<Attempts>,
    ) -> Option<Place> {
        let load = &cluster.load;
        let charge = Charge::new(stats.reported, request);
        let unflushed = &mut *self.unflushed.borrow_mut();
        let place = Place { cluster: unflushed.clusters().hold(load), charge };
        if let Some(seen) = seen.filter(|_| self.is_exact(stats)) {
            let entering = Amount::entering(charge.input);
            // What was seen contains what is kept here.
            unflushed.flush_of(place.cluster);
            let is_first = match stats.reported.accounting {
                Accounting::InFlight => load.enter_unless_raised(entering, seen),
                Accounting::Reservations => load.reserve_unless_raised(entering, charge.lane, seen),
            };
            if !is_first {
                unflushed.clusters().release(place.cluster);
                return None;
            }
            if charge.is_reserved {
                // Nobody decides by what is in flight here.
                unflushed.change(place.cluster, &Change { in_flight: entering, ..Change::default() });
            }
        } else {
            unflushed.change(place.cluster, &charge.change());
        }
        self.is_due_at(unflushed.due());
        Some(place)
    }

    /// Gives back a place in a cluster that has no backend for it.
    pub(crate) fn give_back(&self, Place { cluster, charge }: Place) {
        let unflushed = &mut *self.unflushed.borrow_mut();
        unflushed.change(cluster, &charge.change().reversed());
        unflushed.clusters().release(cluster);
        self.is_due_at(unflushed.due());
    }

    /// The engine of an attempt has begun to answer.
    fn first_byte(&self, key: u32) {
        let unflushed = &mut *self.unflushed.borrow_mut();
        self.book.borrow_mut().first_byte(key, unflushed);
        self.is_due_at(unflushed.due());
    }

    /// An attempt is over.
    fn leave(&self, key: u32) {
        let unflushed = &mut *self.unflushed.borrow_mut();
        self.book.borrow_mut().leave(key, unflushed);
        self.is_due_at(unflushed.due());
    }

    fn sequence(&self, key: u32) -> Option<u64> {
        self.book.borrow().sequence(key)
    }

    fn ttl_to(&self, backend: &Backend) -> Duration {
        let rtt = backend.rtt.get().map_or(Duration::ZERO, |(rtt, _)| rtt.into());
        rtt.max(*self.ttl.start()).min(*self.ttl.end())
    }

    /// Whether one request more or less matters so much that all cores are to know it at once. Of slots that are not
    /// reported nobody can tell which is the last.
    fn is_exact(&self, stats: &EffectiveStats<'_>) -> bool {
        let (slots, running) = (stats.reported.max_engine_concurrency, stats.num_running_queries);
        let is_nearly_full = slots > 0 && slots.saturating_sub(running) <= NEARLY_FULL_AT;
        self.is_shared && (running < IDLE_BELOW || is_nearly_full)
    }

    fn is_due_at(&self, due: Option<Duration>) {
        if let Some(due) = due {
            self.quiet_until.set(self.quiet_until.get().min(due));
        }
    }
}

impl Default for CoreLoads {
    /// Of one core, which shares clusters with no other.
    fn default() -> Self {
        Self::new(0, 1, Self::TTL)
    }
}

impl Drop for CoreLoads {
    /// All handles are gone. What is left are attempts that had been included when they ended, and what was kept here.
    fn drop(&mut self) {
        let unflushed = self.unflushed.get_mut();
        self.book.get_mut().forget_ended(unflushed);
        unflushed.flush();
    }
}

impl fmt::Debug for CoreLoads {
    /// Not what it holds: every handle would print all of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreLoads").field("core", &self.core).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
