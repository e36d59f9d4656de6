//! A place in an engine that a request holds, and the news for those who wait that it is free again.

use std::{rc::Rc, sync::Arc};

use stargate_routing::{Running, TargetName};

use crate::waiting::{TargetKey, WaitRoom};

/// One attempt in flight. Dropping it takes the attempt out of its cluster's load, and has this core look at who
/// waits for the same target.
#[derive(Debug)]
pub(crate) struct Reserved {
    running: Running,
    target: TargetKey,
    room: Rc<WaitRoom>,
}

// === impl Reserved ===

impl Reserved {
    pub(crate) fn new(running: Running, target: &Arc<TargetName>, room: &Rc<WaitRoom>) -> Self {
        Self { running, target: TargetKey::of(target), room: room.clone() }
    }

    /// The engine has begun to answer: the request is not queued there any more.
    pub(crate) fn first_byte(&mut self) {
        self.running.first_byte();
        self.room.freed(self.target);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // Only notes it: by the time that anybody is decided, `running` has been dropped as well.
        self.room.freed(self.target);
    }
}
