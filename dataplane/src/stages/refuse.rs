//! Answering a request with an error of ours, and accounting for it.
//!
//! Whoever refuses says why (`Refusal`) and on which terms; whether the client still took the answer is found here.

use crate::{
    core::Core,
    error::Refusal,
    io::client::Client,
    stages::{
        account::{Ended, Exchange},
        answer::Answer,
        terms::{After, ClientTerms},
    },
};

/// Answers with the error. The connection can go on when the request was read to its end.
pub(crate) async fn refuse(
    core: &Core,
    client: &mut Client,
    exchange: Box<Exchange>,
    refusal: Refusal,
    terms: ClientTerms,
) -> After {
    let id = core.settings.headers.response_request_id.then_some(&exchange.id);
    let keep_alive = terms.keep_alive && !core.is_draining();
    let bytes = Answer::error(&refusal).to_bytes(id, terms.connection(keep_alive), terms.with_body);
    let written = client.write(bytes).await;
    exchange.end(core, if written.is_ok() { Ended::refused(refusal) } else { Ended::client_left() });
    match written {
        Ok(()) if keep_alive => After::KeepAlive,
        Ok(()) => After::Linger,
        Err(_) => After::Close,
    }
}
