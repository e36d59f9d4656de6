//! What the connections of one measurement share: the recorder, the end of it, and the watch over slow answers.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use super::{
    failure::Failure,
    link::{Arrival, Link, Observer, Progress},
    message::Target,
    recorder::Recorder,
};

/// How often slow exchanges are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_millis(200);

/// A connection that could not be made is tried again after this time, or a dead server would be asked in a busy loop.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// State that the connections of one measurement share.
pub(crate) struct Session {
    pub(crate) recorder: RefCell<Recorder>,
    /// Whether the window is open: what happens outside of it is not recorded.
    pub(crate) recording: Cell<bool>,
    /// Connections finish what they do and end.
    pub(crate) ending: Cell<bool>,
    /// Requests that may still be started; `None`: no limit.
    budget: Cell<Option<u64>>,
    numbers: Cell<u64>,
    timeout: Duration,
    goal: Option<Duration>,
    in_progress: RefCell<Vec<Rc<Progress>>>,
}

// === impl Session ===

impl Session {
    /// Nothing recorded yet; exchanges in which nothing comes for `timeout` fail, and those whose first byte
    /// comes within `goal` are in time.
    pub(crate) fn new(timeout: Duration, goal: Option<Duration>) -> Self {
        Self {
            recorder: RefCell::new(Recorder::new(goal)),
            goal,
            recording: Cell::new(false),
            ending: Cell::new(false),
            budget: Cell::new(None),
            numbers: Cell::new(0),
            timeout,
            in_progress: RefCell::default(),
        }
    }

    /// A connection to `target` under this session's watch.
    pub(crate) fn link(&self, target: &Target) -> Link {
        let link = Link::new(target.address, self.timeout);
        self.in_progress.borrow_mut().push(link.progress.clone());
        link
    }

    /// Opens the window: from here on things count, for at most `requests` further requests.
    pub(crate) fn open_window(&self, requests: Option<u64>) {
        *self.recorder.borrow_mut() = Recorder::new(self.goal);
        self.budget.set(requests);
        self.recording.set(true);
    }

    /// Whether another request may be started; it counts as started then.
    pub(crate) fn may_start(&self) -> bool {
        if self.ending.get() {
            return false;
        }
        match self.budget.get() {
            None => true,
            Some(0) => false,
            Some(left) => {
                self.budget.set(Some(left - 1));
                true
            }
        }
    }

    /// Does one exchange and records what came of it, measured from `intended`.
    pub(crate) async fn exchange(&self, link: &mut Link, target: &Target, intended: Instant, counted: bool) {
        let number = self.numbers.replace(self.numbers.get() + 1);
        let outcome = link.exchange(target.message(number), self).await;
        if self.recording.get() && counted {
            let mut recorder = self.recorder.borrow_mut();
            match outcome {
                Ok(Arrival { first_byte, last_byte }) => recorder.completed(
                    first_byte.saturating_duration_since(intended),
                    last_byte.saturating_duration_since(intended),
                ),
                Err(failure) => recorder.failed(failure),
            }
        }
        if matches!(outcome, Err(Failure::Connect)) {
            monoio::time::sleep(RECONNECT_PAUSE).await;
        }
    }

    /// Ends exchanges in which nothing came for too long; runs for ever.
    pub(crate) async fn watch(&self) {
        loop {
            monoio::time::sleep(SWEEP_INTERVAL).await;
            let now = Instant::now();
            for progress in &*self.in_progress.borrow() {
                let last = progress.last.get();
                if last.is_some_and(|last| now.saturating_duration_since(last) > self.timeout) {
                    progress.timed_out.set(true);
                    progress.abort();
                }
            }
        }
    }

    /// Ends all exchanges at once.
    pub(crate) fn abort_all(&self) {
        for progress in &*self.in_progress.borrow() {
            progress.abort();
        }
    }
}

impl Observer for Session {
    fn bytes(&self, count: usize) {
        if self.recording.get() {
            self.recorder.bytes(count);
        }
    }

    fn events(&self, count: u64, gap: Option<Duration>) {
        if self.recording.get() {
            self.recorder.events(count, gap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_bounds_what_is_started() {
        let session = Session::new(Duration::from_secs(1), None);
        assert!(session.may_start());
        session.open_window(Some(2));
        assert!(session.may_start() && session.may_start() && !session.may_start());
        session.open_window(None);
        assert!(session.may_start());
        session.ending.set(true);
        assert!(!session.may_start());
    }
}
