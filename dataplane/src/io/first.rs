//! Waiting for whichever of two comes first.
//!
//! A plain future, not an `async fn`: that keeps what it waits for twice, once as an argument and once pinned, and
//! a stream's memory is the size of what it waits in.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

/// Which of two ended first.
#[derive(Debug)]
pub(crate) enum First<L, R> {
    Left(L),
    Right(R),
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

/// Waits for either; both must be safe to drop. `left` is preferred when both are ready.
pub(crate) fn first<L: Future, R: Future>(left: L, right: R) -> FirstOf<L, R> {
    FirstOf { left, right }
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
