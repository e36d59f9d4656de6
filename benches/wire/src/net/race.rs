//! Waits for the first of two futures, the first one polled first: so that work that needs no wait arms no watch.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

/// Which of two futures ended first.
pub enum First<A, B> {
    /// The left one, with its value.
    Left(A),
    /// The right one, with its value.
    Right(B),
}

/// Waits for the first of two futures; `right` is not even polled when `left` is ready at once.
pub async fn race<A, B>(mut left: Pin<&mut A>, mut right: Pin<&mut B>) -> First<A::Output, B::Output>
where
    A: Future,
    B: Future,
{
    poll_fn(|context| {
        if let Poll::Ready(value) = left.as_mut().poll(context) {
            return Poll::Ready(First::Left(value));
        }
        right.as_mut().poll(context).map(First::Right)
    })
    .await
}
