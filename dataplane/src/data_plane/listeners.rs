//! Listeners: one a core and address. All cores' share the port, and the kernel spreads connections over them.
//!
//! They are bound on the thread that starts the data plane, so that a port that is taken fails the start.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use super::start_error::StartError;

/// Listeners for every core on every address. All are bound before any core runs, so that connections are
/// spread over all from the first.
pub(super) fn listen_on_all(
    asked: &[SocketAddr],
    cores: usize,
) -> Result<(Vec<SocketAddr>, Vec<Vec<TcpListener>>), StartError> {
    let mut addresses = Vec::new();
    let mut listeners: Vec<Vec<_>> = (0..cores).map(|_| Vec::new()).collect();
    for asked in asked {
        let mut address = *asked;
        for core in &mut listeners {
            let listener = listen(address)?;
            // Port 0 is settled by the first core's listener.
            address = listener.local_addr().map_err(|source| StartError::Listen { address, source })?;
            core.push(listener);
        }
        addresses.push(address);
    }
    Ok((addresses, listeners))
}

/// A listener of one core on `address`; all cores' listeners share the port, and the kernel spreads
/// connections over them.
fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    /// Connections that the kernel holds for a core that is busy; cut to `net.core.somaxconn`.
    const BACKLOG: i32 = 4096;

    let bound = || -> io::Result<TcpListener> {
        let socket =
            socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
        if address.is_ipv6() {
            // `[::]` and `0.0.0.0` can then both be listened on.
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    bound().map_err(|source| StartError::Listen { address, source })
}
