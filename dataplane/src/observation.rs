//! What the data plane tells the control plane: one bounded queue a core, written without locks, drained by
//! the control plane when it likes. A full queue drops the newest and counts it.

use std::{sync::Arc, time::Duration};

use crossbeam::queue::ArrayQueue;
use stargate_routing::{AlgorithmKind, Backend, TargetName, Tokens, WaitedFor};

use crate::error::{ErrorCode, Rejection};

/// Observations one core can hold between two drains: 100 ms at 300 000 requests a second and two
/// observations each.
pub(crate) const QUEUE_CAPACITY: usize = 65_536;

/// Something that happened on a core.
#[derive(Debug)]
pub enum Observation {
    /// An attempt has ended.
    Attempt(Attempt),
    /// A request has ended.
    Request(Request),
    /// A request has failed in a way that an operator wants a log line for (every non-2xx, every cut
    /// response). Follows its `Request`.
    Failure(Box<Failure>),
}

/// One try at one backend.
#[derive(Debug)]
pub struct Attempt {
    /// Where it went.
    pub backend: Arc<Backend>,
    /// What was asked of it.
    pub target: Arc<TargetName>,
    /// How it ended.
    pub result: AttemptResult,
    /// Input-token estimate of the request.
    pub input_tokens: Tokens,
    /// From sending to the response's head; `None` when there was none.
    pub first_byte: Option<Duration>,
    /// How the attempt before it ended, where it was a retry.
    pub retry_of: Option<AttemptResult>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptResult {
    /// A complete response.
    Completed,
    /// The connect failed.
    ConnectFailed,
    /// The engine refused before executing.
    Rejected,
    /// The connection broke before the response's head.
    Reset,
    /// The response was not HTTP.
    ProtocolError,
    /// No response head in time.
    Timeout,
    /// The response broke off.
    Cut,
    /// The client left.
    Cancelled,
}

/// One request, from its head to the end of its response.
#[derive(Debug)]
pub struct Request {
    /// The target as configured; `None` when it named none that is known.
    pub target: Option<Arc<TargetName>>,
    /// The backend that answered.
    pub backend: Option<Arc<Backend>>,
    /// Status sent to the client; 499 when it left before one was.
    pub status: u16,
    /// From arrival to the first response byte sent.
    pub first_byte: Option<Duration>,
    /// Time spent in decisions and in waiting for one.
    pub routing: Duration,
    /// Attempts made.
    pub attempts: u32,
    /// Where it was sent last; `None` when nothing was chosen.
    pub selection: Option<Selection>,
    /// How long it waited for a place, over all its attempts, and for what at the end; `None` when it did not.
    pub waited: Option<(WaitedFor, Duration)>,
    /// Why it was not let in, or not waited for any longer.
    pub rejection: Option<Rejection>,
}

/// How a cluster was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The algorithm that chose: the request's own, or its model's.
    pub algorithm: AlgorithmKind,
    /// Position of the cluster in the key's ranking, from 1.
    pub rank: u32,
    /// Whether the key's first choice was given up for it.
    pub is_fallback: bool,
    /// Whether a better-ranked cluster was walked past for lack of free KV tokens.
    pub after_kv_skip: bool,
}

/// The facts of a failed request.
#[derive(Debug)]
pub struct Failure {
    /// Its id.
    pub request_id: Box<str>,
    /// Method and path (no query: it may hold secrets).
    pub request_line: Box<str>,
    /// Model that it named, cut to 128 bytes.
    pub model: Box<str>,
    /// Status sent; 499 when the client left before one was.
    pub status: u16,
    /// The code of an error of ours; `None` when the engine's own answer was passed on.
    pub code: Option<ErrorCode>,
    /// What was wrong.
    pub message: Box<str>,
    /// The backend concerned, if any.
    pub backend_id: Option<Arc<str>>,
    /// Attempts made.
    pub attempts: u32,
    /// From arrival to the end.
    pub elapsed: Duration,
    /// How much of that it waited for a place.
    pub waited: Duration,
}

/// The control plane's end of the queues of all cores.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    pub(crate) queues: Vec<Arc<ArrayQueue<Observation>>>,
}

// === impl Observations ===

impl Observations {
    /// Takes what is queued, core by core, oldest first within a core.
    pub fn drain(&self, mut each: impl FnMut(Observation)) {
        for queue in &self.queues {
            // Bounded: a core that produces faster than this loop must not hold the drain for ever.
            for _ in 0..queue.capacity() {
                let Some(observation) = queue.pop() else { break };
                each(observation);
            }
        }
    }
}

// === impl AttemptResult ===

impl AttemptResult {
    /// The value of the metric label `result`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::ConnectFailed => "connect_failed",
            Self::Rejected => "rejected",
            Self::Reset => "reset",
            Self::ProtocolError => "protocol_error",
            Self::Timeout => "timeout",
            Self::Cut => "cut",
            Self::Cancelled => "cancelled",
        }
    }
}
