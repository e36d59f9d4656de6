//! Those who wait for one target at one core, and what has happened since they were decided.
//!
//! What happens is only noted ([`Line::freed`], [`Line::refresh`]); [`Line::serve`] decides, in the order of service, whoever it
//! may concern. Each event has its bound. A place that became free can serve one waiter, so the first that takes it ends
//! the search. Time concerns those who are due. What concerns everybody is gone through a slice at a time.

use std::{rc::Rc, time::Duration};

use super::{Ticket, WaitQueue};
use crate::WaitOrder;

/// Most waiters that are asked whether a free place is theirs. It may be for none of them; the others are asked
/// with everybody.
const ASKED_MAX: usize = 256;
/// Most waiters that are decided in one go: about half a millisecond.
const SLICE: usize = 1024;
/// When the rest of them are decided.
const NEXT_SLICE: Duration = Duration::from_millis(1);

/// One who waits.
pub trait Waits {
    /// When it is to be decided again, whatever happens.
    fn due(&self) -> Duration;
}

impl<W: Waits> Waits for Rc<W> {
    fn due(&self) -> Duration {
        W::due(self)
    }
}

/// The waiters of one target. Its times are those of its waiters.
#[derive(Debug)]
pub struct Line<W> {
    waiters: WaitQueue<W>,
    /// The earliest time at which one of them may be decided otherwise, nothing else happening.
    due: Duration,
    /// Places that became free since they were decided.
    freed: u32,
    /// Anything may have changed since they were decided.
    is_stale: bool,
    /// Where a pass over all of them is to be taken up again.
    resume: Option<Ticket>,
}

/// Whom a pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    /// Everybody.
    All,
    /// Those whose time has come.
    Due,
    /// Whoever can take one of so many free places.
    Freed(u32),
    /// Those who are to be served before one of this priority who arrived then.
    AheadOf(u32, Duration),
}

// === impl Line ===

impl<W: Waits> Line<W> {
    /// Nobody, and at most so many.
    pub fn new(order: WaitOrder, waiters_max: usize) -> Self {
        Self {
            waiters: WaitQueue::new(order, waiters_max),
            due: Duration::MAX,
            freed: 0,
            is_stale: false,
            resume: None,
        }
    }

    /// Takes over other settings. Those who wait already stay, though they may be more than that.
    pub fn configure(&mut self, order: WaitOrder, waiters_max: usize) {
        self.waiters.configure(order, waiters_max);
    }

    /// Takes a waiter in, or gives it back where there is no room. `limit`, counted from its arrival, is when waiting
    /// becomes pointless for it.
    pub fn join(
        &mut self,
        priority: u32,
        arrived: Duration,
        limit: Duration,
        waiter: W,
    ) -> Result<Ticket, W> {
        let due = waiter.due();
        let ticket = self.waiters.insert(priority, arrived, limit, waiter)?;
        self.due = self.due.min(due);
        Ok(ticket)
    }

    /// A waiter leaves by itself.
    pub fn leave(&mut self, ticket: Ticket, now: Duration) -> Option<W> {
        self.waiters.remove(ticket, now)
    }

    /// So many places have become free.
    pub fn freed(&mut self, places: u32) {
        self.freed = self.freed.saturating_add(places);
    }

    /// Anything may have changed: everybody is to be decided again.
    pub fn refresh(&mut self) {
        self.is_stale = true;
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// When somebody is due, nothing happening before; `None` while nobody waits.
    pub fn next_due(&self) -> Option<Duration> {
        (!self.is_empty()).then_some(self.due)
    }

    /// Whether nothing is lost with this line: nobody waits, and whoever comes is served in the ordinary order.
    pub fn is_idle(&mut self, now: Duration) -> bool {
        self.waiters.update(now);
        self.waiters.is_empty() && !self.waiters.is_newest_first()
    }

    /// Decides everybody who may be decided otherwise than before. `ask` rules on a waiter, as one of many that wait or as
    /// one that comes alone, and says what became of it, a place (`Ok`) or not, unless it waits on; `end` is given who has
    /// left the line by that.
    pub fn serve<P, R>(
        &mut self,
        now: Duration,
        mut ask: impl FnMut(&W, bool) -> Option<Result<P, R>>,
        mut end: impl FnMut(W, Result<P, R>),
    ) {
        let freed = std::mem::take(&mut self.freed);
        if self.is_stale || self.resume.is_some() {
            self.pass(Whom::All, now, &mut ask, &mut end);
            return;
        }
        if self.due <= now {
            self.pass(Whom::Due, now, &mut ask, &mut end);
        }
        if freed > 0 {
            self.pass(Whom::Freed(freed), now, &mut ask, &mut end);
        }
    }

    /// Decides those who are to be served before a request of this priority that arrived then and has just come. Whether
    /// one of them has been served in its stead.
    ///
    /// What has just come may take a place whatever this gateway's share of the room is, as it comes alone. That right
    /// passes to the first of those ahead who can use it, or whoever comes would overtake all who wait for their share.
    pub fn serve_ahead<P, R>(
        &mut self,
        priority: u32,
        arrived: Duration,
        now: Duration,
        mut ask: impl FnMut(&W, bool) -> Option<Result<P, R>>,
        mut end: impl FnMut(W, Result<P, R>),
    ) -> bool {
        self.pass(Whom::AheadOf(priority, arrived), now, &mut ask, &mut end) > 0
    }

    /// How many of them were given places.
    fn pass<P, R>(
        &mut self,
        whom: Whom,
        now: Duration,
        ask: &mut impl FnMut(&W, bool) -> Option<Result<P, R>>,
        end: &mut impl FnMut(W, Result<P, R>),
    ) -> u32 {
        self.waiters.update(now);
        let mut next = self.start(whom);
        let (mut asked, mut served) = (0, 0);
        let mut due = Duration::MAX;
        while let Some(ticket) = next {
            // After a pause the one to go on with may have left.
            let Some(waiter) = self.waiters.get(ticket) else {
                next = self.waiters.after(ticket);
                continue;
            };
            let is_over = match whom {
                Whom::All => asked == SLICE,
                Whom::Due => false,
                Whom::Freed(places) => served == places || asked == ASKED_MAX,
                Whom::AheadOf(priority, arrived) => {
                    asked == ASKED_MAX || !self.waiters.is_ahead(ticket, priority, arrived)
                }
            };
            if is_over {
                if whom == Whom::All {
                    self.resume = Some(ticket);
                    due = now + NEXT_SLICE;
                }
                break;
            }
            if whom != Whom::Due || waiter.due() <= now {
                asked += 1;
                let is_one_of_many = served > 0 || !matches!(whom, Whom::AheadOf(..));
                if let Some(outcome) = ask(waiter, is_one_of_many) {
                    served += u32::from(outcome.is_ok());
                    next = self.waiters.after(ticket);
                    if let Some(waiter) = self.waiters.remove(ticket, now) {
                        end(waiter, outcome);
                    }
                    continue;
                }
            }
            due = due.min(waiter.due());
            next = self.waiters.after(ticket);
        }
        if self.is_stale {
            // Something happened between two slices: once more, from the start.
            due = due.min(now + NEXT_SLICE);
        }
        self.due = match whom {
            Whom::All | Whom::Due => due,
            Whom::Freed(_) | Whom::AheadOf(..) => due.min(self.due),
        };
        served
    }

    /// Where a pass begins: at who is to be served first, but for one over everybody that was interrupted.
    fn start(&mut self, whom: Whom) -> Option<Ticket> {
        if whom == Whom::All {
            if let Some(resume) = self.resume.take() {
                return Some(resume);
            }
            self.is_stale = false;
        }
        self.waiters.first()
    }
}

#[cfg(test)]
mod tests;
