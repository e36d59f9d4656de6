//! What the control plane does by itself, one file a task; one that panics starts again (`supervise`).

pub(crate) mod health;
mod leases;
pub(crate) mod observing;
mod publishing;
mod supervise;
mod tables;

use std::sync::Arc;

use stargate_routing::BackendUid;
use supervise::supervise;

use crate::shared::Shared;

/// Starts all of them, on the runtime that this is called on.
pub(crate) fn start(shared: &Arc<Shared>) {
    let of = shared.clone();
    supervise("publish", move || publishing::run(of.clone()));
    let of = shared.clone();
    supervise("ranking tables", move || tables::run(of.clone()));
    let of = shared.clone();
    supervise("leases", move || leases::run(of.clone()));
    let of = shared.clone();
    supervise("observe", move || observing::run(of.clone()));
    let uids: Vec<BackendUid> = shared.registry().backends().map(|registration| registration.uid).collect();
    for uid in uids {
        health::watch(shared, uid);
    }
}
