//! A place in an engine that a request holds, and the news for those who wait that it is free again.

use std::rc::Rc;

use stargate_routing::Running;

use super::vacancies::{TargetKey, Vacancies};
use crate::core::wakeup::Wakeup;

/// One attempt in flight. Dropping it takes the attempt out of its cluster's load, and has this core look at who
/// waits for the same target.
#[derive(Debug)]
pub(crate) struct Reserved {
    running: Running,
    target: TargetKey,
    vacancies: Rc<Vacancies>,
    load_changed: Rc<Wakeup>,
}

// === impl Reserved ===

impl Reserved {
    pub(super) fn new(
        running: Running,
        target: TargetKey,
        vacancies: Rc<Vacancies>,
        load_changed: Rc<Wakeup>,
    ) -> Self {
        load_changed.wake();
        Self { running, target, vacancies, load_changed }
    }

    /// Its number among this core's attempts at its backend, for a backend that publishes stats.
    pub(crate) fn sequence(&self) -> Option<u64> {
        self.running.sequence()
    }

    /// The engine has begun to answer: the request is not queued there any more.
    pub(crate) fn first_byte(&mut self) {
        self.running.first_byte();
        self.vacancies.freed(self.target);
        self.load_changed.wake();
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // Only notes it: by the time that anybody is decided or told, `running` has been dropped as well.
        self.vacancies.freed(self.target);
        self.load_changed.wake();
    }
}
