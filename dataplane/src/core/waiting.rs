//! The requests of one core that wait for a place, by target, and what has happened since they were decided.
//!
//! What happens is only noted here: a place became free ([`WaitRoom::freed`]), a snapshot was published, time has
//! passed. One task a core ([`serve`]) wakes for it and decides, in the order of service ([`pass`]), whoever it
//! may concern. Waiters have no timers and are not woken but to be told their outcome. While nobody waits, none
//! of this costs more than a look at a count.

pub(crate) mod pass;
mod serve;
mod waiter;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use stargate_routing::{TargetName, Ticket, WaitQueue};

pub(crate) use self::{
    serve::serve,
    waiter::{Waiter, WaiterHandle},
};
use crate::{
    core::{Core, bell::Bell, levels::Levels, wakeup::Wakeup},
    error::{ErrorCode, Refusal, Rejection},
};

/// All waiters of one core.
#[derive(Debug)]
pub(crate) struct WaitRoom {
    /// What the times in here are counted from.
    started: Instant,
    bell: Arc<Bell>,
    levels: Arc<Levels>,
    count: Cell<usize>,
    queues: RefCell<HashMap<Arc<TargetName>, Queue>>,
    /// Of the snapshot that all have been decided on.
    version: Cell<u64>,
    /// The bell has rung, and so is not armed any more.
    has_rung: Cell<bool>,
    /// When the serving task wakes by itself.
    wakes_at: Cell<Duration>,
    wakeup: Wakeup,
    /// When the gateway, which is to stop, gives up on those who still wait.
    closes_at: Cell<Option<Instant>>,
}

/// Tells targets apart without comparing names: the address of the name, which lives as long as its target, and
/// which a queue keeps alive. A target that ends and comes back has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetKey(usize);

/// The waiters of one target.
#[derive(Debug)]
struct Queue {
    name: Arc<TargetName>,
    waiters: WaitQueue<Rc<Waiter>>,
    /// The earliest time at which one of them may be decided otherwise, nothing else happening.
    due: Duration,
    /// Places that became free since they were decided.
    freed: u32,
    /// Anything may have changed since they were decided.
    is_stale: bool,
    /// Where a pass over all of them is to be taken up again.
    resume: Option<Ticket>,
}

// === impl TargetKey ===

impl TargetKey {
    pub(crate) fn of(name: &Arc<TargetName>) -> Self {
        Self(Arc::as_ptr(name).addr())
    }
}

// === impl WaitRoom ===

impl WaitRoom {
    pub(crate) fn new(bell: Arc<Bell>, levels: Arc<Levels>, now: Instant) -> Self {
        Self {
            started: now,
            bell,
            levels,
            count: Cell::new(0),
            queues: RefCell::default(),
            version: Cell::new(0),
            has_rung: Cell::new(false),
            wakes_at: Cell::new(Duration::MAX),
            wakeup: Wakeup::default(),
            closes_at: Cell::new(None),
        }
    }

    /// Whether anybody waits for this target.
    pub(crate) fn has_waiters(&self, target: &TargetName) -> bool {
        self.count.get() > 0
            && self.queues.borrow().get(target).is_some_and(|queue| !queue.waiters.is_empty())
    }

    /// Takes in a request that was decided on the snapshot of this version, unless there is no room for it.
    pub(crate) fn join(
        self: &Rc<Self>,
        core: &Core,
        target: Arc<TargetName>,
        waiter: Rc<Waiter>,
        version: u64,
        now: Instant,
    ) -> Result<WaiterHandle, Refusal> {
        if self.has_closed(now) {
            return Err(shutting_down(&target));
        }
        let due = self.due(&waiter);
        let ticket = {
            let mut queues = self.queues.borrow_mut();
            let queue = queues.entry(target.clone()).or_insert_with(|| Queue::new(target.clone(), &waiter));
            let waiting = waiter.routed().waiting();
            queue.waiters.configure(waiting.order, waiting.max_waiters as usize);
            let arrived = self.time(waiter.arrived());
            let inserted =
                queue.waiters.insert(waiter.priority(), arrived, waiter.routed().limit(), waiter.clone());
            let Ok(ticket) = inserted else {
                let message = format!(
                    "too many requests wait for the model `{}` already: {} on this core (max_waiters)",
                    target.model, waiting.max_waiters
                );
                return Err(Refusal::rejection(ErrorCode::NoCapacity, Rejection::TooManyWaiters, message));
            };
            queue.due = queue.due.min(due);
            ticket
        };
        if self.count.get() == 0 {
            // What is published from here on rings; what was published since the decision is seen below.
            self.bell.arm();
            self.version.set(version);
        }
        self.set_count(self.count.get() + 1);
        let has_changed = core.with_snapshot(|snapshot| snapshot.version != self.version.get());
        if has_changed || due < self.wakes_at.get() {
            self.wakeup.wake();
        }
        Ok(WaiterHandle::new(waiter, target, ticket, self.clone()))
    }

    /// A place has become free in some cluster of this target.
    pub(crate) fn freed(&self, target: TargetKey) {
        if self.count.get() == 0 {
            return;
        }
        // Taken only while waiters are decided; that frees nothing, but where it is unwound by a panic.
        let Ok(mut queues) = self.queues.try_borrow_mut() else { return };
        let is_waited_for =
            |queue: &&mut Queue| TargetKey::of(&queue.name) == target && !queue.waiters.is_empty();
        if let Some(queue) = queues.values_mut().find(is_waited_for) {
            queue.freed = queue.freed.saturating_add(1);
            drop(queues);
            self.wakeup.wake();
        }
    }

    /// The bell has rung.
    pub(crate) fn heard(&self) {
        self.has_rung.set(true);
        self.wakeup.wake();
    }

    /// Has everybody decided again: the resort for whatever is not told, such as a place that another core's
    /// request has left.
    pub(crate) fn refresh(&self) {
        if self.count.get() > 0 {
            self.queues.borrow_mut().values_mut().for_each(|queue| queue.is_stale = true);
            self.wakeup.wake();
        }
    }

    /// From this time on nobody waits any more.
    pub(crate) fn close_at(&self, at: Instant) {
        self.closes_at.set(Some(at));
        self.wakeup.wake();
    }

    /// Forgets queues that are empty, and in order again, since nobody may come to them any more.
    pub(crate) fn sweep(&self, now: Instant) {
        let now = self.time(now);
        self.queues.borrow_mut().retain(|_, queue| {
            queue.waiters.update(now);
            !queue.waiters.is_empty() || queue.waiters.is_newest_first()
        });
    }

    fn has_closed(&self, now: Instant) -> bool {
        self.closes_at.get().is_some_and(|at| now >= at)
    }

    /// A waiter leaves by itself.
    fn leave(&self, target: &TargetName, ticket: Ticket, now: Instant) {
        let mut queues = self.queues.borrow_mut();
        if queues.get_mut(target).is_some_and(|queue| queue.waiters.remove(ticket, self.time(now)).is_some())
        {
            drop(queues);
            self.set_count(self.count.get() - 1);
        }
    }

    fn set_count(&self, count: usize) {
        self.count.set(count);
        self.levels.waiters.set(count as u64);
        if count == 0 {
            self.bell.disarm();
        }
    }

    fn time(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.started)
    }

    fn due(&self, waiter: &Waiter) -> Duration {
        self.time(waiter.due())
    }

    /// When somebody is due next, if nothing happens before.
    fn next_due(&self) -> Option<Duration> {
        if self.count.get() == 0 {
            return None;
        }
        let queues = self.queues.borrow();
        let waiting = queues.values().filter(|queue| !queue.waiters.is_empty());
        let closes_at = self.closes_at.get().map(|at| self.time(at));
        waiting.map(|queue| queue.due).chain(closes_at).min()
    }
}

// === impl Queue ===

impl Queue {
    fn new(name: Arc<TargetName>, first: &Waiter) -> Self {
        let waiting = first.routed().waiting();
        Self {
            name,
            waiters: WaitQueue::new(waiting.order, waiting.max_waiters as usize),
            due: Duration::MAX,
            freed: 0,
            is_stale: false,
            resume: None,
        }
    }
}

fn shutting_down(target: &TargetName) -> Refusal {
    let message = format!(
        "this gateway is stopping, and the model `{}` has no place for the request before it does",
        target.model
    );
    Refusal::new(ErrorCode::ShuttingDown, message)
}

#[cfg(test)]
mod tests;
