//! Keeps a task of the control plane going: one that panics is logged and started again, since a gateway whose
//! leases or snapshots stand still unnoticed is worse than one that crashes.

use std::time::Duration;

use tokio::time::sleep;

/// Pause before a task that panicked starts again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// Runs what `start` makes, and again after a panic.
pub(crate) fn supervise<F, T>(task: &'static str, start: F)
where
    F: Fn() -> T + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(async move {
        while let Err(error) = tokio::spawn(start()).await {
            if !error.is_panic() {
                return;
            }
            tracing::error!(task, "a task of the control plane panicked and starts again");
            sleep(RESTART_PAUSE).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_starts_again_and_one_that_ends_does_not() {
        let starts = Arc::new(AtomicUsize::new(0));
        let counted = starts.clone();
        supervise("test", move || {
            let start = counted.fetch_add(1, SeqCst);
            async move { assert!(start >= 2, "a panic of this test") }
        });
        // The clock is paused: this advances it past all restarts.
        sleep(RESTART_PAUSE * 10).await;
        assert_eq!(starts.load(SeqCst), 3);
    }
}
