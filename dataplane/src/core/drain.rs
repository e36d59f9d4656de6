//! The one signal of a core: no more connections, no more requests on kept ones.
//!
//! It says that the core is to stop, not when: whoever waits for it finishes what it has, within the grace that
//! `data_plane::core_thread` gives.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    task::{Poll, Waker},
};

/// Set once, never cleared.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    is_set: Cell<bool>,
    /// One a listener: few, and only ever added to while they wait.
    waiting: RefCell<Vec<Waker>>,
}

// === impl Drain ===

impl Drain {
    pub(crate) fn set(&self) {
        self.is_set.set(true);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.get()
    }

    /// Ends when it is set.
    pub(crate) async fn wait(&self) {
        poll_fn(|cx| {
            if self.is_set() {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}
