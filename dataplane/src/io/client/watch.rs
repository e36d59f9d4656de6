//! Notices that a client has left while nothing is being read from it, and that a wait for its sake has taken
//! too long.
//!
//! One poll stays armed on the client's socket for as long as a request runs; the same poll then tells that
//! the next request has come, so it costs nothing extra on a kept connection. A client that only shuts down
//! its sending side counts as gone: the two can't be told apart, and an engine that generates for nobody is
//! the dearer mistake.

use std::{
    future::{Future, poll_fn},
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use super::socket::ClientSocket;
use crate::io::{
    deadlines::{Deadline, Deadlines},
    socket::Peek,
};

/// The watch on one client.
pub(crate) struct ClientWatch {
    pub(crate) socket: ClientSocket,
    armed: Option<Pin<Box<dyn Future<Output = io::Result<()>>>>>,
    /// The next request has begun to arrive. Until it is read, the client's leaving can't be seen.
    has_data: bool,
    deadline: Deadline,
}

// === impl ClientWatch ===

impl ClientWatch {
    /// Its time limits are looked over with `deadlines`.
    pub(crate) fn new(socket: ClientSocket, deadlines: Rc<Deadlines>) -> Self {
        let deadline = Deadline::new(deadlines);
        Self { socket, armed: None, has_data: false, deadline }
    }

    /// Bounds the wait that follows.
    pub(crate) fn set_limit(&self, limit: Duration) {
        self.deadline.set(limit);
    }

    /// Ready when the limit has passed.
    pub(crate) fn poll_limit(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.deadline.poll_passed(cx)
    }

    /// Ready when the client has left.
    pub(crate) fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_data {
            return Poll::Pending;
        }
        match self.poll_readable(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => match self.socket.peek() {
                Peek::Closed => Poll::Ready(()),
                Peek::Data => {
                    self.has_data = true;
                    Poll::Pending
                }
                // A poll can be woken for nothing.
                Peek::Quiet => self.poll_left(cx),
            },
        }
    }

    /// Waits until there is something to read, which may be the end. False when the limit has passed.
    pub(crate) async fn readable(&mut self, limit: Duration) -> bool {
        if std::mem::take(&mut self.has_data) {
            return true;
        }
        self.set_limit(limit);
        poll_fn(|cx| match self.poll_readable(cx) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending => self.poll_limit(cx).map(|()| false),
        })
        .await
    }

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let armed = self.armed.get_or_insert_with(|| {
            let socket = self.socket.clone();
            Box::pin(async move { socket.readable().await })
        });
        // An error of the poll is seen again, with its reason, by the read that follows.
        armed.as_mut().poll(cx).map(|_| self.armed = None)
    }
}
