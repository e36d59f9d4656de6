//! Checks one registration for as long as it lives.

use std::{sync::Arc, time::Duration};

use stargate_routing::BackendUid;
use tokio::time::{Instant, sleep_until};

use super::{LookUp, Transition, check};
use crate::plane::ControlPlane;

/// Starts checking `uid`. The task ends by itself when the registration does.
pub(crate) fn watch(plane: &Arc<ControlPlane>, uid: BackendUid) {
    let plane = plane.clone();
    tokio::spawn(async move {
        let interval = plane.config().health.interval_ms.millis();
        let limit = plane.config().health.timeout_ms.millis();
        let mut look_up = LookUp::default();
        // Whoever measures round trips must know of an address before the first connection to it.
        plane.settle_registered().await;
        let mut wait = first_wait(uid, interval);
        while let Some((id, target)) = plane.check_target(uid) {
            let start = Instant::now();
            let report = check(&target, &mut look_up, limit).await;
            match plane.checked(uid, &report) {
                None => return,
                Some(Transition::None) => {}
                Some(Transition::Up) => {
                    tracing::info!(backend_id = %id, address = report.address.map(tracing::field::display), "backend takes requests");
                }
                Some(Transition::Down) => {
                    let reason = report.result.err().map(|failure| failure.to_string()).unwrap_or_default();
                    tracing::warn!(backend_id = %id, reason, "backend takes no requests");
                }
            }
            // From start to start, so that a slow answer does not stretch the interval.
            sleep_until(start + wait).await;
            wait = interval;
        }
    });
}

/// Backends that register together are checked apart, in sixteenths of the interval, from the second on.
fn first_wait(uid: BackendUid, interval: Duration) -> Duration {
    const PHASES: u64 = 16;
    interval * (uid.0 % PHASES + 1) as u32 / PHASES as u32
}
