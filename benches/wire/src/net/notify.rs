//! A change counter that tasks of one thread can wait on: "something is different since you last looked".

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    task::{Poll, Waker},
};

/// A change counter that tasks of one thread can wait on.
#[derive(Default)]
pub struct Notify {
    version: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Notify {
    /// The version to hand to [`Notify::changed_since`].
    pub fn version(&self) -> u64 {
        self.version.get()
    }

    /// Wakes everyone who waits.
    pub fn notify(&self) {
        self.version.set(self.version.get().wrapping_add(1));
        if !self.waiting.borrow().is_empty() {
            for waker in self.waiting.take() {
                waker.wake();
            }
        }
    }

    /// Waits for a version other than `seen`. Safe to drop.
    pub async fn changed_since(&self, seen: u64) {
        poll_fn(|context| {
            if self.version.get() != seen {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}
