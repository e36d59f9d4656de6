//! First come, first served permits for tasks of one thread: the engine's running slots, and its one prefill at a time.
//!
//! A freed permit goes to the task that waited longest, never to one that just came. Dropping a waiting future or a
//! permit, for whatever reason, gives the place back at once.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

/// A number of permits and the tasks that wait for one.
#[derive(Clone)]
pub(crate) struct Fifo {
    shared: Rc<Shared>,
}

struct Shared {
    free: Cell<usize>,
    waiting_max: usize,
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
}

struct Waiter {
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// The queue already holds as many as it may.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The right to run; dropping it hands it to the next in line.
pub(crate) struct Permit {
    shared: Rc<Shared>,
}

/// Waits for its turn.
pub(crate) struct Turn {
    shared: Rc<Shared>,
    /// `None`: the permit was free.
    waiter: Option<Rc<Waiter>>,
    taken: bool,
}

// === impl Fifo ===

impl Fifo {
    /// `permits` may be held at once, and `waiting_max` tasks wait.
    pub(crate) fn new(permits: usize, waiting_max: usize) -> Self {
        let shared = Shared { free: Cell::new(permits), waiting_max, waiting: RefCell::default() };
        Self { shared: Rc::new(shared) }
    }

    /// Takes a place in line; it counts from this call, not from the first poll.
    pub(crate) fn line_up(&self) -> Result<Turn, Full> {
        let shared = self.shared.clone();
        let mut waiting = self.shared.waiting.borrow_mut();
        let free = shared.free.get();
        if free > 0 {
            // A free permit means that nobody waits: `give_back` hands permits over directly.
            shared.free.set(free - 1);
            return Ok(Turn { shared, waiter: None, taken: false });
        }
        if waiting.len() >= shared.waiting_max {
            return Err(Full);
        }
        let waiter = Rc::new(Waiter { granted: Cell::new(false), waker: RefCell::new(None) });
        waiting.push_back(waiter.clone());
        Ok(Turn { shared, waiter: Some(waiter), taken: false })
    }
}

// === impl Shared ===

impl Shared {
    fn give_back(&self) {
        let Some(next) = self.waiting.borrow_mut().pop_front() else {
            self.free.set(self.free.get() + 1);
            return;
        };
        next.granted.set(true);
        if let Some(waker) = next.waker.take() {
            waker.wake();
        }
    }
}

// === impl Turn ===

impl Turn {
    /// Whether awaiting it would wait.
    pub(crate) fn must_wait(&self) -> bool {
        self.waiter.as_ref().is_some_and(|waiter| !waiter.granted.get())
    }
}

impl Future for Turn {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        if let Some(waiter) = self.waiter.as_ref().filter(|waiter| !waiter.granted.get()) {
            *waiter.waker.borrow_mut() = Some(context.waker().clone());
            return Poll::Pending;
        }
        self.taken = true;
        Poll::Ready(Permit { shared: self.shared.clone() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        match self.waiter.as_ref().filter(|waiter| !waiter.granted.get()) {
            Some(waiter) => self.shared.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, waiter)),
            None => self.shared.give_back(),
        }
    }
}

// === impl Permit ===

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(turn: &mut Turn) -> Option<Permit> {
        match Pin::new(turn).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[test]
    fn serves_in_order_and_bounds_the_line() {
        let slots = Fifo::new(1, 2);
        let running = poll(&mut slots.line_up().unwrap()).unwrap();
        let mut second = slots.line_up().unwrap();
        let mut third = slots.line_up().unwrap();
        assert!(matches!(slots.line_up(), Err(Full)));
        // Polled out of order on purpose.
        assert!(poll(&mut third).is_none());
        assert!(poll(&mut second).is_none());
        drop(running);
        assert!(poll(&mut third).is_none());
        let running = poll(&mut second).unwrap();
        drop(second);
        drop(running);
        assert!(poll(&mut third).is_some());
    }

    #[test]
    fn a_place_left_is_given_to_the_next() {
        let slots = Fifo::new(1, 8);
        let running = poll(&mut slots.line_up().unwrap()).unwrap();
        let second = slots.line_up().unwrap();
        let mut third = slots.line_up().unwrap();
        drop(running);
        // Granted, but gone before it looked.
        assert!(!second.must_wait());
        drop(second);
        let permit = poll(&mut third).unwrap();
        let fourth = slots.line_up().unwrap();
        let mut fifth = slots.line_up().unwrap();
        // Gone while still waiting.
        drop(fourth);
        drop(permit);
        drop(poll(&mut fifth).unwrap());
        assert_eq!(slots.shared.free.get(), 1);
        assert!(slots.shared.waiting.borrow().is_empty());
    }
}
