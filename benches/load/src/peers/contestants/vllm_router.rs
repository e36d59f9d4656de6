//! vllm-router: one tokio worker, workers by their URLs, no limit of requests in reach; in turn, or by shared prefixes.

use std::net::SocketAddr;

use super::{Contestant, Kind, Stage, urls};
use crate::peers::{kind::Peer, stage::free_address};

/// Requests at once, and in a second: more than it does.
const REQUESTS_MAX: u32 = 100_000;

/// Starts it.
pub(super) fn start(kind: Kind, stage: &Stage<'_>, upstreams: &[SocketAddr]) -> anyhow::Result<Contestant> {
    let (listen, metrics) = (free_address()?, free_address()?);
    let policy = if kind == Kind::VllmRouterCacheAware { "cache_aware" } else { "round_robin" };
    let mut arguments: Vec<String> = ["--policy", policy, "--log-level", "warning"].map(str::to_owned).into();
    for (option, address) in [("", listen), ("prometheus-", metrics)] {
        arguments.extend([format!("--{option}host"), address.ip().to_string()]);
        arguments.extend([format!("--{option}port"), address.port().to_string()]);
    }
    arguments.extend(["--max-concurrent-requests".to_owned(), REQUESTS_MAX.to_string()]);
    arguments.push("--worker-urls".to_owned());
    arguments.extend(urls(upstreams));
    let process = stage.start_tokio_peer(kind, Peer::VllmRouter, &arguments)?;
    Ok(Contestant { kind, addresses: vec![listen], process: Some(process) })
}
