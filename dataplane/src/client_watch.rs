//! Notices that a client has left while nothing is being read from it.
//!
//! One poll stays armed on the client's socket for as long as a request runs; the same poll then tells that
//! the next request has come, so it costs nothing extra on a kept connection. A client that only shuts down
//! its sending side counts as gone: the two can't be told apart, and an engine that generates for nobody is
//! the dearer mistake.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use crate::socket::{Peek, Socket};

/// The watch on one client.
pub(crate) struct ClientWatch {
    pub(crate) socket: Socket,
    armed: Option<Pin<Box<dyn Future<Output = io::Result<()>>>>>,
    /// The next request has begun to arrive. Until it is read, the client's leaving can't be seen.
    has_data: bool,
}

// === impl ClientWatch ===

impl ClientWatch {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, armed: None, has_data: false }
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

    /// Waits until there is something to read, which may be the end.
    pub(crate) async fn readable(&mut self) {
        if std::mem::take(&mut self.has_data) {
            return;
        }
        std::future::poll_fn(|cx| self.poll_readable(cx)).await;
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
