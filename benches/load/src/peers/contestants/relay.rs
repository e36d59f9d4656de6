//! The bare relay: one upstream connection for each client's, so that it never meets more engines than clients.

use std::net::SocketAddr;

use super::{Contestant, Kind, Stage};
use crate::child::own_path;

/// Starts it.
pub(super) fn start(stage: &Stage<'_>, upstreams: &[SocketAddr]) -> anyhow::Result<Contestant> {
    let mut arguments = vec!["relay".to_owned()];
    for upstream in upstreams {
        arguments.extend(["--upstream".to_owned(), upstream.to_string()]);
    }
    let mut process = stage.start_own(Kind::Relay, &own_path()?, &arguments)?;
    let addresses = process.ready_addresses("listen")?;
    Ok(Contestant { kind: Kind::Relay, addresses, process: Some(process) })
}
