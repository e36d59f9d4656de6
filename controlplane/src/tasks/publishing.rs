//! Publishes when something changed: at once, then not again before a pause, so that changes which come together are
//! one snapshot.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::sleep;

use crate::shared::Shared;

/// Shortest time between two snapshots: more often than that no core would notice.
const INTERVAL: Duration = Duration::from_millis(5);
/// Pauses for this many times what a publication took, so that publishing never takes more than a tenth of a CPU
/// however many backends report.
const PAUSE_FACTOR: u32 = 9;

pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        shared.changed.notified().await;
        let start = Instant::now();
        shared.publish();
        sleep(INTERVAL.max(start.elapsed() * PAUSE_FACTOR)).await;
    }
}
