//! Time limits of a core's connections: one deadline each, looked over by a tick.
//!
//! Every wait of a connection is bounded, and nearly none of the bounds is ever reached. So setting one is a
//! store, and the cost is in the tick, which walks all of them 40 times a second: 10 000 take it 30 µs. A
//! timer of the runtime for each wait cost more than parsing the request. The price is precision: a deadline
//! is never early, and up to two ticks late.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use slab::Slab;

/// How often deadlines are looked over.
pub(crate) const TICK: Duration = Duration::from_millis(25);

/// All deadlines of one core.
#[derive(Debug)]
pub(crate) struct Deadlines {
    started: Instant,
    /// Milliseconds since the start, as of the last tick.
    now_ms: Cell<u64>,
    entries: RefCell<Slab<Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// `NEVER` when none is set or it has passed.
    at_ms: u64,
    has_passed: bool,
    waker: Option<Waker>,
}

const NEVER: u64 = u64::MAX;

/// One connection's deadline.
#[derive(Debug)]
pub(crate) struct Deadline {
    all: Rc<Deadlines>,
    key: usize,
}

// === impl Deadlines ===

impl Deadlines {
    pub(crate) fn new(now: Instant) -> Self {
        Self { started: now, now_ms: Cell::new(0), entries: RefCell::default() }
    }

    /// Wakes those whose deadline has passed.
    pub(crate) fn tick(&self, now: Instant) {
        let now_ms = now.saturating_duration_since(self.started).as_millis() as u64;
        self.now_ms.set(now_ms);
        for (_, entry) in self.entries.borrow_mut().iter_mut() {
            if entry.at_ms <= now_ms {
                entry.at_ms = NEVER;
                entry.has_passed = true;
                // Waking only queues a task; nothing runs here that could come back to the entries.
                if let Some(waker) = entry.waker.take() {
                    waker.wake();
                }
            }
        }
    }
}

// === impl Deadline ===

impl Deadline {
    pub(crate) fn new(all: Rc<Deadlines>) -> Self {
        let entry = Entry { at_ms: NEVER, has_passed: false, waker: None };
        let key = all.entries.borrow_mut().insert(entry);
        Self { all, key }
    }

    /// Sets it `limit` from now, in place of what was set.
    pub(crate) fn set(&self, limit: Duration) {
        let limit_ms = u64::try_from(limit.saturating_add(TICK).as_millis()).unwrap_or(NEVER);
        let mut entries = self.all.entries.borrow_mut();
        let entry = &mut entries[self.key];
        entry.at_ms = self.all.now_ms.get().saturating_add(limit_ms);
        entry.has_passed = false;
    }

    /// Ready once it has passed.
    pub(crate) fn poll_passed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut entries = self.all.entries.borrow_mut();
        let entry = &mut entries[self.key];
        if entry.has_passed {
            return Poll::Ready(());
        }
        if !entry.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            entry.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.all.entries.borrow_mut().remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_early_and_at_most_two_ticks_late() {
        let start = Instant::now();
        let all = Rc::new(Deadlines::new(start));
        let deadline = Deadline::new(all.clone());
        let mut cx = Context::from_waker(Waker::noop());
        for set_at_ms in [0, 1, 10, 24] {
            let limit = Duration::from_millis(100);
            let base = start + Duration::from_secs(set_at_ms + 1);
            all.tick(base);
            let set_at = base + Duration::from_millis(set_at_ms);
            deadline.set(limit);
            let passed_at = (1..100).map(|tick| base + TICK * tick).find(|now| {
                all.tick(*now);
                deadline.poll_passed(&mut cx).is_ready()
            });
            let waited = passed_at.unwrap() - set_at;
            assert!((limit..=limit + 2 * TICK).contains(&waited), "{waited:?}");
        }
    }

    #[test]
    fn setting_it_anew_forgets_that_it_had_passed() {
        let start = Instant::now();
        let all = Rc::new(Deadlines::new(start));
        let deadline = Deadline::new(all.clone());
        let mut cx = Context::from_waker(Waker::noop());
        deadline.set(Duration::from_millis(10));
        all.tick(start + Duration::from_secs(1));
        assert!(deadline.poll_passed(&mut cx).is_ready());
        deadline.set(Duration::MAX);
        all.tick(start + Duration::from_secs(100_000));
        assert!(deadline.poll_passed(&mut cx).is_pending());
        drop(deadline);
        assert!(all.entries.borrow().is_empty());
    }
}
