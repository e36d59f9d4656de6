//! Checks one registration for as long as it lives.

use std::{sync::Arc, time::Duration};

use stargate_routing::BackendUid;
use tokio::time::{Instant, sleep_until};

use crate::{
    health::{CheckReport, CheckTarget, LookUp, Transition, check},
    names::BackendId,
    registry::Registration,
    shared::Shared,
};

/// Starts checking `uid`. The task ends by itself when the registration does.
pub(crate) fn watch(shared: &Arc<Shared>, uid: BackendUid) {
    let shared = shared.clone();
    tokio::spawn(async move {
        let interval = shared.config.health.interval_ms.millis();
        let limit = shared.config.health.timeout_ms.millis();
        let mut look_up = LookUp::default();
        // Whoever measures round trips must know of an address before the first connection to it.
        shared.settle_registered().await;
        let mut wait = first_wait(uid, interval);
        while let Some((id, target)) = target(&shared, uid) {
            let start = Instant::now();
            let report = check(&target, &mut look_up, limit).await;
            match take(&shared, uid, &report) {
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

/// What to check of this registration; `None` when it has ended.
fn target(shared: &Shared, uid: BackendUid) -> Option<(BackendId, CheckTarget)> {
    let registry = shared.registry();
    let registration = registry.by_uid(uid)?;
    let url = &registration.identity.url;
    let path = registration.identity.health_path.as_ref().unwrap_or(&shared.config.health.path);
    let target = CheckTarget {
        host: url.host().clone(),
        authority: url.authority().to_owned(),
        path: format!("{}{}", url.base_path(), path.as_str()),
        address: registration.address(),
    };
    Some((registration.id.clone(), target))
}

/// Takes what a check found; `None` when that registration has ended.
fn take(shared: &Shared, uid: BackendUid, report: &CheckReport) -> Option<Transition> {
    let mut registry = shared.registry();
    let before = registry.revision();
    let transition = registry.checked(uid, report);
    if let (Some(rtt), Some(handshake)) = (shared.rtt.get(), report.handshake)
        && let Some(backend) = registry.by_uid(uid).and_then(Registration::backend)
    {
        rtt.handshake(backend, handshake);
    }
    if registry.revision() != before {
        shared.changed.notify_one();
    }
    transition
}
