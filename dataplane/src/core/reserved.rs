//! A place in an engine that a request holds, and the news for those who wait that it is free again.

use std::{rc::Rc, sync::Arc};

use stargate_routing::{Running, TargetName};

use crate::core::{
    Core,
    waiting::{TargetKey, WaitRoom},
    wakeup::Wakeup,
};

/// One attempt in flight. Dropping it takes the attempt out of its cluster's load, and has this core look at who
/// waits for the same target.
#[derive(Debug)]
pub(crate) struct Reserved {
    running: Running,
    target: TargetKey,
    room: Rc<WaitRoom>,
    load_changed: Rc<Wakeup>,
}

// === impl Reserved ===

impl Reserved {
    pub(crate) fn new(core: &Core, running: Running, target: &Arc<TargetName>) -> Self {
        core.load_changed.wake();
        let (room, load_changed) = (core.waiting.clone(), core.load_changed.clone());
        Self { running, target: TargetKey::of(target), room, load_changed }
    }

    /// Its number among this core's attempts at its backend, for a backend that publishes stats.
    pub(crate) fn sequence(&self) -> Option<u64> {
        self.running.sequence()
    }

    /// The engine has begun to answer: the request is not queued there any more.
    pub(crate) fn first_byte(&mut self) {
        self.running.first_byte();
        self.room.freed(self.target);
        self.load_changed.wake();
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // Only notes it: by the time that anybody is decided or told, `running` has been dropped as well.
        self.room.freed(self.target);
        self.load_changed.wake();
    }
}
