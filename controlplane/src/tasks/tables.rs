//! Builds the ranking tables that are wanted, one after another and off the runtime's threads, and has each published.

use std::{sync::Arc, time::Duration};

use tokio::{task::spawn_blocking, time::sleep};

use crate::{publish::BuiltTable, shared::Shared};

/// Pauses for this many times what the last table took: at most half a CPU goes into them, and clusters that come
/// together are ranked together.
const PAUSE_FACTOR: u32 = 1;
/// Pause after a ranking table that could not be built; decisions rank without.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        build_wanted(&shared).await;
        shared.tables_wanted.notified().await;
    }
}

async fn build_wanted(shared: &Shared) {
    loop {
        let job = shared.publisher().next_table();
        let Some(job) = job else { return };
        match spawn_blocking(move || job.build()).await {
            Ok(Some(built)) => {
                adopt(shared, &built);
                sleep(built.took() * PAUSE_FACTOR).await;
            }
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "a ranking table could not be built");
                sleep(RETRY_PAUSE).await;
            }
        }
    }
}

fn adopt(shared: &Shared, built: &BuiltTable) {
    let name = built.target();
    tracing::debug!(
        model = %name.model, routing_key = name.routing_key.as_deref(), took = ?built.took(),
        "built a ranking table"
    );
    shared.observer().metrics().rankings.record_built(built.took());
    shared.publisher().adopt(built);
    shared.changed.notify_one();
}
