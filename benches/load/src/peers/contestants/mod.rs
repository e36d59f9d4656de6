//! The contestants, one file each: how it is configured and started, as its users would tune it for this traffic.
//!
//! Each gets one thread for its requests, connections kept to clients and engines, and no log of requests.

mod envoy;
mod gateway;
mod haproxy;
mod nginx;
mod relay;
mod smg;
mod vllm_router;

use std::net::SocketAddr;

use super::{contestant::Contestant, kind::Kind, stage::Stage};

/// Starts a contestant in front of `upstreams`. It has answered a request and rests when this returns.
pub(super) async fn start(
    kind: Kind,
    stage: &Stage<'_>,
    upstreams: &[SocketAddr],
) -> anyhow::Result<Contestant> {
    let mut contestant = launch(kind, stage, upstreams)?;
    contestant.settle().await?;
    Ok(contestant)
}

/// Starts its process; it may need a while until it answers.
fn launch(kind: Kind, stage: &Stage<'_>, upstreams: &[SocketAddr]) -> anyhow::Result<Contestant> {
    match kind {
        Kind::Direct => Ok(Contestant { kind, addresses: upstreams.to_vec(), process: None }),
        Kind::Relay => relay::start(stage, upstreams),
        Kind::Haproxy => haproxy::start(stage, upstreams),
        Kind::Nginx => nginx::start(stage, upstreams),
        Kind::Envoy => envoy::start(stage, upstreams),
        Kind::SmgRoundRobin | Kind::SmgCacheAware => smg::start(kind, stage, upstreams),
        Kind::VllmRouterRoundRobin | Kind::VllmRouterCacheAware => vllm_router::start(kind, stage, upstreams),
        Kind::Gateway | Kind::Other => gateway::start(kind, stage, upstreams),
    }
}

/// Addresses as workers of the routers that take URLs.
fn urls(upstreams: &[SocketAddr]) -> impl Iterator<Item = String> {
    upstreams.iter().map(|upstream| format!("http://{upstream}"))
}
