//! The last stage, accounting: the record of one request from its arrival to its end, handed to the control
//! plane once, whatever became of the request.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use stargate_routing::{Backend, TargetName, Tokens, WaitedFor};

use crate::{
    core::Core,
    error::{ErrorCode, Refusal},
    observation::{Attempt, AttemptResult, Failure, Observation, Request, Selection},
    request_id::RequestId,
};

/// The status that is recorded, never sent, for a client that left before it got one.
pub(crate) const CLIENT_CLOSED_REQUEST: u16 = 499;
/// Longest model name in a log line: it is the caller's text.
const MAX_LOGGED_MODEL_BYTES: usize = 128;
/// Longest path in a log line.
const MAX_LOGGED_LINE_BYTES: usize = 256;

/// One request under way.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: RequestId,
    pub(crate) started: Instant,
    pub(crate) request_line: String,
    /// What it named, where that is no known target's model.
    pub(crate) model: String,
    pub(crate) input_tokens: Tokens,
    pub(crate) target: Option<Arc<TargetName>>,
    pub(crate) backend: Option<Arc<Backend>>,
    pub(crate) attempts: u32,
    /// How the last attempt ended.
    last_result: Option<AttemptResult>,
    pub(crate) selection: Option<Selection>,
    /// What it waited for last, and how long in all.
    pub(crate) waited: Option<(WaitedFor, Duration)>,
    pub(crate) routing: Duration,
    pub(crate) first_byte: Option<Duration>,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The status sent, or [`CLIENT_CLOSED_REQUEST`].
    pub(crate) status: u16,
    /// Our own error, or why the response was cut; `None` when the engine's answer went out whole.
    pub(crate) fault: Option<Refusal>,
}

// === impl Exchange ===

impl Exchange {
    pub(crate) fn new(id: RequestId, started: Instant, request_line: String) -> Box<Self> {
        Box::new(Self {
            id,
            started,
            request_line,
            model: String::new(),
            input_tokens: Tokens(0),
            target: None,
            backend: None,
            attempts: 0,
            last_result: None,
            selection: None,
            waited: None,
            routing: Duration::ZERO,
            first_byte: None,
        })
    }

    /// Records a wait for a place.
    pub(crate) fn has_waited(&mut self, reason: WaitedFor, time: Duration) {
        let before = self.waited.map_or(Duration::ZERO, |(_, before)| before);
        self.waited = Some((reason, before + time));
    }

    /// Records the end of one attempt.
    pub(crate) fn attempt_ended(&mut self, core: &Core, result: AttemptResult, first_byte: Option<Duration>) {
        let retry_of = self.last_result.replace(result);
        if let (Some(target), Some(backend)) = (&self.target, &self.backend) {
            core.observe(Observation::Attempt(Attempt {
                backend: backend.clone(),
                target: target.clone(),
                result,
                input_tokens: self.input_tokens,
                first_byte,
                retry_of,
            }));
        }
    }

    /// Records the end of the request.
    pub(crate) fn end(self, core: &Core, ended: Ended) {
        let Ended { status, fault } = ended;
        let rejection = fault.as_ref().and_then(|refusal| refusal.rejection);
        let failed = fault.is_some() || !(200..300).contains(&status);
        let failure = failed.then(|| {
            let (code, message) = match fault {
                Some(Refusal { code, message, .. }) => (Some(code), message),
                None if status == CLIENT_CLOSED_REQUEST => (None, "the client closed the connection".into()),
                None => (None, "the engine's own answer".into()),
            };
            let model = self.target.as_ref().map_or(&*self.model, |target| &*target.model);
            Box::new(Failure {
                request_id: self.id.as_str().into(),
                request_line: cut(&self.request_line, MAX_LOGGED_LINE_BYTES).into(),
                model: cut(model, MAX_LOGGED_MODEL_BYTES).into(),
                status,
                code,
                message: message.into(),
                backend_id: self.backend.as_ref().map(|backend| backend.backend_id.clone()),
                attempts: self.attempts,
                elapsed: self.started.elapsed(),
                waited: self.waited.map_or(Duration::ZERO, |(_, waited)| waited),
            })
        });
        core.observe(Observation::Request(Request {
            target: self.target,
            backend: self.backend,
            status,
            first_byte: self.first_byte,
            routing: self.routing,
            attempts: self.attempts,
            selection: self.selection,
            waited: self.waited,
            rejection,
        }));
        if let Some(failure) = failure {
            core.observe(Observation::Failure(failure));
        }
    }
}

// === impl Ended ===

impl Ended {
    pub(crate) fn client_left() -> Self {
        Self { status: CLIENT_CLOSED_REQUEST, fault: None }
    }

    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self { status: refusal.code.row().status, fault: Some(refusal) }
    }

    /// A response that was under way with `status` when it broke off.
    pub(crate) fn cut(status: u16, code: ErrorCode, message: String) -> Self {
        Self { status, fault: Some(Refusal::new(code, message)) }
    }
}

fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
