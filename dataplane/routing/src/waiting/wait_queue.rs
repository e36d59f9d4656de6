//! Who is served next among the requests that wait for one target.
//!
//! By priority, then the oldest first. In overload the oldest are the likeliest to be late whatever is done,
//! and serving them makes everybody late; so then the newest come first within a priority, until the queue
//! has been short for a while. Time is given from outside, counted from any one moment: the proxy's clock and
//! a simulator's are the same to it.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
    time::Duration,
};

use crate::WaitOrder;

/// A queue of this length or less is short: nobody in it waits for many others.
const SHORT: usize = 8;
/// How long a queue must have been short before the oldest come first again, so that one quiet moment within
/// an overload does not turn the order around.
const CALM: Duration = Duration::from_secs(1);

/// The waiters of one target.
#[derive(Debug)]
pub struct WaitQueue<T> {
    order: WaitOrder,
    waiters_max: usize,
    waiters: BTreeMap<Ticket, T>,
    /// The limit of each waiter by (arrival, sequence): the oldest of any priority is the first.
    limits: BTreeMap<(Duration, u64), Duration>,
    next_sequence: u64,
    is_newest_first: bool,
    /// Since when the queue has been short without a break; `None` while it is not.
    short_since: Option<Duration>,
}

/// A place in a [`WaitQueue`]. The natural order of tickets is the order of service without overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    priority: u32,
    arrived: Duration,
    /// Tells those apart that arrived at once, and is never used again.
    sequence: u64,
}

// === impl WaitQueue ===

impl<T> WaitQueue<T> {
    /// An empty queue of at most `waiters_max`.
    pub fn new(order: WaitOrder, waiters_max: usize) -> Self {
        Self {
            order,
            waiters_max,
            waiters: BTreeMap::new(),
            limits: BTreeMap::new(),
            next_sequence: 0,
            is_newest_first: false,
            short_since: Some(Duration::ZERO),
        }
    }

    /// Takes over other settings. Those who wait already stay, though they may be more than that.
    pub fn configure(&mut self, order: WaitOrder, waiters_max: usize) {
        self.order = order;
        self.waiters_max = waiters_max;
    }

    /// Takes a waiter in, or gives it back when the queue is full. `limit`, counted from its arrival, is when
    /// waiting becomes pointless for it: its deadline, or its SLO where that is shorter.
    pub fn insert(
        &mut self,
        priority: u32,
        arrived: Duration,
        limit: Duration,
        waiter: T,
    ) -> Result<Ticket, T> {
        if self.is_full() {
            return Err(waiter);
        }
        let ticket = Ticket { priority, arrived, sequence: self.next_sequence };
        self.next_sequence += 1;
        self.waiters.insert(ticket, waiter);
        self.limits.insert(ticket.age(), limit);
        if self.len() > SHORT {
            self.short_since = None;
        }
        Ok(ticket)
    }

    /// Takes a waiter out; `None` when it is not there any more.
    pub fn remove(&mut self, ticket: Ticket, now: Duration) -> Option<T> {
        let waiter = self.waiters.remove(&ticket)?;
        self.limits.remove(&ticket.age());
        if self.len() <= SHORT {
            self.short_since.get_or_insert(now);
        }
        Some(waiter)
    }

    /// Changes between the two orders, where it is time for that.
    pub fn update(&mut self, now: Duration) {
        let is_calm = || self.short_since.is_some_and(|since| now.saturating_sub(since) >= CALM);
        self.is_newest_first = self.order == WaitOrder::Adaptive
            && (self.is_overloaded(now) || (self.is_newest_first && !is_calm()));
    }

    /// Whether the newest come first, as of the last [`Self::update`].
    pub fn is_newest_first(&self) -> bool {
        self.is_newest_first
    }

    /// The oldest waiter, of whatever priority, has waited longer than half its limit.
    fn is_overloaded(&self, now: Duration) -> bool {
        let oldest = self.limits.first_key_value();
        oldest.is_some_and(|((arrived, _), limit)| now.saturating_sub(*arrived).saturating_mul(2) > *limit)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Whether nobody else may come to wait.
    pub fn is_full(&self) -> bool {
        self.len() >= self.waiters_max
    }

    /// The waiter that holds this ticket.
    pub fn get(&self, ticket: Ticket) -> Option<&T> {
        self.waiters.get(&ticket)
    }

    /// Who is to be served first.
    pub fn first(&self) -> Option<Ticket> {
        if self.is_newest_first {
            self.newest_of(self.waiters.first_key_value()?.0.priority)
        } else {
            self.waiters.first_key_value().map(|(ticket, _)| *ticket)
        }
    }

    /// Who is to be served after `ticket`, which may have left meanwhile.
    pub fn after(&self, ticket: Ticket) -> Option<Ticket> {
        let first_from = |from| self.waiters.range((from, Unbounded)).next().map(|(found, _)| *found);
        if !self.is_newest_first {
            return first_from(Excluded(ticket));
        }
        let of_priority = Ticket::first_of(ticket.priority)..ticket;
        let older = self.waiters.range(of_priority).next_back().map(|(found, _)| *found);
        older.or_else(|| {
            let less_urgent = first_from(Excluded(Ticket::last_of(ticket.priority)))?;
            self.newest_of(less_urgent.priority)
        })
    }

    /// All waiters in the order of service.
    pub fn iter(&self) -> impl Iterator<Item = (Ticket, &T)> {
        std::iter::successors(self.first(), |ticket| self.after(*ticket))
            .filter_map(|ticket| Some((ticket, self.waiters.get(&ticket)?)))
    }

    /// Whether the holder of `ticket` is to be served before one who comes now, having arrived at `arrived`.
    pub fn is_ahead(&self, ticket: Ticket, priority: u32, arrived: Duration) -> bool {
        if ticket.priority != priority {
            return ticket.priority < priority;
        }
        if self.is_newest_first { ticket.arrived > arrived } else { ticket.arrived <= arrived }
    }

    fn newest_of(&self, priority: u32) -> Option<Ticket> {
        let of_priority = Ticket::first_of(priority)..=Ticket::last_of(priority);
        self.waiters.range(of_priority).next_back().map(|(ticket, _)| *ticket)
    }
}

// === impl Ticket ===

impl Ticket {
    fn age(self) -> (Duration, u64) {
        (self.arrived, self.sequence)
    }

    fn first_of(priority: u32) -> Self {
        Self { priority, arrived: Duration::ZERO, sequence: 0 }
    }

    fn last_of(priority: u32) -> Self {
        Self { priority, arrived: Duration::MAX, sequence: u64::MAX }
    }
}

#[cfg(test)]
mod tests;
