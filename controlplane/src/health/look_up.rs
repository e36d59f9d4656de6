//! Looks up where a backend's name points, at each check, so that a name which moves is followed.
//!
//! The system's resolver blocks a thread and cannot be cancelled. At most one look-up per backend is under
//! way: the next check waits for it instead of blocking another thread.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{net::TcpStream, task::JoinHandle, time::timeout};

use crate::backend_url::Host;

/// Most addresses of one name that are considered.
const ADDRESSES_MAX: usize = 16;

/// Look-ups for one backend.
#[derive(Debug, Default)]
pub struct LookUp {
    pending: Option<JoinHandle<io::Result<Vec<SocketAddr>>>>,
}

// === impl LookUp ===

impl LookUp {
    /// All addresses of `host`, one at least. Dropping the future keeps the look-up for the next call.
    pub async fn addresses(&mut self, host: &Host) -> io::Result<Vec<SocketAddr>> {
        let (name, port) = match host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name, port) => (name.clone(), *port),
        };
        let pending = self.pending.get_or_insert_with(|| {
            tokio::spawn(async move {
                let found = tokio::net::lookup_host((&*name, port)).await?;
                Ok(found.take(ADDRESSES_MAX).collect())
            })
        });
        let result = pending.await;
        self.pending = None;
        let addresses: Vec<SocketAddr> = result.map_err(io::Error::other)??;
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        Ok(addresses)
    }
}

/// Where a backend that has just registered is: the first of its addresses that accepts a connection, or else
/// the first; `None` when its name cannot be looked up within `limit`.
pub async fn locate(host: &Host, limit: Duration) -> Option<SocketAddr> {
    if let Host::Address(address) = host {
        return Some(*address);
    }
    let addresses = timeout(limit, LookUp::default().addresses(host)).await.ok()?.ok()?;
    if let [address] = *addresses {
        return Some(address);
    }
    let each = limit / addresses.len() as u32;
    for address in &addresses {
        if matches!(timeout(each, TcpStream::connect(address)).await, Ok(Ok(_))) {
            return Some(*address);
        }
    }
    addresses.first().copied()
}
