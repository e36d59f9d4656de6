//! The one task of a core that serves its waiters.

use std::time::{Duration, Instant};

use super::pass::serve_all;
use crate::{core::Core, io::first::first};

/// Serves the waiters of a core, until the runtime ends.
pub(crate) async fn serve(core: &Core) {
    let room = &core.waiting;
    loop {
        let due = room.next_due();
        room.wakes_at.set(due.unwrap_or(Duration::MAX));
        match due {
            None => room.wakeup.woken().await,
            Some(due) => {
                let wait = due.saturating_sub(room.time(Instant::now()));
                // One that is due already has been woken for, or was left for the next turn of the loop.
                first(room.wakeup.woken(), monoio::time::sleep(wait)).await;
            }
        }
        serve_all(core, Instant::now());
    }
}
