//! One client connection: request after request through the stages, until either side has had enough.
//!
//! Whatever a stage finds, a request ends here: relayed, answered by this gateway, or with nobody to answer.

use std::{rc::Rc, time::Instant};

use crate::{
    core::{
        Core,
        clients::{OpenConnection, Registration},
    },
    error::Unserved,
    io::client::{Client, socket::ClientSocket},
    stages::{
        account::{Ended, Exchange},
        attempt::Answered,
        derive::FromHeaders,
        local::{self, Local},
        proxied::proxied,
        receive,
        refuse::refuse,
        relay::relay,
        terms::{After, ClientTerms},
    },
};

/// What came of a request.
enum RequestEnd {
    /// A response is there to be relayed.
    Answered(Box<Exchange>, Answered, ClientTerms),
    /// It was answered here, or there is nobody to answer.
    Over(After),
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
        Err(Unserved::ClientLeft) => return RequestEnd::Over(After::Close),
        Err(Unserved::Refused(refusal)) => {
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
    let mut terms = ClientTerms::unread(&head);
    let asked = headers.and_then(|headers| Ok((Local::of(&head, &client.inbound)?, headers)));
    let end = match asked {
        Ok((None, headers)) => proxied(core, client, &mut exchange, &head, headers, &mut terms).await,
        Ok((Some(local), headers)) => {
            return RequestEnd::Over(local::answer(core, client, exchange, &head, &local, &headers).await);
        }
        Err(refusal) => {
            client.consume(head.length);
            Err(refusal.into())
        }
    };
    match end {
        Ok(answered) => RequestEnd::Answered(exchange, answered, terms),
        Err(Unserved::Refused(refusal)) => {
            RequestEnd::Over(refuse(core, client, exchange, refusal, terms).await)
        }
        Err(Unserved::ClientLeft) => {
            exchange.end(core, Ended::client_left());
            RequestEnd::Over(After::Close)
        }
    }
}
