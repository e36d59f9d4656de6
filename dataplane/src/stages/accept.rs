//! Stage zero: taking connections off a listener, within the limit on connections.
//!
//! Over the limit, or without descriptors or memory, they stay in the kernel's backlog for a while: a client that waits
//! there is better off than one that is turned away.

use std::{io, rc::Rc, time::Duration};

use monoio::net::TcpListener;
use rustix::io::Errno;

use crate::{
    core::{Core, clients::OpenConnection, contain_panic::contain_panic},
    io::{
        client::socket::ClientSocket,
        first::{First, first},
    },
    stages::connection,
};

/// How long accepting pauses when there are no descriptors, memory or places left.
const PAUSE: Duration = Duration::from_millis(20);
/// Connections taken in one turn, so that a flood of them does not hold up those that are open.
const BATCH: usize = 64;

/// Accepts until the core drains; what had reached the backlog by then is served as well.
pub(crate) async fn accept(core: Rc<Core>, listener: TcpListener) {
    core.listening.set(core.listening.get() + 1);
    while !core.is_draining() {
        match first(listener.readable(false), core.drain.wait()).await {
            First::Left(_) => accept_batch(&core, &listener).await,
            First::Right(()) => break,
        }
    }
    accept_batch(&core, &listener).await;
    drop(listener);
    core.listening.set(core.listening.get() - 1);
}

async fn accept_batch(core: &Rc<Core>, listener: &TcpListener) {
    for _ in 0..BATCH {
        let Some(open) = core.clients.open(core.settings.limits.max_connections) else {
            return pause(core).await;
        };
        match ClientSocket::accept(listener) {
            Ok(socket) => spawn(core, open, socket),
            Err(error) => {
                drop(open);
                if is_exhaustion(&error) {
                    pause(core).await;
                }
                // Anything else concerns one connection that came and went, or says that none is left.
                return;
            }
        }
    }
}

/// Leaves connections in the backlog for a while.
async fn pause(core: &Core) {
    core.levels.accept_paused.add(1);
    monoio::time::sleep(PAUSE).await;
}

fn is_exhaustion(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

fn spawn(core: &Rc<Core>, open: OpenConnection, socket: ClientSocket) {
    let core = core.clone();
    monoio::spawn(async move {
        let panics = core.clone();
        if contain_panic(connection::serve(core, open, socket)).await.is_none() {
            panics.levels.panics.add(1);
        }
    });
}
