//! Stages four and five, in a loop: choose, attempt, and both again for as long as that is safe and allowed.
//!
//! The one place that acts on a verdict of `retry`. What an attempt is, and whether its engine can have begun, is
//! `attempt`'s to say; where the next one goes is `choose`'s.

use std::time::Instant;

use stargate_routing::Exclusions;

use crate::{
    core::{
        Core,
        placing::{Placement, Routed},
    },
    error::Unserved,
    http::RequestHead,
    io::client::Client,
    observation::AttemptResult,
    retry::{LeftOut, Retries, RetryVerdict},
    stages::{
        account::Exchange,
        attempt::{Answered, AttemptEnd, AttemptFailure, Outbound, attempt},
        choose::choose,
        derive::Derived,
        receive::Body,
        upstream_request::{self, Told},
    },
};

/// Gets a response for the request from some backend.
pub(crate) async fn respond(
    core: &Core,
    client: &mut Client,
    exchange: &mut Exchange,
    head: &RequestHead,
    derived: &Derived,
    body: &Body,
) -> Result<Answered, Unserved> {
    exchange.input_tokens = derived.input_tokens;
    let deadline = derived.headers.retry_wait.and_then(|wait| exchange.started.checked_add(wait));
    let mut retries = Retries::new(&core.settings.retry, deadline);
    let mut exclusions = Exclusions::default();
    let mut routed: Option<Routed> = None;
    let mut last: Option<AttemptFailure> = None;
    core.retry_budget.borrow_mut().request();
    loop {
        let placement = match choose(core, client, exchange, derived, &mut routed, &exclusions).await {
            Ok(placement) => placement,
            // Why the last attempt failed says more than that no other can be made.
            Err(Unserved::Refused(refusal)) => {
                return Err(last.map_or(refusal, AttemptFailure::into_refusal).into());
            }
            Err(Unserved::ClientLeft) => return Err(Unserved::ClientLeft),
        };
        exchange.attempts += 1;
        exchange.selection = Some(placement.selection);
        exchange.backend = Some(placement.backend.clone());
        let outbound = outbound(core, exchange, head, &client.inbound, derived, body, &placement);
        let end = attempt(core, &mut client.watch, &placement.backend, outbound).await;
        let verdict = end.setback().map_or(RetryVerdict::Stands, |setback| {
            retries.judge(setback, Instant::now(), &mut core.retry_budget.borrow_mut())
        });
        let left_out = match (verdict, end) {
            (RetryVerdict::Stands, AttemptEnd::Responded(response)) => {
                let Placement { reserved, cluster_id, .. } = placement;
                return Ok(Answered { response, reserved, cluster_id });
            }
            (RetryVerdict::Stands, AttemptEnd::Failed(failure)) => {
                exchange.attempt_ended(core, failure.result, None);
                return Err(failure.into_refusal().into());
            }
            (RetryVerdict::Again(left_out), AttemptEnd::Responded(response)) => {
                exchange.attempt_ended(core, AttemptResult::Rejected, Some(response.first_byte));
                left_out
            }
            (RetryVerdict::Again(left_out), AttemptEnd::Failed(failure)) => {
                exchange.attempt_ended(core, failure.result, None);
                last = Some(failure);
                left_out
            }
            (_, AttemptEnd::ClientLeft) => {
                exchange.attempt_ended(core, AttemptResult::Cancelled, None);
                return Err(Unserved::ClientLeft);
            }
        };
        leave_out(core, &mut exclusions, left_out, &placement);
    }
}

/// What is sent to the backend chosen.
fn outbound<'a>(
    core: &Core,
    exchange: &Exchange,
    head: &RequestHead,
    inbound: &'a [u8],
    derived: &Derived,
    body: &'a Body,
    placement: &Placement,
) -> Outbound<'a> {
    let mut message = core.buffers.take();
    let body_bytes = body.bytes(inbound);
    let told = Told {
        id: &exchange.id,
        model: &derived.model,
        input_tokens: derived.input_tokens,
        affinity_key: derived.affinity_key.as_deref(),
        priority: derived.headers.priority,
        expected_queue: placement.expected_queue,
        stamp: placement.reserved.sequence().map(|sequence| core.stamp(sequence)),
        body_length: body_bytes.len(),
    };
    upstream_request::write_head(&mut message, head, inbound, &placement.backend, &told);
    Outbound::new(message, body_bytes, head)
}

/// Has the next attempt do without what was at fault in the one that was made of `placement`.
fn leave_out(core: &Core, exclusions: &mut Exclusions, left_out: LeftOut, placement: &Placement) {
    let is_left_out = match left_out {
        LeftOut::KeptConnections => {
            core.pool.borrow_mut().forget(placement.backend.uid);
            true
        }
        LeftOut::Backend => exclusions.exclude_backend(placement.backend.uid),
        LeftOut::Cluster => exclusions.exclude_cluster(placement.cluster),
    };
    debug_assert!(is_left_out, "settings bound the attempts to what can be excluded");
}
