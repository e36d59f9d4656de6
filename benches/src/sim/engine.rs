//! An engine as far as a router can tell: slots, each taken for as long as its request lasts, and a queue.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use stargate_routing::CoreInclusion;

use super::run::Job;

/// One engine.
pub(super) struct Engine {
    slots: usize,
    running: usize,
    queue: VecDeque<Job>,
    queued_tokens: u64,
    /// By gateway: the highest sequence that has arrived. Paths keep the order, so there are no gaps.
    through: BTreeMap<usize, u64>,
}

/// What an engine says of itself at one moment.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) running: u64,
    pub(super) queued: u64,
    pub(super) queued_tokens: u64,
    /// Attempts that these numbers include, by gateway.
    through: BTreeMap<usize, u64>,
}

/// A request that begins to run, and for how long it does.
pub(super) struct Begun {
    pub(super) job: Job,
    pub(super) lasts: Duration,
}

// === impl Engine ===

impl Engine {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots, running: 0, queue: VecDeque::new(), queued_tokens: 0, through: BTreeMap::new() }
    }

    pub(super) fn has_free_slot(&self) -> bool {
        self.running < self.slots
    }

    /// A request arrives; it is returned when it begins at once.
    pub(super) fn arrive(&mut self, job: Job) -> Option<Begun> {
        if let Some(sequence) = job.sequence {
            let through = self.through.entry(job.gateway).or_default();
            *through = sequence.max(*through);
        }
        self.queued_tokens += job.tokens;
        self.queue.push_back(job);
        self.begin()
    }

    /// A request has ended; the next one begins.
    pub(super) fn end(&mut self) -> Option<Begun> {
        self.running -= 1;
        self.begin()
    }

    pub(super) fn report(&self) -> Report {
        Report {
            running: self.running as u64,
            queued: self.queue.len() as u64,
            queued_tokens: self.queued_tokens,
            through: self.through.clone(),
        }
    }

    fn begin(&mut self) -> Option<Begun> {
        if !self.has_free_slot() {
            return None;
        }
        let job = self.queue.pop_front()?;
        self.queued_tokens -= job.tokens;
        self.running += 1;
        Some(Begun { lasts: job.lasts, job })
    }
}

// === impl Report ===

impl Report {
    /// What it includes of the attempts of this gateway, which has one core.
    pub(super) fn of_gateway(&self, gateway: usize, core: u32) -> Option<CoreInclusion> {
        let through = *self.through.get(&gateway)?;
        Some(CoreInclusion { core, through, except: Box::default() })
    }
}
