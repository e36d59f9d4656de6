//! The one task of a core that tells the other cores what this one has sent and received back, and ends reservations
//! whose time is over.
//!
//! What a core holds back it tells at the end of a turn of its event loop, when everything that was ready has run: a
//! busy core so tells many changes at once, an idle one tells each within microseconds, and neither needs a timer for
//! it. Where a turn takes long, the next decision tells first (`CoreLoads`, after a millisecond or 16 changes).

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use crate::{
    core::Core,
    io::first::{First, first},
};

/// Longer than any reservation lives.
const FAR: Duration = Duration::from_secs(3600);

/// Flushes for a core, until the runtime ends.
pub(crate) async fn flush(core: &Core) {
    let decider = &core.decider;
    loop {
        // Nothing expires while nothing is reserved.
        let due = decider.loads.next_due().unwrap_or(FAR);
        let mut expiry = pin!(monoio::time::sleep(due.saturating_sub(decider.time(Instant::now()))));
        // A sleep for a later expiry than has come to be due is kept for as long as that has not.
        while let First::Left(()) = first(decider.load_changed.woken(), expiry.as_mut()).await {
            // Nothing has ended by time that was not to end by then: this happens often, and needs no clock.
            decider.loads.flush();
            if decider.loads.next_due().is_some_and(|next| next < due) {
                break;
            }
        }
        core.settle_loads(Instant::now());
    }
}
