//! The handle of an attempt.

use std::rc::Rc;

use super::{
    CoreLoads,
    attempt::{Attempt, Place},
};
use crate::{Backend, ClusterUid};

/// One attempt from selection to its end. Dropping it ends it: it leaves the counts of its cluster, and a reservation
/// of it that is still pending is released.
#[derive(Debug)]
pub struct Running {
    loads: Rc<CoreLoads>,
    key: u32,
}

// === impl CoreLoads ===

impl CoreLoads {
    /// Holds the place for an attempt at this backend of its cluster, which begins now.
    pub(crate) fn hold(self: &Rc<Self>, place: Place, cluster: ClusterUid, backend: &Backend) -> Running {
        let unflushed = &mut *self.unflushed.borrow_mut();
        let book = &mut *self.book.borrow_mut();
        let ttl = place.charge.is_reserved.then(|| self.ttl_to(backend));
        let key = book.hold(Attempt::new(place, backend.uid), cluster, backend, ttl, unflushed);
        self.is_due_at(book.expiry_of(key));
        Running { loads: self.clone(), key }
    }
}

// === impl Running ===

impl Running {
    /// The engine has begun to answer: its input is no longer queued. Further calls do nothing.
    pub fn first_byte(&mut self) {
        self.loads.first_byte(self.key);
    }

    /// Its number among this core's attempts at its backend, from 1 and without gaps; `None` at a backend that
    /// publishes no stats, which has no use for it.
    pub fn sequence(&self) -> Option<u64> {
        self.loads.sequence(self.key)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.loads.leave(self.key);
    }
}
