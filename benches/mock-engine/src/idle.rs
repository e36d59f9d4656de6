//! Closes connections that idled for too long, without a timer a request: one sweep looks at all of them.

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    time::{Duration, Instant},
};

use stargate_wire::net::socket::{self, Reader};

/// Sweeps of one keep-alive time: how precisely it is kept.
const SWEEPS_PER_LIMIT: u32 = 20;

/// Least time between two sweeps: more often would cost more than it tells.
const SWEEP_INTERVAL_MIN: Duration = Duration::from_millis(2);
/// Greatest time between two sweeps.
const SWEEP_INTERVAL_MAX: Duration = Duration::from_millis(100);

/// All connections of an engine, as far as they may be closed for idling.
pub(crate) struct IdleWatch {
    limit: Option<Duration>,
    connections: RefCell<Vec<Weak<Connection>>>,
}

struct Connection {
    idle_since: Cell<Option<Instant>>,
    reader: Reader,
}

/// A connection's place in the watch.
pub(crate) struct Watched {
    connection: Option<Rc<Connection>>,
}

// === impl IdleWatch ===

impl IdleWatch {
    /// Closes what idles for `limit`; zero is never.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit: Some(limit).filter(|limit| !limit.is_zero()), connections: RefCell::default() }
    }

    /// Takes a connection under watch.
    pub(crate) fn watch(&self, reader: &Reader) -> Watched {
        let connection = self.limit.map(|_| {
            let connection =
                Rc::new(Connection { idle_since: Cell::new(None), reader: socket::share(reader) });
            self.connections.borrow_mut().push(Rc::downgrade(&connection));
            connection
        });
        Watched { connection }
    }

    /// Sweeps for ever.
    pub(crate) async fn sweep(self: Rc<Self>) {
        let Some(limit) = self.limit else { return };
        let interval = (limit / SWEEPS_PER_LIMIT).clamp(SWEEP_INTERVAL_MIN, SWEEP_INTERVAL_MAX);
        loop {
            monoio::time::sleep(interval).await;
            let now = Instant::now();
            self.connections.borrow_mut().retain(|connection| {
                let Some(connection) = connection.upgrade() else { return false };
                let since = connection.idle_since.get();
                if since.is_some_and(|since| now.duration_since(since) >= limit) {
                    // Its task's read ends with an end of file; the task closes the descriptor.
                    connection.idle_since.set(None);
                    socket::shutdown(&connection.reader);
                }
                true
            });
        }
    }
}

// === impl Watched ===

impl Watched {
    /// The connection waits for a request.
    pub(crate) fn idle(&self) {
        if let Some(connection) = &self.connection {
            connection.idle_since.set(Some(Instant::now()));
        }
    }

    /// A request has begun.
    pub(crate) fn busy(&self) {
        if let Some(connection) = &self.connection {
            connection.idle_since.set(None);
        }
    }
}
