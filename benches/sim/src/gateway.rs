//! A gateway of one core: what it knows, who waits at it, and what it decides.
//!
//! Ours decide by `stargate-routing`, its wait queue, its reservations and all. Baselines choose by themselves, see the
//! same effective stats, and have their requests counted by the same code. The order of things in a pass over waiters
//! is the data plane's (`dataplane/src/waiting/pass.rs`).

mod chooser;
mod knowledge;
mod wait;

use std::{cell::Cell, cmp::Reverse, collections::BinaryHeap, time::Duration};

use stargate_routing::{Exclusions, Running, Ticket, WaitQueue, Waiting};

use self::chooser::{Room, Verdict};
pub(super) use self::{
    chooser::{Chooser, Decider},
    knowledge::{Known, Seen, visible_from},
};
use super::model::Prompt;

/// A request at its gateway.
#[derive(Debug)]
pub(super) struct Claim {
    /// Its number in the world.
    pub(super) request: usize,
    pub(super) arrived: Duration,
    pub(super) prompt: Prompt,
    pub(super) key: [u8; 4],
    pub(super) exclusions: Exclusions,
    /// The same clusters by number.
    pub(super) excluded: Vec<usize>,
    /// While it waits: when it is decided again, whatever happens.
    pub(super) due: Cell<Duration>,
    /// While it waits: the clusters of the target where its key is at home.
    pub(super) home: Box<[usize]>,
}

/// Where a request was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) cluster: usize,
    /// `None` where the gateway does not count what it has sent.
    pub(super) running: Option<Running>,
    pub(super) sequence: Option<u64>,
    pub(super) is_overflow: bool,
}

/// What came of those whom a gateway has decided.
#[derive(Debug, Default)]
pub(super) struct Served {
    pub(super) sent: Vec<(Claim, Sent)>,
    /// Requests that were refused or given up on.
    pub(super) rejected: Vec<usize>,
    /// A request that waits from now on, and its place.
    pub(super) joined: Option<(usize, Ticket)>,
}

pub(super) struct Gateway {
    chooser: Chooser,
    queue: WaitQueue<Claim>,
    /// When waiters' decisions may be other ones by themselves. Those of tickets that have left mean nothing.
    dues: BinaryHeap<Reverse<(Duration, Ticket)>>,
    /// When all waiters are looked at, so that those who wait in vain leave.
    next_sweep: Duration,
    /// By cluster of the target: room that the last pass over all waiters left, since it was for none of them.
    in_vain: Vec<Room>,
    /// To work in.
    room: Vec<Room>,
    /// Waiters are not decided who would hardly find anything. Without it figures differ by noise, which a test tries.
    pub(super) takes_shortcuts: bool,
}

// === impl Gateway ===

impl Gateway {
    /// How often those leave who wait in vain, while nothing else has them looked at.
    const SWEEP: Duration = Duration::from_millis(100);
    /// Most waiters that are asked whether a free place is theirs.
    const ASKED_MAX: usize = 256;

    pub(super) fn new(chooser: Chooser) -> Self {
        let Waiting { order, max_waiters, .. } = *chooser.waiting();
        Self {
            chooser,
            queue: WaitQueue::new(order, max_waiters as usize),
            dues: BinaryHeap::new(),
            next_sweep: Duration::ZERO,
            in_vain: Vec::new(),
            room: Vec::new(),
            takes_shortcuts: true,
        }
    }

    /// A request arrives, or comes back from an attempt that failed.
    pub(super) fn arrived(&mut self, claim: Claim, now: Duration, world: &Seen<'_>) -> Served {
        let mut served = Served::default();
        self.chooser.look(now, world);
        if !self.queue.is_empty() {
            self.serve_ahead(&claim, now, world.engines, &mut served);
        }
        match self.chooser.choose(&claim, false, now, world.engines) {
            Verdict::Sent(sent) => served.sent.push((claim, sent)),
            Verdict::Refused => served.rejected.push(claim.request),
            Verdict::Wait(until) => self.join(claim, until, now, &mut served),
        }
        served
    }

    /// Something may have changed for those who wait.
    pub(super) fn wake(&mut self, now: Duration, world: &Seen<'_>) -> Served {
        let mut served = Served::default();
        if self.queue.is_empty() {
            return served;
        }
        let has_changed = self.chooser.look(now, world) | self.chooser.advance(now);
        self.queue.update(now);
        let is_sweep = now >= self.next_sweep;
        if has_changed || is_sweep {
            self.pass(now, world.engines, is_sweep, &mut served);
        }
        self.serve_due(now, world.engines, &mut served);
        served
    }

    /// A place has become free here, as far as this gateway is told: an attempt of its own has ended.
    pub(super) fn freed(&mut self, now: Duration, world: &Seen<'_>) -> Served {
        let mut served = Served::default();
        if !self.queue.is_empty() {
            self.chooser.look(now, world);
            self.chooser.advance(now);
            self.queue.update(now);
            self.pass(now, world.engines, false, &mut served);
        }
        served
    }

    /// An attempt at a cluster has ended, however it did.
    pub(super) fn ended(&mut self, cluster: usize) {
        self.chooser.ended(cluster);
    }

    /// The client of a waiter has left.
    pub(super) fn leave(&mut self, ticket: Ticket, now: Duration) {
        self.queue.remove(ticket, now);
    }

    /// A cluster has come or gone, as far as this gateway knows.
    pub(super) fn set_routable(&mut self, cluster: usize, is_routable: bool) {
        self.chooser.set_routable(cluster, is_routable);
        self.in_vain.clear();
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// When [`Self::wake`] is to be called next, if no report comes before; `None` while nobody waits.
    pub(super) fn next_due(&self) -> Option<Duration> {
        if self.queue.is_empty() {
            return None;
        }
        let due = self.dues.peek().map(|Reverse((due, _))| *due);
        due.into_iter().chain(self.chooser.next_due()).chain([self.next_sweep]).min()
    }

    /// When the first report becomes visible here that has not been seen.
    pub(super) fn next_report(&self, world: &Seen<'_>) -> Option<Duration> {
        self.chooser.next_report(world)
    }
}
