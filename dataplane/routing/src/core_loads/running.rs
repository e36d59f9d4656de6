//! The handle of an attempt.

use std::rc::Rc;

use super::CoreLoads;

/// One attempt from selection to its end. Dropping it ends it: it leaves the counts of its cluster, and a reservation
/// of it that is still pending is released.
#[derive(Debug)]
pub struct Running {
    loads: Rc<CoreLoads>,
    key: u32,
}

// === impl Running ===

impl Running {
    pub(super) fn new(loads: Rc<CoreLoads>, key: u32) -> Self {
        Self { loads, key }
    }

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
