//! The engine proper: slots, one prefill at a time, the prefix cache, and an account of every request.
//!
//! A request is a [`Ticket`]: it takes its place in line when it is created, and whatever ends it, a client that
//! leaves included, returns everything it held when it is dropped. It knows nothing of HTTP.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use monoio::time::Instant;
use stargate_wire::net::notify::Notify;

use super::{
    faults::Faults,
    fifo::{Fifo, Permit, Turn},
    handover::{Handover, Stamp},
    journal::Journal,
    kv_cache::KvCache,
    pace::{Pace, work_time},
    text::Words,
};

/// How an engine behaves, from the command line.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Name of this engine, in `x-mock-engine`.
    pub(crate) id: String,
    /// Models that it serves; the first is the default. Not empty.
    pub(crate) models: Vec<String>,
    /// Seed of jitter and texts.
    pub(crate) seed: u64,
    /// Prefill rate in input tokens/s; 0 takes no time.
    pub(crate) prefill_tps: f64,
    /// Decode rate of each request in output tokens/s; 0 takes no time.
    pub(crate) decode_tps: f64,
    /// Variation of each decode step, as a fraction.
    pub(crate) jitter: f64,
    /// Requests that run at once.
    pub(crate) concurrency: usize,
    /// Requests that wait for a slot; more get 429.
    pub(crate) queue: usize,
    /// Capacity of the prefix cache.
    pub(crate) kv_capacity_tokens: u64,
    /// Block size of the prefix cache.
    pub(crate) block_tokens: u64,
    /// Output tokens of a request that does not say.
    pub(crate) output_tokens: u64,
    /// Whether stats say which attempts they include.
    pub(crate) handover: bool,
}

/// One engine.
pub(crate) struct Engine {
    pub(crate) settings: Settings,
    pub(crate) faults: Rc<Faults>,
    pub(crate) journal: RefCell<Journal>,
    pub(crate) counters: Counters,
    /// Counts what the published stats are made of; wakes whoever pushes them.
    pub(crate) changed: Notify,
    pub(crate) cache: RefCell<KvCache>,
    /// Which attempts the stats include; `None` where they do not say.
    pub(crate) handover: Option<RefCell<Handover>>,
    slots: Fifo,
    prefill: Fifo,
    ordinal: Cell<u64>,
}

/// Gauges and totals.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) started: Cell<u64>,
    pub(crate) completed: Cell<u64>,
    pub(crate) cancelled: Cell<u64>,
    pub(crate) faulted: Cell<u64>,
    pub(crate) rejected: Cell<u64>,
    /// Requests that met no free slot when they came, rejected ones included.
    pub(crate) arrived_without_free_slot: Cell<u64>,
    pub(crate) prompt_tokens: Cell<u64>,
    pub(crate) cached_tokens: Cell<u64>,
    pub(crate) output_tokens: Cell<u64>,
    pub(crate) connections_open: Cell<u64>,
    pub(crate) connections_total: Cell<u64>,
    /// Requests by what they wait for.
    pub(crate) requests: [Cell<u64>; 4],
    /// Their input tokens.
    pub(crate) input_tokens: [Cell<u64>; 4],
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A slot.
    Queued,
    /// Its turn at prefill, holding a slot.
    PrefillQueued,
    /// The end of its prefill.
    Prefill,
    /// Its output tokens.
    Decode,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Completed,
    Cancelled,
    Faulted,
}

/// One request within the engine.
pub(crate) struct Ticket {
    engine: Rc<Engine>,
    /// Number of the request, from 0: the seed of its jitter and text, and its id.
    pub(crate) ordinal: u64,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    decode_tps: f64,
    /// Input tokens that needed no prefill, known once prefill begins.
    pub(crate) cached_tokens: u64,
    cache_key: u64,
    holds_cache: bool,
    phase: Phase,
    outcome: Outcome,
    turn: Option<Turn>,
    slot: Option<Permit>,
    decode_start: Option<Instant>,
}

/// The queue is full.
#[derive(Debug)]
pub(crate) struct QueueFull;

// === impl Engine ===

impl Engine {
    /// An idle engine.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            faults: Rc::default(),
            journal: RefCell::default(),
            counters: Counters::default(),
            changed: Notify::default(),
            cache: RefCell::new(KvCache::new(settings.kv_capacity_tokens, settings.block_tokens)),
            slots: Fifo::new(settings.concurrency, settings.queue),
            prefill: Fifo::new(1, usize::MAX),
            ordinal: Cell::new(0),
            handover: settings.handover.then(RefCell::default),
            settings,
        }
    }

    /// Notes an attempt. In the same step, without an await between, its request must be taken in or refused: only
    /// then are the stats and the attempts that they include of one instant.
    pub(crate) fn note_attempt(&self, stamp: Stamp) {
        if let Some(handover) = &self.handover {
            handover.borrow_mut().note(stamp, std::time::Instant::now());
        }
    }

    /// Takes a request in: from here on it counts as started. `decode_tps` overrides the engine's.
    pub(crate) fn start(
        self: &Rc<Self>,
        cache_key: u64,
        input_tokens: u64,
        output_tokens: u64,
        decode_tps: Option<f64>,
    ) -> Result<Ticket, QueueFull> {
        let Ok(turn) = self.slots.line_up() else {
            increment(&self.counters.rejected, 1);
            increment(&self.counters.arrived_without_free_slot, 1);
            return Err(QueueFull);
        };
        let phase = if turn.must_wait() { Phase::Queued } else { Phase::PrefillQueued };
        increment(&self.counters.arrived_without_free_slot, u64::from(phase == Phase::Queued));
        let ordinal = self.ordinal.replace(self.ordinal.get() + 1);
        increment(&self.counters.started, 1);
        increment(&self.counters.prompt_tokens, input_tokens);
        self.counters.enter(phase, input_tokens);
        self.changed.notify();
        Ok(Ticket {
            engine: self.clone(),
            ordinal,
            created: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            input_tokens,
            output_tokens,
            decode_tps: decode_tps.unwrap_or(self.settings.decode_tps),
            cached_tokens: 0,
            cache_key,
            holds_cache: false,
            phase,
            outcome: Outcome::Cancelled,
            turn: Some(turn),
            slot: None,
            decode_start: None,
        })
    }
}

// === impl Counters ===

impl Counters {
    /// Requests in one phase.
    pub(crate) fn in_phase(&self, phase: Phase) -> u64 {
        self.requests[phase as usize].get()
    }

    /// Input tokens of the requests in one phase.
    pub(crate) fn tokens_in_phase(&self, phase: Phase) -> u64 {
        self.input_tokens[phase as usize].get()
    }

    /// Requests that hold a slot.
    pub(crate) fn running(&self) -> u64 {
        self.in_phase(Phase::PrefillQueued) + self.in_phase(Phase::Prefill) + self.in_phase(Phase::Decode)
    }

    fn enter(&self, phase: Phase, tokens: u64) {
        increment(&self.requests[phase as usize], 1);
        increment(&self.input_tokens[phase as usize], tokens);
    }

    fn leave(&self, phase: Phase, tokens: u64) {
        let (requests, input_tokens) = (&self.requests[phase as usize], &self.input_tokens[phase as usize]);
        requests.set(requests.get() - 1);
        input_tokens.set(input_tokens.get() - tokens);
    }
}

/// Adds to a counter.
pub(crate) fn increment(counter: &Cell<u64>, by: u64) {
    counter.set(counter.get() + by);
}

// === impl Ticket ===

impl Ticket {
    /// Waits for a slot, then for its turn at prefill, then for the prefill. Drop the ticket to leave early.
    pub(crate) async fn prefill(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.slot = Some(turn.await);
            self.enter(Phase::PrefillQueued);
        }
        let engine = self.engine.clone();
        let Ok(turn) = engine.prefill.line_up() else {
            unreachable!("the prefill queue is bounded by the slots, not by itself")
        };
        let one_at_a_time = turn.await;
        self.enter(Phase::Prefill);
        self.cached_tokens = engine.cache.borrow_mut().begin(self.cache_key, self.input_tokens);
        self.holds_cache = true;
        increment(&engine.counters.cached_tokens, self.cached_tokens);
        let time = work_time(self.input_tokens - self.cached_tokens, engine.settings.prefill_tps);
        if !time.is_zero() {
            monoio::time::sleep(time).await;
        }
        engine.cache.borrow_mut().grow(self.cache_key, self.input_tokens);
        drop(one_at_a_time);
        self.enter(Phase::Decode);
        if self.decode_tps > 0.0 {
            self.decode_start = Some(Instant::now());
        }
    }

    /// The moments of its output tokens.
    pub(crate) fn pace(&self) -> Pace {
        Pace::new(self.decode_tps, self.engine.settings.jitter, self.rng(1))
    }

    /// Its output text.
    pub(crate) fn words(&self) -> Words {
        Words::new(self.rng(2))
    }

    /// Waits until `offset` after the end of prefill.
    pub(crate) async fn decode_until(&self, offset: Duration) {
        if let Some(start) = self.decode_start.filter(|_| !offset.is_zero()) {
            monoio::time::sleep_until(start + offset).await;
        }
    }

    /// Counts output tokens.
    pub(crate) fn produced(&self, tokens: u64) {
        increment(&self.engine.counters.output_tokens, tokens);
    }

    /// Ends the request: the whole answer was written.
    pub(crate) fn complete(mut self) {
        let (key, tokens) = (self.cache_key, self.input_tokens + self.output_tokens);
        if self.holds_cache {
            self.engine.cache.borrow_mut().grow(key, tokens);
        }
        self.outcome = Outcome::Completed;
    }

    /// Ends the request as a fault wanted it.
    pub(crate) fn fail(mut self) {
        self.outcome = Outcome::Faulted;
    }

    fn enter(&mut self, phase: Phase) {
        if self.phase != phase {
            self.engine.counters.leave(self.phase, self.input_tokens);
            self.engine.counters.enter(phase, self.input_tokens);
            self.phase = phase;
            self.engine.changed.notify();
        }
    }

    fn rng(&self, purpose: u64) -> fastrand::Rng {
        let seed = self.engine.settings.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        fastrand::Rng::with_seed(
            seed ^ self.ordinal.wrapping_mul(0xd1b5_4a32_d192_ed03).wrapping_add(purpose),
        )
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let counters = &self.engine.counters;
        counters.leave(self.phase, self.input_tokens);
        let total = match self.outcome {
            Outcome::Completed => &counters.completed,
            Outcome::Cancelled => &counters.cancelled,
            Outcome::Faulted => &counters.faulted,
        };
        increment(total, 1);
        if self.holds_cache {
            self.engine.cache.borrow_mut().end(self.cache_key);
        }
        // The slot and the place in line go back as these fields are dropped, right after this.
        self.engine.changed.notify();
    }
}
