//! A gate at which scripted engines wait until the test lets them pass: how a test holds requests in flight for
//! exactly as long as it needs.

use std::sync::{Arc, Condvar, Mutex};

use crate::poll::DEADLINE;

/// A gate, closed at first. Clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

// === impl Gate ===

impl Gate {
    /// Opens it, for good.
    pub fn open(&self) {
        let (open, changed) = &*self.0;
        *open.lock().expect("nobody panics at the gate") = true;
        changed.notify_all();
    }

    /// Waits until it is open, or until the test has certainly failed.
    pub fn wait(&self) {
        let (open, changed) = &*self.0;
        let guard = open.lock().expect("nobody panics at the gate");
        drop(changed.wait_timeout_while(guard, DEADLINE, |open| !*open).expect("nobody panics at the gate"));
    }
}
