//! `HAProxy`: one thread, round robin, connections kept and shared, SSE passed on without delay.

use std::{fmt::Write, net::SocketAddr};

use super::{Contestant, Kind, Stage};
use crate::peers::{kind::Peer, stage::free_address};

/// Starts it.
pub(super) fn start(stage: &Stage<'_>, upstreams: &[SocketAddr]) -> anyhow::Result<Contestant> {
    let listen = free_address()?;
    let file = stage.write("haproxy.cfg", &configuration(listen, upstreams))?;
    // -db: in the foreground, as one process.
    let arguments = ["-db".to_owned(), "-f".to_owned(), file];
    let process = stage.start_peer(Kind::Haproxy, Peer::Haproxy, &arguments)?;
    Ok(Contestant { kind: Kind::Haproxy, addresses: vec![listen], process: Some(process) })
}

fn configuration(listen: SocketAddr, upstreams: &[SocketAddr]) -> String {
    let mut text = format!(
        "global\n  maxconn 9950\n  nbthread 1\n  tune.bufsize 16384\n  log /dev/null local0 emerg\n\
         defaults\n  mode http\n  option http-keep-alive\n  http-reuse always\n  timeout client 600s\n  \
         timeout server 600s\n  timeout connect 5s\n  timeout http-keep-alive 3600s\n  option forwardfor\n  \
         option http-no-delay\n\
         frontend clients\n  bind {listen} backlog 4096\n  maxconn 9950\n  default_backend engines\n\
         backend engines\n  balance roundrobin\n"
    );
    for (number, upstream) in upstreams.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  server s{number} {upstream} pool-max-conn 4096");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_every_upstream() {
        let upstreams: Vec<SocketAddr> =
            (1..=3).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let text = configuration("127.0.0.1:9".parse().unwrap(), &upstreams);
        assert_eq!(text.matches("  server s").count(), 3);
        assert!(text.contains("bind 127.0.0.1:9 "));
    }
}
