//! What a request is told that gets no place.

use std::time::Duration;

use stargate_routing::{
    AdmissionRefusal, Hold, Method, Patience, PatienceSource, Refused, TargetName, UnavailableReason,
    WaitedFor,
};

use crate::error::{ErrorCode, Refusal, Rejection};

/// For one whose target nobody serves.
pub(crate) fn unknown_target(routing_key: Option<&str>, model: &str) -> Refusal {
    let scope = if routing_key.is_some() { " for this routing key" } else { "" };
    let message = format!("nobody serves the model `{model}`{scope}; GET /v1/models lists what is served");
    Refusal::new(ErrorCode::NoEligibleCandidates, message)
}

/// For one that does not satisfy what its method asks for.
pub(crate) fn not_admitted(refused: AdmissionRefusal, method: &Method, model: &str) -> Refusal {
    let message = match refused {
        AdmissionRefusal::AffinityKeyRequired => format!(
            "the model `{model}` is configured to require an affinity key: send \
             x-cache-affinity-key, x-multi-turn-session-id or `prompt_cache_key` in the body"
        ),
        AdmissionRefusal::InputTokensRequired => {
            format!("the model `{model}` is configured to require the header x-input-tokens")
        }
        AdmissionRefusal::InputWorkLimitExceeded => format!(
            "the model `{model}` is too busy: the input queued and this request's own take its clusters \
             longer than max_input_work_seconds ({})",
            method.admission.max_input_work_seconds.unwrap_or_default()
        ),
        AdmissionRefusal::InputWorkCapacityUnavailable => format!(
            "the model `{model}` is limited by max_input_work_seconds, but no cluster that this request \
             may go to reports a throughput to tell its work by"
        ),
    };
    Refusal::rejection(refused.into(), Rejection::Admission(refused), message)
}

/// For one that is turned away so long after its arrival, having waited with this patience.
pub(crate) fn refusal(refused: Refused, patience: Patience, model: &str, elapsed: Duration) -> Refusal {
    match refused {
        Refused::Unavailable(reason) => {
            let message = format!("the model `{model}` cannot be served now: {}", why(reason));
            Refusal::new(code_of(reason), message)
        }
        Refused::Expired(hold) => expired(hold, patience, model, elapsed),
        Refused::SloUnreachable { best, slo } => {
            let message = format!(
                "the model `{model}` is too busy for this request: {elapsed:?} after its arrival its first token takes \
                 {best:?} more at best, and its SLO (x-request-slo-ms, or slo_ms of the model) is {slo:?}"
            );
            let refusal = Refusal::rejection(ErrorCode::SloUnreachable, Rejection::SloUnreachable, message);
            // Once so much of the work ahead is done, a new request would be in time.
            refusal.retry_after(best.saturating_sub(slo))
        }
    }
}

/// For one that finds too many waiting.
pub(crate) fn too_many_waiters(model: &str, waiters_max: u32) -> Refusal {
    let message = format!(
        "too many requests wait for the model `{model}` already: {waiters_max} on this core (max_waiters)"
    );
    Refusal::rejection(ErrorCode::NoCapacity, Rejection::TooManyWaiters, message)
}

/// For one that waits when the gateway stops.
pub(crate) fn shutting_down(target: &TargetName) -> Refusal {
    let message = format!(
        "this gateway is stopping, and the model `{}` has no place for the request before it does",
        target.model
    );
    Refusal::new(ErrorCode::ShuttingDown, message)
}

fn expired(hold: Hold, patience: Patience, model: &str, elapsed: Duration) -> Refusal {
    let Patience { deadline, source } = patience;
    let says = match source {
        PatienceSource::Request => "x-max-wait-ms of the request",
        PatienceSource::Model => "default_max_wait_ms of the model",
        PatienceSource::Nobody => "the longest that any request waits",
    };
    let (code, why) = match hold.reason {
        WaitedFor::Change(reason) => (code_of(reason), why(reason)),
        WaitedFor::Opening(_) => (ErrorCode::NoCapacity, "no cluster that it may go to by now has a place"),
    };
    let message =
        format!("the model `{model}` cannot serve this request within {deadline:?} ({says}): {why}");
    Refusal::rejection(code, Rejection::WaitExpired, message).retry_after(hold.until.saturating_sub(elapsed))
}

fn why(reason: UnavailableReason) -> &'static str {
    match reason {
        UnavailableReason::NoActiveBackend => "none of its backends is active",
        UnavailableReason::AllExcluded => "every backend has failed for this request",
        UnavailableReason::NoCapacity => "every cluster is full",
        UnavailableReason::NoEligibleCandidate => "no cluster reports what the routing algorithm needs",
    }
}

fn code_of(reason: UnavailableReason) -> ErrorCode {
    match reason {
        UnavailableReason::NoCapacity => ErrorCode::NoCapacity,
        UnavailableReason::NoActiveBackend
        | UnavailableReason::AllExcluded
        | UnavailableReason::NoEligibleCandidate => ErrorCode::NoActiveBackend,
    }
}
