//! A panic ends the task that met it and nothing else: not its core, and none of the other requests there.
//!
//! What the task held ends with the unwinding, as it would have in any other way; nothing is repaired here.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

pin_project! {
    /// See [`contain_panic`].
    pub(crate) struct ContainPanic<F> {
        #[pin]
        task: F,
    }
}

/// Runs `task` so that a panic in it ends only it. `None` when it panicked.
pub(crate) fn contain_panic<F: Future>(task: F) -> ContainPanic<F> {
    ContainPanic { task }
}

// === impl ContainPanic ===

impl<F: Future> Future for ContainPanic<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let task = self.project().task;
        // What the task shared with the rest of its core are cells whose guards end with the unwinding.
        match catch_unwind(AssertUnwindSafe(|| task.poll(cx))) {
            Ok(poll) => poll.map(Some),
            Err(_) => Poll::Ready(None),
        }
    }
}
