//! Accounts for what the data plane did: every now and then, and before anybody looks at the metrics.

use std::{sync::Arc, time::Duration};

use stargate_dataplane::rtt::Rtt;
use tokio::time::{Instant, sleep};

use crate::{metrics::Gauges, shared::Shared};

/// Between two drains of the observations.
const INTERVAL: Duration = Duration::from_millis(100);

pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        sleep(INTERVAL).await;
        observe(&shared);
        let registry = shared.registry();
        shared.observer().sweep(Instant::now(), &registry);
    }
}

/// Accounts for everything that the data plane has queued.
pub(crate) fn observe(shared: &Shared) {
    let Some(cores) = shared.cores.get() else { return };
    let mut observer = shared.observer();
    let now = Instant::now();
    cores.observations.drain(|observation| observer.record(observation, now));
    let samples = observer.take_samples();
    // The registry's lock is never taken under the observer's.
    drop(observer);
    let mut registry = shared.registry();
    let before = registry.revision();
    for (uid, target, sample) in samples {
        registry.measured(uid, &target.model, sample, now);
    }
    registry.expire_measured(now);
    registry.follow_rtts();
    if registry.revision() != before {
        shared.changed.notify_one();
    }
}

/// Metrics in Prometheus' text format, with everything that has been observed until now.
pub(crate) fn scrape(shared: &Shared) -> String {
    observe(shared);
    let levels = shared.levels();
    let registry = shared.registry();
    let gauges = Gauges {
        registry: &registry,
        snapshot: &shared.snapshot.load(),
        levels: &levels,
        rtt: shared.rtt.get().map(Rtt::status),
        routing_version: shared.routing.load().current().number,
        log_lines_dropped: shared.log_lines_dropped.get().map_or(0, |count| count()),
    };
    shared.observer().render(&gauges)
}
