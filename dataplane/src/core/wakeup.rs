//! Wakes one task of a core from others of it.
//!
//! However often something happens before the task has run, it runs once for all of it.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    task::{Poll, Waker},
};

/// Whether something has happened since the task last looked, and how to wake it.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    pub(crate) has_happened: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

// === impl Wakeup ===

impl Wakeup {
    /// Something has happened.
    pub(crate) fn wake(&self) {
        if !self.has_happened.replace(true)
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }

    /// Ends when something has happened since it last ended. For one task.
    pub(crate) async fn woken(&self) {
        poll_fn(|cx| {
            if self.has_happened.take() {
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
