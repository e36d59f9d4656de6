//! Idle connections to backends, kept per core, newest first.
//!
//! A connection is looked at before it is used again: one that its engine has closed, or on which bytes
//! wait that nobody asked for, is dropped. What remains is the moment between the look and the engine's
//! close, kept rare by an idle time below the engine's own.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use stargate_routing::BackendUid;

use super::socket::EngineSocket;
use crate::{io::socket::Peek, settings::Pool as Settings};

/// Share of an engine's announced keep-alive time that is used, to stay clear of its end.
const ANNOUNCED_SHARE: f64 = 0.8;

/// The pool of one core.
#[derive(Debug)]
pub(crate) struct Pool {
    settings: Settings,
    idle: HashMap<BackendUid, Vec<Idle>>,
    count: u64,
}

#[derive(Debug)]
struct Idle {
    socket: EngineSocket,
    expires: Instant,
}

// === impl Pool ===

impl Pool {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, idle: HashMap::new(), count: 0 }
    }

    /// A connection that was alive a moment ago.
    pub(crate) fn take(&mut self, backend: BackendUid, now: Instant) -> Option<EngineSocket> {
        let idle = self.idle.get_mut(&backend)?;
        while let Some(Idle { socket, expires }) = idle.pop() {
            self.count -= 1;
            if expires > now && socket.peek() == Peek::Quiet {
                return Some(socket);
            }
        }
        None
    }

    /// Keeps a connection whose response has been read to its end. `announced` is the engine's own
    /// keep-alive time, where it named one.
    pub(crate) fn give(
        &mut self,
        backend: BackendUid,
        socket: EngineSocket,
        announced: Option<Duration>,
        now: Instant,
    ) {
        let lifetime = announced
            .map(|announced| announced.mul_f64(ANNOUNCED_SHARE))
            .map_or(self.settings.idle_timeout, |lifetime| lifetime.min(self.settings.idle_timeout));
        let idle = self.idle.entry(backend).or_default();
        if idle.len() < self.settings.max_idle_per_backend {
            idle.push(Idle { socket, expires: now + lifetime });
            self.count += 1;
        }
    }

    /// Drops all connections to a backend: one of them turned out to be closed.
    pub(crate) fn forget(&mut self, backend: BackendUid) {
        let forgotten = self.idle.remove(&backend);
        self.count -= forgotten.map_or(0, |idle| idle.len() as u64);
    }

    /// Drops what has expired or was closed by its engine.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.idle.retain(|_, idle| {
            idle.retain(|idle| idle.expires > now && idle.socket.peek() == Peek::Quiet);
            !idle.is_empty()
        });
        self.count = self.idle.values().map(|idle| idle.len() as u64).sum();
    }

    /// Connections kept.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}
