//! One client connection: request after request through the stages, until either side has had enough.

use std::{rc::Rc, time::Instant};

use crate::{
    core::{
        Core,
        clients::{OpenConnection, Registration},
    },
    error::{ErrorCode, Refusal},
    http::{BodyFraming, Method, RequestHead},
    io::client::{Client, socket::ClientSocket},
    stages::{
        account::{Ended, Exchange},
        answer::Answer,
        attempts::{self, Answered, Derived, ProxyEnd},
        derive::FromHeaders,
        receive::{self, ReceiveEnd},
        refuse::refuse,
        relay::{After, ClientTerms, relay},
    },
};

/// Everything under this prefix that is not answered here goes to an engine.
const PROXIED: &str = "/v1/";

/// What a path asks for.
enum Route {
    Health,
    Ready,
    Models,
    Model(String),
    Proxied,
}

/// What came of a request.
enum RequestEnd {
    /// A response is there to be relayed.
    Answered(Box<Exchange>, Answered, ClientTerms),
    /// It was answered here, or there is nobody to answer.
    Over(After),
}

/// Why a request for an engine has no response.
enum ProxiedEnd {
    Refused(Refusal, ClientTerms),
    ClientLeft,
}

/// Serves a connection to its end.
pub(crate) async fn serve(core: Rc<Core>, open: OpenConnection, socket: ClientSocket) {
    let registration = Registration::new(open, socket.clone());
    let write_limit = core.settings.timeouts.write;
    let mut client = Client::new(socket, core.deadlines.clone(), core.buffers.clone(), write_limit);
    let max_requests = core.settings.limits.max_requests_per_connection;
    let mut served = 0;
    loop {
        // A client that connects has something to say; between requests it may take its time.
        let timeouts = &core.settings.timeouts;
        let patience = if served == 0 { timeouts.header } else { timeouts.keep_alive };
        if client.wait(patience).await.is_err() {
            return;
        }
        registration.set_idle(false);
        served += 1;
        let is_last = max_requests > 0 && served >= max_requests;
        let after = match request(&core, &mut client, is_last).await {
            RequestEnd::Answered(exchange, answered, terms) => {
                relay(&core, &mut client, exchange, answered, terms).await
            }
            RequestEnd::Over(after) => after,
        };
        match after {
            After::KeepAlive if !core.is_draining() => registration.set_idle(true),
            After::KeepAlive | After::Close | After::Cut => return,
            After::Linger => return client.linger().await,
        }
    }
}

/// Takes one request through the stages up to an engine's response.
async fn request(core: &Core, client: &mut Client, is_last: bool) -> RequestEnd {
    let started = Instant::now();
    let mut head = match receive::head(client, core, started).await {
        Ok(head) => head,
        Err(ReceiveEnd::Silent) => return RequestEnd::Over(After::Close),
        Err(ReceiveEnd::Refused(refusal)) => {
            let exchange = Exchange::new(core.new_request_id(), started, String::new());
            return RequestEnd::Over(refuse(core, client, exchange, refusal, ClientTerms::closing()).await);
        }
    };
    head.keep_alive &= !is_last;
    let policy = &core.settings.headers;
    let given_id = FromHeaders::request_id(&head, &client.inbound, policy);
    let headers = FromHeaders::read(&head, &client.inbound, policy, given_id.as_ref());
    let id = given_id.unwrap_or_else(|| core.new_request_id());
    let mut exchange = Exchange::new(id, started, head.line(&client.inbound));
    let routed = headers.and_then(|headers| Ok((Route::of(&head, &client.inbound)?, headers)));
    let end = match routed {
        Ok((Route::Proxied, headers)) => proxied(core, client, &mut exchange, &head, headers).await,
        Ok((route, headers)) => {
            return RequestEnd::Over(local(core, client, exchange, &head, &route, &headers).await);
        }
        Err(refusal) => {
            client.consume(head.length);
            Err(ProxiedEnd::Refused(refusal, ClientTerms::unread(&head)))
        }
    };
    match end {
        Ok(answered) => RequestEnd::Answered(exchange, answered, ClientTerms::of(&head)),
        Err(ProxiedEnd::Refused(refusal, terms)) => {
            RequestEnd::Over(refuse(core, client, exchange, refusal, terms).await)
        }
        Err(ProxiedEnd::ClientLeft) => {
            exchange.end(core, Ended::client_left());
            RequestEnd::Over(After::Close)
        }
    }
}

/// A request for an engine, to the response's head. Its bytes are consumed, whatever became of it.
async fn proxied(
    core: &Core,
    client: &mut Client,
    exchange: &mut Exchange,
    head: &RequestHead,
    headers: Box<FromHeaders>,
) -> Result<Answered, ProxiedEnd> {
    if let Some(model) = &headers.model
        && let Err(refusal) = attempts::check_target(core, headers.routing_key.as_deref(), model)
    {
        exchange.model.clone_from(model);
        client.consume(head.length);
        return Err(ProxiedEnd::Refused(refusal, ClientTerms::unread(head)));
    }
    let body = receive::body(client, core, head).await.map_err(|end| match end {
        ReceiveEnd::Silent => ProxiedEnd::ClientLeft,
        ReceiveEnd::Refused(refusal) => ProxiedEnd::Refused(refusal, ClientTerms::closing()),
    })?;
    let end = match derived(core, headers, body.bytes(&client.inbound)) {
        Ok(derived) => attempts::respond(core, client, exchange, head, &derived, &body).await,
        Err(refusal) => Err(ProxyEnd::Refused(refusal)),
    };
    client.consume(body.inbound_length(head.length));
    end.map_err(|end| match end {
        ProxyEnd::Refused(refusal) => ProxiedEnd::Refused(refusal, ClientTerms::of(head)),
        ProxyEnd::ClientLeft => ProxiedEnd::ClientLeft,
    })
}

fn derived(core: &Core, headers: Box<FromHeaders>, body: &[u8]) -> Result<Derived, Refusal> {
    let leading_messages = |routing_key: Option<&str>, model: &str| {
        core.with_snapshot(|snapshot| attempts::leading_messages(snapshot, routing_key, model))
    };
    attempts::derive(core.settings.headers.strict, leading_messages, headers, body)
}

/// A request that is answered here.
async fn local(
    core: &Core,
    client: &mut Client,
    exchange: Box<Exchange>,
    head: &RequestHead,
    route: &Route,
    headers: &FromHeaders,
) -> After {
    let mut terms = ClientTerms::of(head);
    terms.keep_alive &= head.body == BodyFraming::None && !core.is_draining();
    let scope = headers.routing_key.as_deref();
    let created = core.shared.started_unix_s;
    let answer = match route {
        Route::Health => Ok(Answer::healthy()),
        Route::Ready => Ok(core.with_snapshot(Answer::ready)),
        Route::Models => wanted_models(head.query(&client.inbound)).map(|only| {
            core.with_snapshot(|snapshot| Answer::models(snapshot, scope, only.as_deref(), created))
        }),
        Route::Model(id) => core.with_snapshot(|snapshot| Answer::model(snapshot, scope, id, created)),
        Route::Proxied => Err(Refusal::new(ErrorCode::NotFound, "this path is not answered here")),
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

// === impl Route ===

impl Route {
    fn of(head: &RequestHead, inbound: &[u8]) -> Result<Self, Refusal> {
        let path = head.path(inbound);
        let is_read = matches!(head.method, Method::Get | Method::Head);
        let local = match path {
            "/healthz" => Some(Self::Health),
            "/readyz" => Some(Self::Ready),
            "/v1/models" => Some(Self::Models),
            _ => path.strip_prefix("/v1/models/").map(|id| Self::Model(decode_percent(id))),
        };
        match local {
            Some(route) if is_read => Ok(route),
            Some(_) => {
                Err(Refusal::new(ErrorCode::MethodNotAllowed, format!("{path} answers GET and HEAD only")))
            }
            None if head.method == Method::Connect => {
                Err(Refusal::new(ErrorCode::MethodNotAllowed, "this gateway opens no tunnels"))
            }
            None if path.starts_with(PROXIED) => Ok(Self::Proxied),
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
