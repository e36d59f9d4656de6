//! Changes of the routing configuration: planned, kept, published, counted.
//!
//! A change is kept first (where there is a state directory), since what has been answered is not forgotten; then it is
//! published to all cores as a part of one snapshot. Changes are made one after another, each whole.

use std::{io, panic::resume_unwind, sync::Arc};

use tokio::task::spawn_blocking;

use crate::{
    live_routing::{Applied, Change, ChangeError, LiveRouting, Precondition},
    shared::Shared,
};

/// A change that has not been made.
pub(crate) struct Planned {
    /// What it would come to.
    pub(crate) applied: Applied,
    after: LiveRouting,
}

/// What `change` would come to.
pub(crate) fn plan(
    shared: &Shared,
    change: Change,
    precondition: &Precondition,
) -> Result<Planned, ChangeError> {
    let before = shared.routing.load();
    let after = before.plan(change, precondition)?;
    Ok(Planned { applied: after.applied(&before, shared.known_models().into_iter()), after })
}

/// Makes `change`; returns when every core routes by it from its next request on.
pub(crate) async fn change(
    shared: &Arc<Shared>,
    change: Change,
    precondition: Precondition,
) -> Result<Applied, ChangeError> {
    let shared = shared.clone();
    // In a task of its own: a caller that leaves does not stop a change between its steps.
    let task = tokio::spawn(async move {
        let result = change_whole(&shared, change, &precondition).await;
        count(&shared, outcome(&result));
        result
    });
    match task.await {
        Ok(result) => result,
        Err(error) => resume_unwind(error.into_panic()),
    }
}

/// Counts a document that was refused before it could become a change.
pub(crate) fn count_refused(shared: &Shared) {
    count(shared, "rejected");
}

async fn change_whole(
    shared: &Shared,
    change: Change,
    precondition: &Precondition,
) -> Result<Applied, ChangeError> {
    let store = shared.routing_changes.lock().await;
    let Planned { applied, after } = plan(shared, change, precondition)?;
    if !applied.is_new {
        return Ok(applied);
    }
    if let Some(store) = store.clone() {
        let (path, stored) = (store.path().to_owned(), after.stored());
        let written = spawn_blocking(move || store.write(&stored)).await;
        written
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|source| ChangeError::NotKept { path, source })?;
    }
    shared.publisher().set_routing(after.policies().clone());
    shared.routing.store(Arc::new(after));
    shared.publish();
    tracing::info!(
        version = applied.version.number,
        source = ?applied.version.source,
        models = ?applied.models,
        "routing configuration applied"
    );
    Ok(applied)
}

/// How a change ended, as the metrics call it.
fn outcome(result: &Result<Applied, ChangeError>) -> &'static str {
    match result {
        Ok(Applied { is_new: true, .. }) => "applied",
        Ok(_) => "unchanged",
        Err(ChangeError::Conflict { .. }) => "conflict",
        Err(ChangeError::NotKept { .. }) => "failed",
        Err(ChangeError::NoSuchVersion { .. } | ChangeError::NothingBefore { .. }) => "rejected",
    }
}

fn count(shared: &Shared, outcome: &str) {
    shared.observer().metrics().snapshots.count_routing_change(outcome);
}
