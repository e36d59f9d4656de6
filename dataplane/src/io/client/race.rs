//! Waiting for one thing while others may end the wait: the client leaves, time runs out, something else
//! comes first.
//!
//! These are plain futures, not `async fn`: those keep what they wait for twice, once as an argument and once
//! pinned, and a stream's memory is the size of what it waits in.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;

use crate::io::client::watch::ClientWatch;

/// What ended a wait.
#[derive(Debug)]
pub(crate) enum Raced<T> {
    /// What was waited for.
    Done(T),
    /// The client has left.
    ClientLeft,
    /// The limit has passed.
    TimedOut,
}

/// Which of two ended first.
#[derive(Debug)]
pub(crate) enum First<L, R> {
    Left(L),
    Right(R),
}

pin_project! {
    /// See [`race`].
    pub(crate) struct Race<'a, F> {
        #[pin]
        operation: F,
        client: &'a mut ClientWatch,
    }
}

pin_project! {
    /// See [`first`].
    pub(crate) struct FirstOf<L, R> {
        #[pin]
        left: L,
        #[pin]
        right: R,
    }
}

pin_project! {
    /// See [`contain_panic`].
    pub(crate) struct ContainPanic<F> {
        #[pin]
        task: F,
    }
}

/// Waits for `operation`, which must be safe to drop, for `limit` at most.
pub(crate) fn race<F: Future>(operation: F, client: &mut ClientWatch, limit: Duration) -> Race<'_, F> {
    client.set_limit(limit);
    Race { operation, client }
}

/// Waits for either; both must be safe to drop. `left` is preferred when both are ready.
pub(crate) fn first<L: Future, R: Future>(left: L, right: R) -> FirstOf<L, R> {
    FirstOf { left, right }
}

/// Runs `task` so that a panic in it ends only it. `None` when it panicked.
pub(crate) fn contain_panic<F: Future>(task: F) -> ContainPanic<F> {
    ContainPanic { task }
}

// === impl Race ===

impl<F: Future> Future for Race<'_, F> {
    type Output = Raced<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.operation.poll(cx) {
            return Poll::Ready(Raced::Done(output));
        }
        if this.client.poll_left(cx).is_ready() {
            return Poll::Ready(Raced::ClientLeft);
        }
        this.client.poll_limit(cx).map(|()| Raced::TimedOut)
    }
}

// === impl FirstOf ===

impl<L: Future, R: Future> Future for FirstOf<L, R> {
    type Output = First<L::Output, R::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.left.poll(cx) {
            Poll::Ready(output) => Poll::Ready(First::Left(output)),
            Poll::Pending => this.right.poll(cx).map(First::Right),
        }
    }
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
