//! The client connections of a core: how many may be open, which of them wait for a request, and how they end when
//! the core stops.
//!
//! A connection is counted once, from before it is accepted to its end, by the one guard that it owns.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use slab::Slab;

use super::{levels::Levels, shared::Shared};
use crate::io::{client::socket::ClientSocket, socket::Peek};

/// All client connections of one core.
#[derive(Debug)]
pub(crate) struct Clients {
    registered: RefCell<Slab<Registered>>,
    levels: Arc<Levels>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Registered {
    socket: ClientSocket,
    is_idle: bool,
}

/// Counts as an open connection, on all cores together, for as long as it lives.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    clients: Rc<Clients>,
}

/// A client connection in the register of its core, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Registration {
    open: OpenConnection,
    key: usize,
}

// === impl Clients ===

impl Clients {
    pub(crate) fn new(levels: Arc<Levels>, shared: Arc<Shared>) -> Self {
        Self { registered: RefCell::default(), levels, shared }
    }

    /// Counts one more connection, unless `max` are open on all cores together. To be asked before one is accepted:
    /// two cores can't both take the last.
    pub(crate) fn open(self: &Rc<Self>, max: usize) -> Option<OpenConnection> {
        // Counted before the check; taken back by the drop where it was one too many.
        let before = self.shared.connections.fetch_add(1, Relaxed);
        let open = OpenConnection { clients: self.clone() };
        (before < max).then_some(open)
    }

    /// Ends those that wait for a request.
    pub(crate) fn end_idle(&self) {
        for client in self.registered.borrow().iter().map(|(_, client)| client) {
            // One on which a request is arriving is answered first.
            if client.is_idle && client.socket.peek() == Peek::Quiet {
                client.socket.shutdown();
            }
        }
    }

    /// Ends all of them now. Returns how many were serving a request.
    pub(crate) fn cut_all(&self) -> u64 {
        let registered = self.registered.borrow();
        registered.iter().for_each(|(_, client)| client.socket.shutdown());
        registered.iter().filter(|(_, client)| !client.is_idle).count() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.registered.borrow().is_empty()
    }
}

// === impl OpenConnection ===

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.clients.shared.connections.fetch_sub(1, Relaxed);
    }
}

// === impl Registration ===

impl Registration {
    /// Registers a connection, which waits for its first request.
    pub(crate) fn new(open: OpenConnection, socket: ClientSocket) -> Self {
        let clients = &open.clients;
        let key = clients.registered.borrow_mut().insert(Registered { socket, is_idle: true });
        clients.levels.client_idle.add(1);
        Self { open, key }
    }

    /// Whether the connection waits for a request.
    pub(crate) fn set_idle(&self, is_idle: bool) {
        let clients = &self.open.clients;
        let mut registered = clients.registered.borrow_mut();
        let client = &mut registered[self.key];
        if client.is_idle != is_idle {
            client.is_idle = is_idle;
            let levels = &clients.levels;
            let (from, to) = if is_idle {
                (&levels.client_active, &levels.client_idle)
            } else {
                (&levels.client_idle, &levels.client_active)
            };
            from.set(from.get() - 1);
            to.add(1);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let clients = &self.open.clients;
        let client = clients.registered.borrow_mut().remove(self.key);
        let levels = &clients.levels;
        let level = if client.is_idle { &levels.client_idle } else { &levels.client_active };
        level.set(level.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_connections_are_open_on_all_cores_than_may_be_and_each_is_counted_once() {
        let shared = Arc::new(Shared::default());
        let core = |cpu| Rc::new(Clients::new(Arc::new(Levels::new(cpu, "none")), shared.clone()));
        let (one, other) = (core(0), core(1));
        let open = [one.open(2).unwrap(), other.open(2).unwrap()];
        for core in [&one, &other] {
            assert!(core.open(2).is_none());
            assert_eq!(shared.connections.load(Relaxed), 2, "one that was not let in is not counted");
        }
        drop(open);
        assert_eq!(shared.connections.load(Relaxed), 0);
        assert!(one.open(2).is_some());
    }
}
