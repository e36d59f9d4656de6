//! The simple engine: serial prefill, and decode at a pace that does not depend on how many share it.
//!
//! What a request will hold at its end is set aside when it takes its slot, so that it never has to give way.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use slab::Slab;

use super::{
    super::model::{AttemptKey, EngineState, Happening, Job, What},
    clock::Picos,
    kv_cache::{Lease, Sequence},
    queue::Waiting,
    room::Room,
};

/// What [`super::EngineSpec::Slots`] describes.
pub(super) struct SlotEngine {
    room: Room,
    /// Tokens/s: of all prompts one after the other, and of each answer.
    prefill_tps: f64,
    decode_tps: f64,
    /// The first in the queue has been refused, and nothing has changed since then.
    is_first_refused: bool,
    running: Slab<Running>,
    /// Those whose prefill is not over, in its order, and what they have to compute together.
    prefills: VecDeque<usize>,
    prefill_tokens: u64,
    /// Of the first of these.
    prefill: Option<Prefill>,
    /// Those in decode by their ends, and by the order in which they got there.
    decodes: BinaryHeap<Reverse<(Picos, u64, usize)>>,
    decoded: u64,
    /// When it was last looked at.
    now: Picos,
}

struct Running {
    job: Job,
    lease: Lease,
    cached: u32,
}

struct Prefill {
    starts: Picos,
    ends: Picos,
}

// === impl SlotEngine ===

impl SlotEngine {
    pub(super) fn new(room: Room, prefill_tps: f64, decode_tps: f64) -> Self {
        let slots = room.slots;
        Self {
            room,
            prefill_tps,
            decode_tps,
            is_first_refused: false,
            running: Slab::with_capacity(slots),
            prefills: VecDeque::with_capacity(slots),
            prefill_tokens: 0,
            prefill: None,
            decodes: BinaryHeap::with_capacity(slots),
            decoded: 0,
            now: Picos(0),
        }
    }

    pub(super) fn arrive(&mut self, now: Picos, job: Job) {
        self.now = now;
        self.room.queue.push(Waiting { job, since: now, generated: 0, leftover: None });
    }

    pub(super) fn advance(&mut self, now: Picos, happened: &mut Vec<Happening>) {
        while let Some(at) = self.next_end()
            && at <= now
        {
            if self.next_decode_end() == Some(at) {
                self.end_decode(happened);
            } else {
                self.end_prefill(at, happened);
            }
            self.begin(at, happened);
        }
        self.now = now;
        if !self.is_first_refused {
            self.begin(now, happened);
        }
    }

    pub(super) fn next_due(&self) -> Option<Picos> {
        if !self.room.queue.is_empty() && !self.is_first_refused {
            return Some(self.now);
        }
        self.next_end()
    }

    pub(super) fn cancel(&mut self, now: Picos, attempt: AttemptKey) -> bool {
        self.now = now;
        if self.room.queue.remove(attempt) {
            // Whoever waits behind it may begin.
            self.is_first_refused = false;
            return true;
        }
        let Some((key, _)) = self.running.iter().find(|(_, running)| running.job.attempt == attempt) else {
            return false;
        };
        let Running { job, cached, .. } = self.running[key];
        let computed = match self.prefills.iter().position(|&prefill| prefill == key) {
            Some(place) => {
                let computed = cached + if place == 0 { self.prefilled(now) } else { 0 };
                self.prefills.remove(place);
                self.prefill_tokens -= u64::from(to_compute(&job, cached));
                if place == 0 {
                    self.start_prefill(now);
                }
                computed
            }
            None => all_tokens(&job).saturating_sub(self.forget_decode(key, now)),
        };
        self.release(key, computed);
        self.is_first_refused = false;
        true
    }

    pub(super) fn crash(&mut self) -> Vec<AttemptKey> {
        let running = self.running.drain().map(|running| running.job.attempt);
        let attempts = running.chain(self.room.clear()).collect();
        self.is_first_refused = false;
        self.prefills.clear();
        self.prefill_tokens = 0;
        self.prefill = None;
        self.decodes.clear();
        attempts
    }

    pub(super) fn state(&self) -> EngineState {
        let to_prefill = self.prefill_tokens - u64::from(self.prefilled(self.now));
        self.room.state(self.prefills.len() as u64, self.decodes.len() as u64, to_prefill)
    }

    /// Requests that have a slot.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    fn next_decode_end(&self) -> Option<Picos> {
        self.decodes.peek().map(|&Reverse((ends, ..))| ends)
    }

    /// When a prefill or a decode ends next.
    fn next_end(&self) -> Option<Picos> {
        let prefill = self.prefill.as_ref().map(|prefill| prefill.ends);
        [prefill, self.next_decode_end()].into_iter().flatten().min()
    }

    /// Gives slots to those who have been waiting by then, as far as there are any.
    fn begin(&mut self, at: Picos, happened: &mut Vec<Happening>) {
        while let Some(&waiting) = self.room.queue.first()
            && waiting.since <= at
        {
            let Some((lease, cached_tokens)) = self.admit(at, &waiting) else {
                self.is_first_refused = true;
                return;
            };
            self.room.queue.pop();
            let Waiting { job, .. } = waiting;
            happened.push(Happening { attempt: job.attempt, what: What::Began { cached_tokens } });
            self.room.prompt_tokens += u64::from(job.prompt.tokens());
            self.prefill_tokens += u64::from(to_compute(&job, cached_tokens));
            let key = self.running.insert(Running { job, lease, cached: cached_tokens });
            self.prefills.push_back(key);
            if self.prefills.len() == 1 {
                self.start_prefill(at);
            }
        }
        self.is_first_refused = false;
    }

    fn admit(&mut self, at: Picos, waiting: &Waiting) -> Option<(Lease, u32)> {
        if self.running.len() == self.room.slots {
            return None;
        }
        if let Some(&first) = self.prefills.front() {
            let computed = self.running[first].cached + self.prefilled(at);
            self.share(first, computed);
        }
        self.room.cache.admit(&waiting.sequence(), all_tokens(&waiting.job), None)
    }

    /// Lets others find what a request has computed so far.
    fn share(&mut self, key: usize, computed: u32) {
        let Running { job, lease, .. } = &mut self.running[key];
        self.room.cache.computed(lease, &Sequence { prompt: job.prompt, generated: 0 }, computed);
    }

    fn start_prefill(&mut self, at: Picos) {
        self.prefill = self.prefills.front().map(|&key| {
            let Running { job, cached, .. } = &self.running[key];
            let seconds = f64::from(to_compute(job, *cached)) / self.prefill_tps;
            Prefill { starts: at, ends: at + Picos::from_seconds(seconds) }
        });
    }

    /// Tokens that the prefill under way has computed by then.
    fn prefilled(&self, at: Picos) -> u32 {
        let (Some(prefill), Some(&key)) = (&self.prefill, self.prefills.front()) else { return 0 };
        let Running { job, cached, .. } = &self.running[key];
        let computed = (at.saturating_sub(prefill.starts).seconds() * self.prefill_tps) as u32;
        computed.min(to_compute(job, *cached))
    }

    fn end_prefill(&mut self, at: Picos, happened: &mut Vec<Happening>) {
        let Some(key) = self.prefills.pop_front() else { return };
        self.start_prefill(at);
        let Running { job, cached, .. } = self.running[key];
        self.prefill_tokens -= u64::from(to_compute(&job, cached));
        happened.push(Happening { attempt: job.attempt, what: What::FirstToken });
        if job.output_tokens <= 1 {
            self.end(key, happened);
            return;
        }
        self.share(key, job.prompt.tokens());
        let seconds = f64::from(job.output_tokens - 1) / self.decode_tps;
        self.decoded += 1;
        self.decodes.push(Reverse((at + Picos::from_seconds(seconds), self.decoded, key)));
    }

    fn end_decode(&mut self, happened: &mut Vec<Happening>) {
        if let Some(Reverse((_, _, key))) = self.decodes.pop() {
            self.end(key, happened);
        }
    }

    /// Takes a request out of decode: how many tokens it has not generated.
    fn forget_decode(&mut self, key: usize, now: Picos) -> u32 {
        let mut left = Picos(0);
        self.decodes.retain(|&Reverse((ends, _, decode))| {
            if decode == key {
                left = ends.saturating_sub(now);
            }
            decode != key
        });
        (left.seconds() * self.decode_tps).ceil() as u32
    }

    fn end(&mut self, key: usize, happened: &mut Vec<Happening>) {
        let job = self.running[key].job;
        happened.push(Happening { attempt: job.attempt, what: What::Ended });
        self.release(key, all_tokens(&job));
    }

    fn release(&mut self, key: usize, computed: u32) {
        let Running { job, lease, .. } = self.running.remove(key);
        self.room.prompt_tokens -= u64::from(job.prompt.tokens());
        let generated = computed.saturating_sub(job.prompt.tokens());
        self.room.cache.release(lease, &Sequence { prompt: job.prompt, generated }, computed);
    }
}

/// Tokens whose keys and values are in memory at a request's end: the last one's are never needed.
fn all_tokens(job: &Job) -> u32 {
    job.prompt.tokens() + job.output_tokens.saturating_sub(1)
}

fn to_compute(job: &Job, cached: u32) -> u32 {
    job.prompt.tokens().saturating_sub(cached)
}
