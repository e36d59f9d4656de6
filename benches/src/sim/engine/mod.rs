//! One modelled engine: what it does with the requests that it is sent, and when.
//!
//! An engine has no clock and schedules nothing by itself: the world asks when it is due, and lets it move on then.

use std::time::Duration;

use super::model::{AttemptKey, EngineState, Happening, Job};

/// An engine of either kind.
pub(super) enum Engine {}

impl Engine {
    /// A request arrives. Call [`Self::advance`] right after it.
    pub(super) fn arrive(&mut self, now: Duration, job: Job) {
        match *self {}
    }

    /// Lets everything happen that is due by `now`, in order, and appends it to `happened`. To be called at every
    /// `next_due`, never later.
    pub(super) fn advance(&mut self, now: Duration, happened: &mut Vec<Happening>) {
        match *self {}
    }

    /// When something happens next by itself.
    pub(super) fn next_due(&self) -> Option<Duration> {
        match *self {}
    }

    /// Takes out a request whose client has left: false when it is not there any more.
    pub(super) fn cancel(&mut self, now: Duration, attempt: AttemptKey) -> bool {
        match *self {}
    }

    /// Takes all requests out, since the engine has died; its caches are empty when it is used again.
    pub(super) fn crash(&mut self) -> Vec<AttemptKey> {
        match *self {}
    }

    /// From now on it works so many times as fast as specified: 0.5 is half speed. What is under way goes on at the
    /// new speed.
    pub(super) fn set_speed(&mut self, now: Duration, speed: f64) {
        match *self {}
    }

    pub(super) fn state(&self) -> EngineState {
        match *self {}
    }

    pub(super) fn slots(&self) -> u64 {
        match *self {}
    }

    pub(super) fn has_free_slot(&self) -> bool {
        match *self {}
    }

    /// Tokens of this prompt's beginning that its cache holds: what an oracle knows. Changes nothing.
    pub(super) fn cached_tokens(&self, prompt: &super::model::Prompt) -> u32 {
        match *self {}
    }
}
