//! What can go wrong with a request, and the one table from it to status, code and fault.
//!
//! An error says who is at fault, what was wrong and what is allowed. Whether a failure is safe to retry is not its to say:
//! that depends on what the attempt has proved.

use std::{borrow::Cow, time::Duration};

use stargate_routing::AdmissionRefusal;

/// Stable, machine-readable name of an error answered by this gateway (`x-stargate-error-code`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The request is not valid HTTP/1.1, or not one that this gateway serves.
    InvalidRequest,
    /// A header that Stargate reads has a malformed value.
    InvalidHeader,
    /// No model was named.
    MissingModel,
    /// A header that `headers.strict` requires is missing.
    MissingHeader,
    /// `x-routing-method` names nothing that may be selected.
    InvalidRoutingMethod,
    /// The model's routing needs an affinity key.
    AffinityKeyRequired,
    /// The model's routing needs the number of input tokens.
    InputTokensRequired,
    /// No such path.
    NotFound,
    /// The path exists, the method does not.
    MethodNotAllowed,
    /// Nobody serves this (routing key, model).
    NoEligibleCandidates,
    /// The request did not arrive in time.
    RequestTimeout,
    /// The body is over the limit.
    PayloadTooLarge,
    /// The head is over the limit.
    HeadersTooLarge,
    /// The expectation is not `100-continue`.
    ExpectationFailed,
    /// No connection to a backend could be made.
    UpstreamConnectFailed,
    /// The backend closed the connection before it answered.
    UpstreamReset,
    /// The backend's answer was not valid HTTP/1.1.
    UpstreamProtocolError,
    /// The backend did not answer in time.
    UpstreamTimeout,
    /// The client took nothing of its response for too long; only ever logged, the response had begun.
    ClientStalled,
    /// A limit of this gateway is reached, or every place for the request stayed taken.
    NoCapacity,
    /// The target is known, but nothing that serves it is active.
    NoActiveBackend,
    /// The first token cannot come within the request's SLO any more.
    SloUnreachable,
    /// Too much work is ahead of the request.
    InputWorkLimitExceeded,
    /// How much work is ahead cannot be told.
    InputWorkCapacityUnavailable,
    /// The gateway stops, and cannot serve the request before it does.
    ShuttingDown,
}

/// Who has to act on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The caller.
    Client,
    /// This gateway, or whoever runs it.
    Gateway,
    /// An engine.
    Upstream,
}

/// One row of the error table.
#[derive(Clone, Copy, Debug)]
pub struct ErrorRow {
    /// HTTP status.
    pub status: u16,
    /// The code as it is sent.
    pub code: &'static str,
    /// OpenAI's `type`.
    pub kind: &'static str,
    /// Who has to act.
    pub fault: Fault,
    /// Seconds for `Retry-After`, where coming again can help.
    pub retry_after_s: Option<u32>,
}

/// Why a request was not let in, or not waited for any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// It does not satisfy what its method asks for.
    Admission(AdmissionRefusal),
    /// Too many wait for its target already.
    TooManyWaiters,
    /// It cannot get its first token within its SLO any more.
    SloUnreachable,
    /// It has waited as long as it may.
    WaitExpired,
}

/// A request that this gateway answers itself, with an error.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    /// What was wrong and what is allowed, for the caller.
    pub(crate) message: Cow<'static, str>,
    /// When coming again may help, where that is known better than by the table.
    retry_after: Option<Duration>,
    /// What it is counted as, if it is a rejection.
    pub(crate) rejection: Option<Rejection>,
}

/// Why a request gets no engine's answer.
#[derive(Clone, Debug)]
pub(crate) enum Unserved {
    /// It is answered with an error of this gateway's.
    Refused(Refusal),
    /// The client has left, or has said nothing for too long: there is nobody to answer.
    ClientLeft,
}

/// Longest that a client is told to stay away.
const RETRY_AFTER_MAX_S: u64 = 600;

// === impl Refusal ===

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), retry_after: None, rejection: None }
    }

    /// One that is counted.
    pub(crate) fn rejection(
        code: ErrorCode,
        rejection: Rejection,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { rejection: Some(rejection), ..Self::new(code, message) }
    }

    /// Says also when coming again may help.
    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// Seconds for `Retry-After`, at least the table's; `None` where coming again does not help.
    pub(crate) fn retry_after_s(&self) -> Option<u64> {
        let least = u64::from(self.code.row().retry_after_s?);
        let known = self.retry_after.unwrap_or_default();
        let known_s = known.as_secs().saturating_add(u64::from(known.subsec_nanos() > 0));
        Some(known_s.clamp(least, RETRY_AFTER_MAX_S))
    }
}

// === impl Unserved ===

impl From<Refusal> for Unserved {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

// === impl ErrorCode ===

impl ErrorCode {
    /// Its row of the table.
    pub const fn row(self) -> ErrorRow {
        use Fault::{Client, Gateway, Upstream};
        let (status, code, kind, fault, retry_after_s) = match self {
            Self::InvalidRequest => (400, "invalid_request", "invalid_request_error", Client, None),
            Self::InvalidHeader => (400, "invalid_header", "invalid_request_error", Client, None),
            Self::MissingModel => (400, "missing_model", "invalid_request_error", Client, None),
            Self::MissingHeader => (400, "missing_header", "invalid_request_error", Client, None),
            Self::InvalidRoutingMethod => {
                (400, "invalid_routing_method", "invalid_request_error", Client, None)
            }
            Self::AffinityKeyRequired => {
                (400, "affinity_key_required", "invalid_request_error", Client, None)
            }
            Self::InputTokensRequired => {
                (400, "input_tokens_required", "invalid_request_error", Client, None)
            }
            Self::NotFound => (404, "not_found", "invalid_request_error", Client, None),
            Self::MethodNotAllowed => (405, "method_not_allowed", "invalid_request_error", Client, None),
            Self::NoEligibleCandidates => {
                (404, "no_eligible_candidates", "invalid_request_error", Client, None)
            }
            Self::RequestTimeout => (408, "request_timeout", "invalid_request_error", Client, None),
            Self::ClientStalled => (408, "client_stalled", "invalid_request_error", Client, None),
            Self::PayloadTooLarge => (413, "payload_too_large", "invalid_request_error", Client, None),
            Self::ExpectationFailed => (417, "expectation_failed", "invalid_request_error", Client, None),
            Self::HeadersTooLarge => (431, "headers_too_large", "invalid_request_error", Client, None),
            Self::UpstreamConnectFailed => (502, "upstream_connect_failed", "server_error", Upstream, None),
            Self::UpstreamReset => (502, "upstream_reset", "server_error", Upstream, None),
            Self::UpstreamProtocolError => (502, "upstream_protocol_error", "server_error", Upstream, None),
            Self::UpstreamTimeout => (504, "upstream_timeout", "server_error", Upstream, None),
            Self::NoCapacity => (503, "no_capacity", "server_error", Gateway, Some(1)),
            Self::NoActiveBackend => (503, "no_active_backend", "server_error", Gateway, Some(1)),
            Self::SloUnreachable => (503, "slo_unreachable", "server_error", Gateway, Some(1)),
            Self::InputWorkLimitExceeded => {
                (503, "input_work_limit_exceeded", "server_error", Gateway, Some(1))
            }
            Self::InputWorkCapacityUnavailable => {
                (503, "input_work_capacity_unavailable", "server_error", Gateway, Some(1))
            }
            Self::ShuttingDown => (503, "shutting_down", "server_error", Gateway, Some(1)),
        };
        ErrorRow { status, code, kind, fault, retry_after_s }
    }
}

impl From<AdmissionRefusal> for ErrorCode {
    fn from(refusal: AdmissionRefusal) -> Self {
        match refusal {
            AdmissionRefusal::AffinityKeyRequired => Self::AffinityKeyRequired,
            AdmissionRefusal::InputTokensRequired => Self::InputTokensRequired,
            AdmissionRefusal::InputWorkLimitExceeded => Self::InputWorkLimitExceeded,
            AdmissionRefusal::InputWorkCapacityUnavailable => Self::InputWorkCapacityUnavailable,
        }
    }
}

// === impl Rejection ===

impl Rejection {
    /// The value of the metric label `reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admission(refusal) => refusal.as_str(),
            Self::TooManyWaiters => "too_many_waiters",
            Self::SloUnreachable => "slo_unreachable",
            Self::WaitExpired => "wait_expired",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_what_is_known_in_whole_seconds_and_at_least_one() {
        let refusal = |wait_ms| {
            let refusal = Refusal::new(ErrorCode::NoCapacity, "full");
            refusal.retry_after(Duration::from_millis(wait_ms)).retry_after_s()
        };
        assert_eq!(Refusal::new(ErrorCode::NoCapacity, "full").retry_after_s(), Some(1));
        for (wait_ms, expected) in [(0, 1), (1000, 1), (1001, 2), (7500, 8), (10_000_000, 600)] {
            assert_eq!(refusal(wait_ms), Some(expected), "{wait_ms} ms");
        }
        assert_eq!(Refusal::new(ErrorCode::MissingModel, "none").retry_after_s(), None);
    }
}
