//! What this gateway answers itself, without an engine: whether it serves, and which models there are.
//!
//! Which paths these are is decided here too; all others under `/v1/` are for engines.

use crate::{
    core::Core,
    error::{ErrorCode, Refusal},
    http::{BodyFraming, Method, RequestHead},
    io::client::Client,
    stages::{
        account::Exchange,
        answer::Answer,
        derive::FromHeaders,
        refuse::refuse,
        terms::{After, ClientTerms},
    },
};

/// Everything under this prefix that is not answered here goes to an engine.
const PROXIED: &str = "/v1/";

/// A request that is answered here.
pub(crate) enum Local {
    Health,
    Ready,
    Models,
    Model(String),
}

/// Answers it.
pub(crate) async fn answer(
    core: &Core,
    client: &mut Client,
    exchange: Box<Exchange>,
    head: &RequestHead,
    local: &Local,
    headers: &FromHeaders,
) -> After {
    let mut terms = ClientTerms::of(head);
    terms.keep_alive &= head.body == BodyFraming::None && !core.is_draining();
    let scope = headers.routing_key.as_deref();
    let created = core.shared.started_unix_s;
    let answer = match local {
        Local::Health => Ok(Answer::healthy()),
        Local::Ready => Ok(core.with_snapshot(Answer::ready)),
        Local::Models => wanted_models(head.query(&client.inbound)).map(|only| {
            core.with_snapshot(|snapshot| Answer::models(snapshot, scope, only.as_deref(), created))
        }),
        Local::Model(id) => core.with_snapshot(|snapshot| Answer::model(snapshot, scope, id, created)),
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(refusal) => {
            client.consume(head.length);
            return refuse(core, client, exchange, refusal, terms).await;
        }
    };
    client.consume(head.length);
    let id = core.settings.headers.response_request_id.then_some(&exchange.id);
    let bytes = answer.to_bytes(id, terms.connection(terms.keep_alive), terms.with_body);
    // Probes and listings are no requests for an engine: they are not counted as such.
    match client.write(bytes).await {
        Ok(()) if terms.keep_alive => After::KeepAlive,
        Ok(()) => After::Linger,
        Err(_) => After::Close,
    }
}

/// The ids that `?model_ids=a,b` asks for; `None` without that parameter.
fn wanted_models(query: &str) -> Result<Option<Vec<String>>, Refusal> {
    let values = query.split('&').filter_map(|pair| pair.strip_prefix("model_ids"));
    let mut ids = None;
    for value in values {
        let value = value.strip_prefix('=').unwrap_or_default();
        let list: &mut Vec<String> = ids.get_or_insert_default();
        list.extend(value.split(',').filter(|id| !id.is_empty()).map(decode_percent));
    }
    match ids {
        Some(ids) if ids.is_empty() => {
            Err(Refusal::new(ErrorCode::InvalidRequest, "model_ids is empty: name one model at least"))
        }
        ids => Ok(ids),
    }
}

fn decode_percent(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

// === impl Local ===

impl Local {
    /// What of this the request asks for; `None` when it is for an engine.
    pub(crate) fn of(head: &RequestHead, inbound: &[u8]) -> Result<Option<Self>, Refusal> {
        let path = head.path(inbound);
        let is_read = matches!(head.method, Method::Get | Method::Head);
        let local = match path {
            "/healthz" => Some(Self::Health),
            "/readyz" => Some(Self::Ready),
            "/v1/models" => Some(Self::Models),
            _ => path.strip_prefix("/v1/models/").map(|id| Self::Model(decode_percent(id))),
        };
        match local {
            Some(local) if is_read => Ok(Some(local)),
            Some(_) => {
                Err(Refusal::new(ErrorCode::MethodNotAllowed, format!("{path} answers GET and HEAD only")))
            }
            None if head.method == Method::Connect => {
                Err(Refusal::new(ErrorCode::MethodNotAllowed, "this gateway opens no tunnels"))
            }
            None if path.starts_with(PROXIED) => Ok(None),
            None => {
                let message = format!(
                    "there is no path `{}`; /v1/…, /healthz and /readyz are served",
                    &path[..path.len().min(100)]
                );
                Err(Refusal::new(ErrorCode::NotFound, message))
            }
        }
    }
}
