//! Waiting for a condition with a deadline: the only way in which tests wait.
//!
//! The deadline is long, because it is only reached when something is broken; the poll interval is short,
//! because it is what a passing test pays.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything that a test waits for may take. Far above what a loaded 2-core machine needs.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Between two looks at the condition.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until `condition` holds; panics, naming `what`, when it does not within [`DEADLINE`].
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_some(what, || condition().then_some(()));
}

/// Waits until `probe` finds something and returns it; panics, naming `what`, after [`DEADLINE`].
#[track_caller]
pub fn eventually_some<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "within {DEADLINE:?} it never happened: {what}");
        thread::sleep(POLL_INTERVAL);
    }
}
