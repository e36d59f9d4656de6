//! Stages three to five of a proxied request: derive, choose, attempt, again while that is safe.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use stargate_routing::{Exclusions, Millis, RoutingRequest, Snapshot, Tokens, Waiting};

use crate::{
    core::{
        Core,
        placing::{Placement, Reserved, Routed, unknown_target},
    },
    error::{ErrorCode, Refusal, Unserved},
    http::RequestHead,
    io::client::Client,
    observation::AttemptResult,
    stages::{
        account::Exchange,
        attempt::{AttemptEnd, AttemptFailure, Outbound, Response, attempt},
        choose::choose,
        derive::{self, FromBody, FromHeaders},
        receive::Body,
        upstream_request::{self, Told},
    },
};

/// What a request is routed by, complete.
#[derive(Debug)]
pub(crate) struct Derived {
    pub(crate) headers: Box<FromHeaders>,
    pub(crate) model: String,
    pub(crate) input_tokens: Tokens,
    pub(crate) affinity_key: Option<Vec<u8>>,
}

/// A response to relay, with the reservation that it holds.
pub(crate) struct Answered {
    pub(crate) response: Box<Response>,
    pub(crate) reserved: Reserved,
    pub(crate) cluster_id: Arc<str>,
}

/// Why there is no response.
#[derive(Debug)]
pub(crate) enum ProxyEnd {
    Refused(Refusal),
    ClientLeft,
}

/// Retries left, by what they would follow.
struct Retries {
    connect: u32,
    rejection: u32,
    deadline: Option<Instant>,
}

/// Finds out what `body` is to be routed by, as far as `headers` did not say, and they have to say all when they
/// are `strict`. `leading_messages` tells how many messages make the affinity key for a routing key and a model.
pub(crate) fn derive(
    strict: bool,
    leading_messages: impl FnOnce(Option<&str>, &str) -> usize,
    mut headers: Box<FromHeaders>,
    body: &[u8],
) -> Result<Derived, Refusal> {
    if strict || headers.is_complete() {
        let model = headers.model.take().unwrap_or_default();
        let input_tokens = headers.input_tokens.unwrap_or_default();
        let affinity_key = headers.affinity_key.take();
        return Ok(Derived { headers, model, input_tokens, affinity_key });
    }
    let from_body = FromBody::read(body);
    let (model, unread) = match (headers.model.take(), &from_body) {
        (Some(model), body) => (model, body.is_err()),
        (None, Ok(FromBody { model: Some(model), .. })) => (model.clone(), false),
        (None, Ok(_)) => {
            let message = "no model is named: neither by the body's `model` nor by a header `x-model`";
            return Err(Refusal::new(ErrorCode::MissingModel, message));
        }
        (None, Err(error)) => {
            let message = format!(
                "no model is named: the body is not a JSON object ({error}), and there is no header `x-model`"
            );
            return Err(Refusal::new(ErrorCode::MissingModel, message));
        }
    };
    let from_body = from_body.unwrap_or_default();
    let estimate = if unread { derive::tokens_of_unread_body(body.len()) } else { from_body.input_tokens() };
    let affinity_key =
        headers.affinity_key.take().or_else(|| from_body.prompt_cache_key.map(String::into_bytes)).or_else(
            || match leading_messages(headers.routing_key.as_deref(), &model) {
                0 => None,
                count => derive::affinity_of_leading_messages(body, count),
            },
        );
    let input_tokens = headers.input_tokens.unwrap_or(estimate);
    Ok(Derived { headers, model, input_tokens, affinity_key })
}

/// How many leading messages make the affinity key of a request that brings none; 0 turns that off.
pub(crate) fn leading_messages(snapshot: &Snapshot, routing_key: Option<&str>, model: &str) -> usize {
    snapshot.target(routing_key, model).map_or(0, |target| target.policy.affinity_from_leading_messages)
}

/// Whether `model` can be served at all; asked before a body is read where the headers name it.
pub(crate) fn check_target(core: &Core, routing_key: Option<&str>, model: &str) -> Result<(), Refusal> {
    let is_known = core.with_snapshot(|snapshot| snapshot.target(routing_key, model).is_some());
    if is_known { Ok(()) } else { Err(unknown_target(routing_key, model)) }
}

/// Gets a response for the request from some backend.
pub(crate) async fn respond(
    core: &Core,
    client: &mut Client,
    exchange: &mut Exchange,
    head: &RequestHead,
    derived: &Derived,
    body: &Body,
) -> Result<Answered, ProxyEnd> {
    exchange.input_tokens = derived.input_tokens;
    let mut exclusions = Exclusions::default();
    let mut retries = Retries::new(core, exchange, derived);
    let mut routed: Option<Routed> = None;
    let mut last: Option<AttemptFailure> = None;
    core.retry_budget.borrow_mut().request();
    loop {
        let placement = match choose(core, client, exchange, derived, &mut routed, &exclusions).await {
            Ok(placement) => placement,
            // Why the last attempt failed says more than that no other can be made.
            Err(Unserved::Refused(refusal)) => {
                return Err(ProxyEnd::Refused(last.map_or(refusal, AttemptFailure::into_refusal)));
            }
            Err(Unserved::ClientLeft) => return Err(ProxyEnd::ClientLeft),
        };
        let Placement { backend, cluster, cluster_id, reserved, selection, expected_queue } = placement;
        exchange.attempts += 1;
        exchange.selection = Some(selection);
        exchange.backend = Some(backend.clone());
        let mut message = core.buffers.take();
        let body_bytes = body.bytes(&client.inbound);
        let told = Told {
            id: &exchange.id,
            model: &derived.model,
            input_tokens: derived.input_tokens,
            affinity_key: derived.affinity_key.as_deref(),
            priority: derived.headers.priority,
            expected_queue,
            stamp: reserved.sequence().map(|sequence| core.stamp(sequence)),
            body_length: body_bytes.len(),
        };
        upstream_request::write_head(&mut message, head, &client.inbound, &backend, &told);
        let outbound = Outbound::new(message, body_bytes, head);
        let end = attempt(core, &mut client.watch, &backend, outbound).await;
        match end {
            AttemptEnd::Responded(response) => {
                let is_rejected = response.head.retryable;
                if is_rejected && retries.take_rejection(core) {
                    exchange.attempt_ended(core, AttemptResult::Rejected, Some(response.first_byte));
                    // A mismatch concerns this backend's queue; any other rejection, the cluster.
                    let excluded = if response.head.queue_estimate_mismatch {
                        exclusions.exclude_backend(backend.uid)
                    } else {
                        exclusions.exclude_cluster(cluster)
                    };
                    debug_assert!(excluded, "settings bound the attempts to what can be excluded");
                    continue;
                }
                return Ok(Answered { response, reserved, cluster_id });
            }
            AttemptEnd::Failed(failure) => {
                exchange.attempt_ended(core, failure.result, None);
                if !failure.is_safe_to_retry || !retries.take_connect(core) {
                    return Err(ProxyEnd::Refused(failure.into_refusal()));
                }
                if failure.is_stale {
                    core.pool.borrow_mut().forget(backend.uid);
                } else {
                    let excluded = exclusions.exclude_backend(backend.uid);
                    debug_assert!(excluded, "settings bound the attempts to what can be excluded");
                }
                last = Some(failure);
            }
            AttemptEnd::ClientLeft => {
                exchange.attempt_ended(core, AttemptResult::Cancelled, None);
                return Err(ProxyEnd::ClientLeft);
            }
        }
    }
}

// === impl Derived ===

impl Derived {
    /// The time to first token that it wants, or its model does where it does not say; an SLO of 0 is none.
    pub(crate) fn slo(&self, waiting: &Waiting) -> Option<Millis> {
        self.headers.slo.or(waiting.slo).filter(|slo| slo.0 > 0)
    }

    /// What it is routed by, with this SLO, at its arrival.
    pub(crate) fn request(&self, slo: Option<Millis>) -> RoutingRequest<'_> {
        RoutingRequest {
            input_tokens: self.input_tokens,
            input_tokens_given: self.headers.input_tokens.is_some(),
            affinity_key: self.affinity_key.as_deref(),
            priority: self.headers.priority.unwrap_or_default(),
            slo,
            elapsed: Duration::ZERO,
            is_waiting: false,
        }
    }
}

// === impl Retries ===

impl Retries {
    fn new(core: &Core, exchange: &Exchange, derived: &Derived) -> Self {
        let settings = &core.settings.retry;
        Self {
            connect: settings.max_connect_retries,
            rejection: settings.max_rejection_retries,
            deadline: derived.headers.retry_wait.and_then(|wait| exchange.started.checked_add(wait)),
        }
    }

    fn take_connect(&mut self, core: &Core) -> bool {
        Self::take(&mut self.connect, self.deadline, core)
    }

    fn take_rejection(&mut self, core: &Core) -> bool {
        Self::take(&mut self.rejection, self.deadline, core)
    }

    fn take(left: &mut u32, deadline: Option<Instant>, core: &Core) -> bool {
        let now = Instant::now();
        if *left == 0
            || deadline.is_some_and(|deadline| now >= deadline)
            || !core.retry_budget.borrow_mut().take(now)
        {
            return false;
        }
        *left -= 1;
        true
    }
}

impl AttemptFailure {
    fn into_refusal(self) -> Refusal {
        Refusal::new(self.code, self.message)
    }
}
