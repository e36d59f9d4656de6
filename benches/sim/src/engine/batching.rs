//! Continuous batching, as in vLLM: in every step each request in decode gets a token first, and what is left of the
//! step's budget goes to prefills in the order of their arrival, cut into chunks.
//!
//! Requests begin between steps, first come, first served, while there is a slot, room for the prompt, and budget left.
//! A request in decode that needs a block when there is none makes the one that began last give way: that one's blocks
//! stay in the cache as long as they can, it waits in front of all others, and computes again what is not found there.

mod step;

pub(super) use self::step::Costs;
use self::step::Steps;
use super::{
    super::model::{AttemptKey, EngineState, Happening, Job, What},
    clock::Picos,
    kv_cache::{Lease, Sequence},
    queue::Waiting,
    room::Room,
};

/// What [`super::EngineSpec::Batching`] describes.
pub(super) struct BatchingEngine {
    room: Room,
    batched_tokens: u32,
    costs: Costs,
    /// Steps that are taken together at most.
    steps_max: u32,
    /// In the order in which they began.
    running: Vec<Running>,
    steps: Option<Steps>,
}

struct Running {
    job: Job,
    lease: Lease,
    phase: Phase,
    /// Tokens that have left; after a preemption these are computed again, as if they were of the prompt.
    generated: u32,
    /// Tokens of prompt and answer whose keys and values are in memory.
    computed: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The step under way computes so many more tokens.
    Prefill {
        chunk: u32,
    },
    Decode,
}

/// Who is in decode when a step starts.
#[derive(Default)]
struct Decoding {
    requests: u32,
    /// That they have together, prompts included.
    tokens: u64,
    /// Whether others had to give way to them.
    has_preempted: bool,
}

/// Bounds what is looked ahead, and with it the sums of times.
const STEPS_MAX: u32 = 1_024;

// === impl Running ===

impl Running {
    fn sequence(&self) -> Sequence {
        Sequence { prompt: self.job.prompt, generated: self.generated }
    }

    fn to_prefill(&self) -> u32 {
        self.sequence().tokens().saturating_sub(self.computed)
    }

    fn is_over(&self) -> bool {
        self.generated >= self.job.output_tokens
    }
}

// === impl BatchingEngine ===

impl BatchingEngine {
    /// The budget of a step covers a token for each slot.
    pub(super) fn new(room: Room, batched_tokens: u32, costs: Costs) -> Self {
        let running = Vec::with_capacity(room.slots);
        Self { room, batched_tokens, costs, steps_max: STEPS_MAX, running, steps: None }
    }

    pub(super) fn arrive(&mut self, now: Picos, job: Job) {
        if self.room.queue.is_empty() && self.running.len() < self.room.slots {
            self.interrupt(now);
        }
        self.room.queue.push(Waiting { job, since: now, generated: 0, leftover: None });
    }

    pub(super) fn advance(&mut self, now: Picos, happened: &mut Vec<Happening>) {
        while let Some(due) = self.next_due()
            && due <= now
        {
            if let Some(steps) = self.steps.take() {
                self.decode(steps.count, steps.count);
                self.end_step(happened);
            }
            self.start_step(due, happened);
        }
        self.catch_up(now);
    }

    pub(super) fn next_due(&self) -> Option<Picos> {
        match &self.steps {
            Some(steps) => Some(steps.ends),
            None => self.room.queue.first().map(|first| first.since),
        }
    }

    pub(super) fn cancel(&mut self, now: Picos, attempt: AttemptKey) -> bool {
        self.interrupt(now);
        if self.room.queue.remove(attempt) {
            return true;
        }
        let Some(place) = self.running.iter().position(|running| running.job.attempt == attempt) else {
            return false;
        };
        // The step under way takes as long as it would have.
        let running = self.running.remove(place);
        self.release(running);
        true
    }

    pub(super) fn crash(&mut self) -> Vec<AttemptKey> {
        let running = self.running.drain(..).map(|running| running.job.attempt);
        let attempts = running.chain(self.room.clear()).collect();
        self.steps = None;
        attempts
    }

    pub(super) fn state(&self) -> EngineState {
        let prefills = self.running.iter().filter(|running| running.phase != Phase::Decode);
        let (in_prefill, to_prefill) = prefills
            .fold((0, 0), |(count, tokens), running| (count + 1, tokens + u64::from(running.to_prefill())));
        self.room.state(in_prefill, self.running.len() as u64 - in_prefill, to_prefill)
    }

    /// Requests that have a slot.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    /// Something is different from the next step on.
    fn interrupt(&mut self, now: Picos) {
        self.catch_up(now);
        self.steps = self.steps.map(|steps| steps.cut_to(1));
    }

    /// Accounts for the steps that are over, all but the last.
    fn catch_up(&mut self, now: Picos) {
        let Some(steps) = self.steps else { return };
        let over = steps.over_by(now).min(steps.count - 1);
        if over > 0 {
            self.decode(over, steps.count);
            self.steps = Some(steps.after(over));
        }
    }

    /// So many steps under way, of `count`, are over for those in decode.
    fn decode(&mut self, over: u32, count: u32) {
        for running in &mut self.running {
            if running.phase == Phase::Decode {
                // The first step's room was taken before it, and so is that of the step after these.
                let next = u32::from(over < count);
                self.room.cache.grow(&mut running.lease, running.computed + over + next);
                running.computed += over;
                running.generated += over;
            }
        }
    }

    /// What the step has computed is there, and whoever has got the last token leaves.
    fn end_step(&mut self, happened: &mut Vec<Happening>) {
        let mut place = 0;
        while let Some(running) = self.running.get_mut(place) {
            let attempt = running.job.attempt;
            if let Phase::Prefill { chunk } = running.phase {
                running.computed += chunk;
                let sequence = running.sequence();
                self.room.cache.computed(&mut running.lease, &sequence, running.computed);
                if running.to_prefill() == 0 {
                    if running.generated == 0 {
                        happened.push(Happening { attempt, what: What::FirstToken });
                    }
                    running.generated += 1;
                    running.phase = Phase::Decode;
                }
            }
            if running.is_over() {
                happened.push(Happening { attempt, what: What::Ended });
                let running = self.running.remove(place);
                self.release(running);
            } else {
                place += 1;
            }
        }
    }

    /// Decides what the next step does, and how many are sure to be like it.
    fn start_step(&mut self, at: Picos, happened: &mut Vec<Happening>) {
        let Decoding { requests, tokens, has_preempted } = self.make_room(at);
        let mut budget = self.batched_tokens.saturating_sub(requests);
        let for_prefills = budget;
        for running in &mut self.running {
            let to_prefill = running.to_prefill();
            if let Phase::Prefill { chunk } = &mut running.phase {
                *chunk = to_prefill.min(budget);
                budget -= *chunk;
            }
        }
        let is_settled = !has_preempted && self.begin(at, &mut budget, happened);
        if self.running.is_empty() {
            return;
        }
        let prefill_tokens = for_prefills - budget;
        let step = Steps::one(at, &self.costs, prefill_tokens, requests.into(), tokens);
        let is_alike = is_settled && requests as usize == self.running.len();
        self.steps = Some(if is_alike { step.cut_to(self.steps_alike()) } else { step });
    }

    /// Gives every request in decode the room for its next token; others may have to give way.
    fn make_room(&mut self, at: Picos) -> Decoding {
        let mut decoding = Decoding::default();
        let mut place = 0;
        while let Some(running) = self.running.get_mut(place) {
            if running.phase != Phase::Decode {
                place += 1;
                continue;
            }
            let tokens = running.computed + 1;
            if u64::from(self.room.cache.lacks(&running.lease, tokens)) <= self.room.cache.available() {
                self.room.cache.grow(&mut running.lease, tokens);
                decoding.requests += 1;
                decoding.tokens += u64::from(tokens);
                place += 1;
            } else if let Some(last) = self.running.pop() {
                decoding.has_preempted = true;
                self.preempt(at, last);
            }
        }
        decoding
    }

    fn preempt(&mut self, at: Picos, running: Running) {
        let Running { job, generated, .. } = running;
        let leftover = self.release(running);
        self.room.queue.push_first(Waiting { job, since: at, generated, leftover });
    }

    /// Gives slots to those who have been waiting since before the step, as far as there are slots, room and budget:
    /// whether nobody could begin in the next step if it brings nothing new.
    fn begin(&mut self, at: Picos, budget: &mut u32, happened: &mut Vec<Happening>) -> bool {
        while let Some(&waiting) = self.room.queue.first() {
            if waiting.since > at || waiting.since == at && !self.running.is_empty() {
                return false;
            }
            if self.running.len() == self.room.slots || *budget == 0 {
                return true;
            }
            let sequence = waiting.sequence();
            let tokens = sequence.tokens();
            let Some((lease, cached)) = self.room.cache.admit(&sequence, tokens, waiting.leftover) else {
                return true;
            };
            self.room.queue.pop();
            let Waiting { job, generated, .. } = waiting;
            let prompt_tokens = job.prompt.tokens();
            let cached_tokens = cached.min(prompt_tokens.saturating_sub(1));
            happened.push(Happening { attempt: job.attempt, what: What::Began { cached_tokens } });
            self.room.prompt_tokens += u64::from(prompt_tokens);
            let chunk = (tokens - cached).min(*budget);
            *budget -= chunk;
            self.running.push(Running {
                job,
                lease,
                phase: Phase::Prefill { chunk },
                generated,
                computed: cached,
            });
        }
        true
    }

    /// How many steps in a row only decode: up to the first end of a request, as far as there is room.
    fn steps_alike(&self) -> u32 {
        let to_generate = self.running.iter().map(|running| running.job.output_tokens - running.generated);
        let mut count = to_generate.min().unwrap_or(1).clamp(1, self.steps_max);
        // Half of them until there is: it is rarely short.
        while count > 1 && !self.has_room_for(count) {
            count /= 2;
        }
        count
    }

    /// Whether all can decode so many steps.
    fn has_room_for(&self, steps: u32) -> bool {
        let available = self.room.cache.available();
        // No request takes more blocks than steps: that is quickly told, and mostly enough.
        self.running.len() as u64 * u64::from(steps) <= available || {
            let lacks = |running: &Running| self.room.cache.lacks(&running.lease, running.computed + steps);
            self.running.iter().map(|running| u64::from(lacks(running))).sum::<u64>() <= available
        }
    }

    fn release(&mut self, running: Running) -> Option<super::kv_cache::Leftover> {
        self.room.prompt_tokens -= u64::from(running.job.prompt.tokens());
        let sequence = running.sequence();
        self.room.cache.release(running.lease, &sequence, running.computed)
    }
}

#[cfg(test)]
mod tests;
