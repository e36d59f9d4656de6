//! Ends registrations whose lease runs out.
//!
//! It sleeps until the next one may, and looks again then and at each registration: a report only puts the end off.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use crate::shared::Shared;

pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        let next = shared.registry().next_expiry();
        let expiry = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.leases_changed.notified() => {}
            () = expiry => {
                let expired = shared.registry().expire(Instant::now());
                shared.observer().metrics().backends.count_expired(expired.len());
                for id in expired {
                    tracing::warn!(backend_id = %id, "lease expired, backend removed");
                }
                shared.changed.notify_one();
            }
        }
    }
}
