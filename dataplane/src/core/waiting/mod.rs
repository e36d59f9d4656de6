//! The requests of one core that wait for a place, by target.
//!
//! What happens is only noted: a place became free ([`Vacancies`]), a snapshot was published, time has passed. One task a
//! core ([`serve`]) wakes for it and has the lines of waiters decide whoever it may concern. Waiters have no timers and are
//! not woken but to be told their outcome. While nobody waits, none of this costs more than a look at a count.

mod serve;
mod waiter;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use stargate_routing::{Line, Ruling, Snapshot, Target, TargetName, Ticket, Waits};

use self::waiter::Outcome;
pub(crate) use self::{
    serve::serve,
    waiter::{Newcomer, Waiter, WaiterHandle},
};
use super::{
    bell::Bell,
    levels::Levels,
    placing::{
        Decider, refusal, shutting_down, too_many_waiters,
        vacancies::{TargetKey, Vacancies},
    },
};
use crate::error::Refusal;

/// All waiters of one core.
#[derive(Debug)]
pub(crate) struct WaitRoom {
    decider: Rc<Decider>,
    /// The decider's, at hand.
    vacancies: Rc<Vacancies>,
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
    /// When the gateway, which is to stop, gives up on those who still wait.
    closes_at: Cell<Option<Duration>>,
}

/// The waiters of one target.
#[derive(Debug)]
struct Queue {
    name: Arc<TargetName>,
    line: Line<Rc<Waiter>>,
}

// === impl WaitRoom ===

impl WaitRoom {
    pub(crate) fn new(decider: Rc<Decider>, bell: Arc<Bell>, levels: Arc<Levels>) -> Self {
        Self {
            vacancies: decider.vacancies.clone(),
            decider,
            bell,
            levels,
            count: Cell::new(0),
            queues: RefCell::default(),
            version: Cell::new(0),
            has_rung: Cell::new(false),
            wakes_at: Cell::new(Duration::MAX),
            closes_at: Cell::new(None),
        }
    }

    /// Whether anybody waits for this target.
    pub(crate) fn has_waiters(&self, target: &TargetName) -> bool {
        self.count.get() > 0 && self.queues.borrow().get(target).is_some_and(|queue| !queue.line.is_empty())
    }

    /// Takes in a request that is to wait, unless there is no room for it.
    pub(crate) fn join(self: &Rc<Self>, newcomer: Newcomer, now: Duration) -> Result<WaiterHandle, Refusal> {
        let Newcomer { target, waiter, version } = newcomer;
        if self.has_closed(now) {
            return Err(shutting_down(&target));
        }
        let due = waiter.due();
        let ticket = {
            let mut queues = self.queues.borrow_mut();
            let waiting = waiter.routed().waiting();
            let (order, waiters_max) = (waiting.order, waiting.max_waiters as usize);
            let queue = queues
                .entry(target.clone())
                .or_insert_with(|| Queue { name: target.clone(), line: Line::new(order, waiters_max) });
            self.rename(queue, &target);
            queue.line.configure(order, waiters_max);
            let limit = waiter.routed().limit();
            let joined = queue.line.join(waiter.priority(), waiter.arrived(), limit, waiter.clone());
            let Ok(ticket) = joined else {
                return Err(too_many_waiters(&target.model, waiting.max_waiters));
            };
            self.vacancies.watch(TargetKey::of(&queue.name));
            ticket
        };
        if self.count.get() == 0 {
            // What is published from here on rings; what was published since the decision is seen below.
            self.bell.arm();
            self.version.set(version);
        }
        self.set_count(self.count.get() + 1);
        let has_changed = self.decider.with_snapshot(|snapshot| snapshot.version != self.version.get());
        if has_changed || due < self.wakes_at.get() {
            self.vacancies.wakeup.wake();
        }
        Ok(WaiterHandle::new(waiter, target, ticket, self.clone()))
    }

    /// The bell has rung.
    pub(crate) fn heard(&self) {
        self.has_rung.set(true);
        self.vacancies.wakeup.wake();
    }

    /// Has everybody decided again: the resort for whatever is not told, such as a place that another core's
    /// request has left.
    pub(crate) fn refresh(&self) {
        if self.count.get() > 0 {
            self.queues.borrow_mut().values_mut().for_each(|queue| queue.line.refresh());
            self.vacancies.wakeup.wake();
        }
    }

    /// From this time on nobody waits any more.
    pub(crate) fn close_at(&self, at: Instant) {
        self.closes_at.set(Some(self.decider.time(at)));
        self.vacancies.wakeup.wake();
    }

    /// Forgets queues that are empty, and in order again, since nobody may come to them any more.
    pub(crate) fn sweep(&self, now: Instant) {
        let now = self.decider.time(now);
        self.queues.borrow_mut().retain(|_, queue| !queue.line.is_idle(now));
    }

    /// Decides those who are to be served before a request of this priority that arrived then and has just come. Whether
    /// one of them has been served in its stead.
    pub(crate) fn serve_ahead(
        &self,
        target: &Target,
        priority: u32,
        arrived: Duration,
        now: Duration,
    ) -> bool {
        let mut queues = self.queues.borrow_mut();
        let Some(Queue { name, line }) = queues.get_mut(&*target.name) else { return false };
        let ask = |waiter: &Rc<Waiter>, is_one_of_many: bool| {
            self.ask(name, Some(target), waiter, is_one_of_many, now)
        };
        let has_served = line.serve_ahead(priority, arrived, now, ask, |waiter, outcome| {
            self.end(&waiter, outcome);
        });
        self.settle(name, line);
        has_served
    }

    /// Decides everybody who may be decided otherwise than before.
    fn serve(&self, now: Duration) {
        if self.count.get() == 0 {
            return;
        }
        if self.has_rung.take() {
            // Before the snapshot is looked at, so that a later one rings again.
            self.bell.arm();
        }
        self.decider.with_snapshot(|snapshot| {
            let is_new = self.version.replace(snapshot.version) != snapshot.version;
            let is_for_all = is_new || self.has_closed(now);
            let mut queues = self.queues.borrow_mut();
            for queue in queues.values_mut().filter(|queue| !queue.line.is_empty()) {
                queue.line.freed(self.vacancies.take(TargetKey::of(&queue.name)));
                if is_for_all {
                    queue.line.refresh();
                }
                self.serve_queue(queue, snapshot, now);
            }
        });
    }

    fn serve_queue(&self, queue: &mut Queue, snapshot: &Snapshot, now: Duration) {
        let target = snapshot.target(queue.name.routing_key.as_deref(), &queue.name.model);
        if let Some(target) = target {
            self.rename(queue, &target.name);
            self.vacancies.watch(TargetKey::of(&queue.name));
        }
        let Queue { name, line } = queue;
        let ask =
            |waiter: &Rc<Waiter>, is_one_of_many: bool| self.ask(name, target, waiter, is_one_of_many, now);
        line.serve(now, ask, |waiter, outcome| self.end(&waiter, outcome));
        self.settle(name, line);
    }

    /// The outcome of a wait, if it ends now: as of one of many that wait, or of one that comes alone.
    fn ask(
        &self,
        name: &TargetName,
        target: Option<&Target>,
        waiter: &Waiter,
        is_one_of_many: bool,
        now: Duration,
    ) -> Option<Outcome> {
        if self.has_closed(now) {
            return Some(Err(shutting_down(name)));
        }
        let routed = waiter.routed();
        let mut claim = waiter.claim();
        claim.request.is_waiting = is_one_of_many;
        match self.decider.rule_again(routed, &claim, waiter.hold(), target, now) {
            Ruling::Placed(placement) => Some(Ok(placement)),
            Ruling::Refused(refused) => {
                Some(Err(refusal(refused, routed.patience(), &name.model, claim.elapsed_at(now))))
            }
            Ruling::Held(hold) => {
                waiter.goes_on_waiting(hold);
                None
            }
        }
    }

    /// A waiter has left its line with this outcome.
    fn end(&self, waiter: &Waiter, outcome: Outcome) {
        self.set_count(self.count.get() - 1);
        waiter.hand_over(outcome);
    }

    /// A waiter leaves by itself.
    fn leave(&self, target: &TargetName, ticket: Ticket) {
        let now = self.decider.time(Instant::now());
        let mut queues = self.queues.borrow_mut();
        let Some(Queue { name, line }) = queues.get_mut(target) else { return };
        if line.leave(ticket, now).is_some() {
            self.set_count(self.count.get() - 1);
            self.settle(name, line);
        }
    }

    /// Where a target has ended and come back, what becomes free of it is told by another name.
    fn rename(&self, queue: &mut Queue, name: &Arc<TargetName>) {
        if !Arc::ptr_eq(&queue.name, name) {
            self.vacancies.unwatch(TargetKey::of(&queue.name));
            queue.name.clone_from(name);
        }
    }

    /// What becomes free concerns nobody in a line that has become empty.
    fn settle(&self, name: &Arc<TargetName>, line: &Line<Rc<Waiter>>) {
        if line.is_empty() {
            self.vacancies.unwatch(TargetKey::of(name));
        }
    }

    fn set_count(&self, count: usize) {
        self.count.set(count);
        self.levels.waiters.set(count as u64);
        if count == 0 {
            self.bell.disarm();
        }
    }

    fn has_closed(&self, now: Duration) -> bool {
        self.closes_at.get().is_some_and(|at| now >= at)
    }

    /// When somebody is due next, if nothing happens before.
    fn next_due(&self) -> Option<Duration> {
        if self.count.get() == 0 {
            return None;
        }
        let queues = self.queues.borrow();
        queues.values().filter_map(|queue| queue.line.next_due()).chain(self.closes_at.get()).min()
    }
}

#[cfg(test)]
mod tests;
