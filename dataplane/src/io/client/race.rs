//! Waiting for one thing for a client's sake: the wait ends as well when the client leaves or time runs out.
//!
//! A plain future, not an `async fn`: that keeps what it waits for twice, once as an argument and once pinned, and
//! a stream's memory is the size of what it waits in.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;

use super::watch::ClientWatch;

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

pin_project! {
    /// See [`race`].
    pub(crate) struct Race<'a, F> {
        #[pin]
        operation: F,
        client: &'a mut ClientWatch,
    }
}

/// Waits for `operation`, which must be safe to drop, for `limit` at most.
pub(crate) fn race<F: Future>(operation: F, client: &mut ClientWatch, limit: Duration) -> Race<'_, F> {
    client.set_limit(limit);
    Race { operation, client }
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
