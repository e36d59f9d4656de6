//! SMG: one tokio worker, workers by their URLs, health checks off, no limit of requests; in turn, or by shared prefixes.

use std::net::SocketAddr;

use super::{Contestant, Kind, Stage, urls};
use crate::peers::{kind::Peer, stage::free_address};

/// Starts it.
pub(super) fn start(kind: Kind, stage: &Stage<'_>, upstreams: &[SocketAddr]) -> anyhow::Result<Contestant> {
    let (listen, metrics) = (free_address()?, free_address()?);
    let policy = if kind == Kind::SmgCacheAware { "cache_aware" } else { "round_robin" };
    let mut arguments: Vec<String> = ["launch", "--policy", policy].map(str::to_owned).into();
    for (option, address) in [("", listen), ("prometheus-", metrics)] {
        arguments.extend([format!("--{option}host"), address.ip().to_string()]);
        arguments.extend([format!("--{option}port"), address.port().to_string()]);
    }
    // 0: no limit of concurrent requests. One second: nothing is waited for at its end.
    let settings = [
        "--max-concurrent-requests",
        "0",
        "--shutdown-grace-period-secs",
        "1",
        "--log-level",
        "warn",
        "--disable-health-check",
        "--disable-tokenizer-autoload",
        "--worker-urls",
    ];
    arguments.extend(settings.map(str::to_owned));
    arguments.extend(urls(upstreams));
    let process = stage.start_tokio_peer(kind, Peer::Smg, &arguments)?;
    Ok(Contestant { kind, addresses: vec![listen], process: Some(process) })
}
