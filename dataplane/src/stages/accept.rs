//! Stage zero: taking connections off a listener, within the limit on connections.

use std::{io, rc::Rc, sync::atomic::Ordering::Relaxed, time::Duration};

use monoio::net::TcpListener;
use rustix::io::Errno;

use crate::{
    core::Core,
    io::{
        client::race::{First, contain_panic, first},
        socket::{Socket, try_accept},
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
        // Counted before it is accepted: two cores can't both take the last place.
        let limit = core.settings.limits.max_connections;
        if core.shared.connections.fetch_add(1, Relaxed) >= limit {
            core.shared.connections.fetch_sub(1, Relaxed);
            return pause(core).await;
        }
        match try_accept(listener) {
            Ok(socket) => spawn(core, socket),
            Err(error) => {
                core.shared.connections.fetch_sub(1, Relaxed);
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

fn spawn(core: &Rc<Core>, socket: Socket) {
    let core = core.clone();
    monoio::spawn(async move {
        let panics = core.clone();
        if contain_panic(connection::serve(core, socket)).await.is_none() {
            panics.levels.panics.add(1);
        }
    });
}
