//! One check of one backend: look up, connect, `GET`, any 2xx is good.

use std::{net::SocketAddr, pin::pin, time::Duration};

use axum::{body::Bytes, http::header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use stargate_dataplane::rtt::handshake_of;
use stargate_routing::RttSample;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};

use super::look_up::LookUp;
use crate::backend_url::Host;

/// Bytes of an answer that are read. More says nothing; closing early would reset the engine's connection.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Part of a check's time that a look-up may take when the last known address can be used instead.
const LOOK_UP_SHARE: u32 = 2;

/// What to check.
#[derive(Clone, Debug)]
pub struct CheckTarget {
    /// Where its URL points.
    pub host: Host,
    /// For the `host` header.
    pub authority: String,
    /// What to ask for.
    pub path: String,
    /// Where it was last.
    pub address: Option<SocketAddr>,
}

/// What a check found.
#[derive(Debug)]
pub struct CheckReport {
    /// Where it is, if anything could be connected to there.
    pub address: Option<SocketAddr>,
    /// How long connecting took.
    pub connect: Option<Duration>,
    /// The kernel's own measurement of the same, where it made one.
    pub handshake: Option<RttSample>,
    /// Whether it is well.
    pub result: Result<(), CheckFailure>,
}

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum CheckFailure {
    #[error("its name cannot be looked up: {0}")]
    LookUp(std::io::Error),
    #[error("cannot connect to {0}: {1}")]
    Connect(SocketAddr, std::io::Error),
    #[error("no answer in time")]
    Timeout,
    #[error("no valid HTTP answer: {0}")]
    Http(#[from] hyper::Error),
    #[error("answered {0}")]
    Status(u16),
    #[error("cannot be asked: {0}")]
    Request(#[from] axum::http::Error),
}

/// Checks `target` once, within `limit`.
pub async fn check(target: &CheckTarget, look_up: &mut LookUp, limit: Duration) -> CheckReport {
    let mut report = CheckReport { address: None, connect: None, handshake: None, result: Ok(()) };
    let result = timeout(limit, run(target, look_up, limit, &mut report)).await;
    report.result = result.unwrap_or(Err(CheckFailure::Timeout));
    report
}

async fn run(
    target: &CheckTarget,
    look_up: &mut LookUp,
    limit: Duration,
    report: &mut CheckReport,
) -> Result<(), CheckFailure> {
    let addresses = candidates(target, look_up, limit).await?;
    let stream = connect(&addresses, limit, report).await?;
    ask(stream, target).await
}

/// Where to connect, best first: where it was last, as long as its name still points there.
async fn candidates(
    target: &CheckTarget,
    look_up: &mut LookUp,
    limit: Duration,
) -> Result<Vec<SocketAddr>, CheckFailure> {
    let found = look_up.addresses(&target.host);
    let Some(known) = target.address else { return found.await.map_err(CheckFailure::LookUp) };
    // A resolver that fails must not take out backends that are well.
    let Ok(Ok(mut addresses)) = timeout(limit / LOOK_UP_SHARE, found).await else { return Ok(vec![known]) };
    addresses.sort_by_key(|address| *address != known);
    Ok(addresses)
}

async fn connect(
    addresses: &[SocketAddr],
    limit: Duration,
    report: &mut CheckReport,
) -> Result<TcpStream, CheckFailure> {
    // An address that swallows packets leaves time for the others.
    let each = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut failure = CheckFailure::Timeout;
    for address in addresses {
        let start = Instant::now();
        match timeout(each, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                report.address = Some(*address);
                report.connect = Some(start.elapsed());
                report.handshake = handshake_of(&stream);
                return Ok(stream);
            }
            Ok(Err(error)) => failure = CheckFailure::Connect(*address, error),
            Err(_) => failure = CheckFailure::Timeout,
        }
    }
    Err(failure)
}

async fn ask(stream: TcpStream, target: &CheckTarget) -> Result<(), CheckFailure> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = hyper::Request::get(&target.path)
        .header(header::HOST, &target.authority)
        .header(header::USER_AGENT, "stargate-health")
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())?;
    let exchange = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let mut body = response.into_body();
        let mut bytes = 0;
        while bytes < ANSWER_BYTES_MAX
            && let Some(frame) = body.frame().await
        {
            bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        if status.is_success() { Ok(()) } else { Err(CheckFailure::Status(status.as_u16())) }
    };
    let (mut exchange, connection) = (pin!(exchange), pin!(connection));
    tokio::select! {
        biased;
        result = &mut exchange => result,
        // The connection's own error reaches the exchange, which says more.
        _ = connection => exchange.await,
    }
}
