//! The one task of a core that serves its waiters.

use std::time::{Duration, Instant};

use super::WaitRoom;
use crate::io::first::first;

/// Serves the waiters of a core, until the runtime ends.
pub(crate) async fn serve(room: &WaitRoom) {
    let now = || room.decider.time(Instant::now());
    let woken = || room.vacancies.wakeup.woken();
    loop {
        let due = room.next_due();
        room.wakes_at.set(due.unwrap_or(Duration::MAX));
        match due {
            None => woken().await,
            Some(due) => {
                // One that is due already has been woken for, or was left for the next turn of the loop.
                first(woken(), monoio::time::sleep(due.saturating_sub(now()))).await;
            }
        }
        room.serve(now());
    }
}
