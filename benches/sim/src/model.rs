//! What clients, gateways and engines of a simulation pass to each other. Times are virtual, counted from the start of
//! the run; tokens are whole numbers.

/// One attempt at one engine: its place in the world's list of attempts that are on their way or running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct AttemptKey(pub(super) u32);

/// A prompt, as far as prefix caches can tell prompts apart: tokens that a whole group of sessions begins with, then
/// those that the session's other requests share, then those that no other request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    /// Which group of sessions, such as those of one system prompt.
    pub(super) group: u32,
    /// Which session; sessions of different groups have different numbers.
    pub(super) session: u32,
    pub(super) group_tokens: u32,
    pub(super) session_tokens: u32,
    pub(super) own_tokens: u32,
    /// The answer belongs to the session, whose next prompt goes on behind it. Then `own_tokens` is 0.
    pub(super) is_continued: bool,
}

/// What an engine is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) attempt: AttemptKey,
    pub(super) prompt: Prompt,
    /// At least 1.
    pub(super) output_tokens: u32,
}

/// What an engine says of itself at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EngineState {
    /// Requests in slots, whether in prefill or in decode.
    pub(super) running: u64,
    pub(super) queued: u64,
    /// Prompt tokens that are still to be computed: all of queued requests, what is left of those in prefill.
    pub(super) queued_tokens: u64,
    pub(super) in_prefill: u64,
    pub(super) in_decode: u64,
    /// Prompt tokens of all running and queued requests.
    pub(super) total_tokens: u64,
    pub(super) kv_capacity_tokens: u64,
    /// Held by running requests; what is cached beyond them is free.
    pub(super) kv_used_tokens: u64,
}

/// What has just become of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Happening {
    pub(super) attempt: AttemptKey,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// It took a slot, and found so many of its prompt's tokens in the cache. Again after a preemption.
    Began { cached_tokens: u32 },
    /// Its prefill is over, and its first token has left.
    FirstToken,
    /// Its last token has left, and its slot is free.
    Ended,
}

// === impl Prompt ===

impl Prompt {
    /// All of it.
    pub(super) fn tokens(&self) -> u32 {
        self.group_tokens + self.session_tokens + self.own_tokens
    }
}
