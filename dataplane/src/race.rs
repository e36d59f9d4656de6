//! Waiting for one thing while two others may end the wait: the client leaves, or time runs out.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use crate::client_watch::ClientWatch;

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

/// Waits for `operation`. It must be safe to drop.
pub(crate) async fn race<T>(
    operation: impl Future<Output = T>,
    client: &mut ClientWatch,
    limit: Duration,
) -> Raced<T> {
    let mut operation = pin!(operation);
    let mut timer = pin!(monoio::time::sleep(limit));
    poll_fn(|cx| {
        if let Poll::Ready(output) = operation.as_mut().poll(cx) {
            return Poll::Ready(Raced::Done(output));
        }
        if client.poll_left(cx).is_ready() {
            return Poll::Ready(Raced::ClientLeft);
        }
        timer.as_mut().poll(cx).map(|()| Raced::TimedOut)
    })
    .await
}

/// Which of two ended first.
#[derive(Debug)]
pub(crate) enum First<L, R> {
    Left(L),
    Right(R),
}

/// Waits for either; both must be safe to drop. `left` is preferred when both are ready.
pub(crate) async fn first<L, R>(
    left: impl Future<Output = L>,
    right: impl Future<Output = R>,
) -> First<L, R> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|cx| match left.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(First::Left(output)),
        Poll::Pending => right.as_mut().poll(cx).map(First::Right),
    })
    .await
}

/// Waits for `operation` with nobody to leave; `None` when the limit has passed. It must be safe to drop.
pub(crate) async fn within<T>(limit: Duration, operation: impl Future<Output = T>) -> Option<T> {
    monoio::time::timeout(limit, operation).await.ok()
}

/// Runs `task` so that a panic in it ends only it. `None` when it panicked.
pub(crate) async fn contain_panic<T>(task: impl Future<Output = T>) -> Option<T> {
    let mut task = pin!(task);
    poll_fn(|cx| {
        // What the task shared with the rest of its core are cells whose guards end with the unwinding.
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.as_mut().poll(cx)));
        match polled {
            Ok(poll) => poll.map(Some),
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}
