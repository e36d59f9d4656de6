//! One modelled engine: what it does with the requests that it is sent, and when.
//!
//! An engine has no clock and schedules nothing by itself: the world asks when it is due, and lets it move on then.

mod batching;
mod clock;
mod kv_cache;
mod queue;
mod room;
mod slots;
mod spec;

use std::time::Duration;

pub(super) use self::spec::EngineSpec;
use self::{
    batching::BatchingEngine,
    clock::{Clock, Picos},
    kv_cache::Sequence,
    room::Room,
    slots::SlotEngine,
};
use super::model::{AttemptKey, EngineState, Happening, Job, Prompt};

/// An engine of either kind.
pub(super) struct Engine {
    clock: Clock,
    /// When it was last told something.
    now: Duration,
    kind: Kind,
}

enum Kind {
    Slots(SlotEngine),
    Batching(BatchingEngine),
}

impl Engine {
    /// A request arrives. Call [`Self::advance`] right after it.
    pub(super) fn arrive(&mut self, now: Duration, job: Job) {
        let now = self.work(now);
        match &mut self.kind {
            Kind::Slots(engine) => engine.arrive(now, job),
            Kind::Batching(engine) => engine.arrive(now, job),
        }
    }

    /// Lets everything happen that is due by `now`, in order, and appends it to `happened`. To be called at every
    /// `next_due`, never later; at other times it changes nothing but what is known of work under way.
    pub(super) fn advance(&mut self, now: Duration, happened: &mut Vec<Happening>) {
        let now = self.work(now);
        match &mut self.kind {
            Kind::Slots(engine) => engine.advance(now, happened),
            Kind::Batching(engine) => engine.advance(now, happened),
        }
    }

    /// When something happens next by itself.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let due = match &self.kind {
            Kind::Slots(engine) => engine.next_due(),
            Kind::Batching(engine) => engine.next_due(),
        };
        // While it stands still, what is due at once has been so since it stopped.
        Some(self.clock.time(due?)?.max(self.now))
    }

    /// Takes out a request whose client has left: false when it is not there any more. What waits may be due then.
    pub(super) fn cancel(&mut self, now: Duration, attempt: AttemptKey) -> bool {
        let now = self.work(now);
        match &mut self.kind {
            Kind::Slots(engine) => engine.cancel(now, attempt),
            Kind::Batching(engine) => engine.cancel(now, attempt),
        }
    }

    /// Takes all requests out, since the engine has died; its caches are empty when it is used again.
    pub(super) fn crash(&mut self) -> Vec<AttemptKey> {
        match &mut self.kind {
            Kind::Slots(engine) => engine.crash(),
            Kind::Batching(engine) => engine.crash(),
        }
    }

    /// From now on it works so many times as fast as specified: 0.5 is half speed, 0 is none. What is under way goes
    /// on at the new speed.
    pub(super) fn set_speed(&mut self, now: Duration, speed: f64) {
        self.now = now;
        self.clock.set_speed(now, speed);
    }

    /// As of the last [`Self::advance`].
    pub(super) fn state(&self) -> EngineState {
        match &self.kind {
            Kind::Slots(engine) => engine.state(),
            Kind::Batching(engine) => engine.state(),
        }
    }

    pub(super) fn slots(&self) -> u64 {
        self.room().slots as u64
    }

    /// Whether a request that arrives now finds a slot, beside those that wait already.
    pub(super) fn has_free_slot(&self) -> bool {
        let running = match &self.kind {
            Kind::Slots(engine) => engine.running(),
            Kind::Batching(engine) => engine.running(),
        };
        running + self.room().queue.len() < self.room().slots
    }

    /// Tokens of this prompt's beginning that its cache holds: what an oracle knows. Changes nothing.
    pub(super) fn cached_tokens(&self, prompt: &Prompt) -> u32 {
        self.room().cache.cached_tokens(&Sequence { prompt: *prompt, generated: 0 })
    }

    fn work(&mut self, now: Duration) -> Picos {
        self.now = now;
        self.clock.work(now)
    }

    fn room(&self) -> &Room {
        match &self.kind {
            Kind::Slots(engine) => engine.room(),
            Kind::Batching(engine) => engine.room(),
        }
    }
}

#[cfg(test)]
mod tests;
