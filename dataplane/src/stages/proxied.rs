//! A request for an engine, taken through its stages up to the response's head: receive, derive, attempts.
//!
//! It knows how far the request has been read, and so on which terms an error can be answered.

use crate::{
    core::{Core, placing::unknown_target},
    error::{Refusal, Unserved},
    http::RequestHead,
    io::client::Client,
    stages::{
        account::Exchange,
        attempt::Answered,
        attempts,
        derive::{self, Derived, FromHeaders},
        receive,
        terms::ClientTerms,
    },
};

/// Gets an engine's response. The request's bytes are consumed, whatever became of it. `terms`, those of a request
/// that was not read, become those of the whole one with its body.
pub(crate) async fn proxied(
    core: &Core,
    client: &mut Client,
    exchange: &mut Exchange,
    head: &RequestHead,
    headers: Box<FromHeaders>,
    terms: &mut ClientTerms,
) -> Result<Answered, Unserved> {
    if let Some(model) = &headers.model
        && let Err(refusal) = check_target(core, headers.routing_key.as_deref(), model)
    {
        exchange.model.clone_from(model);
        client.consume(head.length);
        return Err(refusal.into());
    }
    let body = receive::body(client, core, head).await?;
    *terms = ClientTerms::of(head);
    let end = match derived(core, headers, body.bytes(&client.inbound)) {
        Ok(derived) => attempts::respond(core, client, exchange, head, &derived, &body).await,
        Err(refusal) => Err(refusal.into()),
    };
    client.consume(body.inbound_length(head.length));
    end
}

/// Whether `model` can be served at all; asked before a body is read where the headers name it.
fn check_target(core: &Core, routing_key: Option<&str>, model: &str) -> Result<(), Refusal> {
    let is_known = core.with_snapshot(|snapshot| snapshot.target(routing_key, model).is_some());
    if is_known { Ok(()) } else { Err(unknown_target(routing_key, model)) }
}

fn derived(core: &Core, headers: Box<FromHeaders>, body: &[u8]) -> Result<Derived, Refusal> {
    let leading_messages = |routing_key: Option<&str>, model: &str| {
        core.with_snapshot(|snapshot| derive::leading_messages(snapshot, routing_key, model))
    };
    derive::derive(core.settings.headers.strict, leading_messages, headers, body)
}
