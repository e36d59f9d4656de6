//! Accepts connections: waits for readiness, then calls accept itself.
//!
//! A cancelled `accept` of monoio leaks the descriptor that the kernel hands it; a dropped poll loses nothing.
//! A second socket, bound but not listening, keeps the port while the first is closed on purpose.

use std::{
    io::{self, ErrorKind},
    net::{SocketAddr, TcpListener as StdListener},
    time::Duration,
};

use monoio::net::{TcpListener, TcpStream};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::runtime::wants_non_blocking_sockets;

/// Connections that the kernel completes ahead of us; a ramp of thousands of streams a second must not see a full queue.
const BACKLOG: i32 = 4096;

/// How long to wait when there is no descriptor left for another connection.
const DESCRIPTORS_EXHAUSTED_PAUSE: Duration = Duration::from_millis(20);

/// A listening socket that can be closed and opened again on the same port.
pub struct Acceptor {
    local: SocketAddr,
    /// Bound to the port, not listening: connections are refused, yet nobody else gets the port.
    spare: Option<Socket>,
    open: Option<Open>,
}

struct Open {
    std: StdListener,
    poll: TcpListener,
}

impl Acceptor {
    /// Binds and listens. Call it inside the runtime.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = bind(address)?;
        let local = socket
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "not an IP address"))?;
        let spare = bind(local)?;
        let mut acceptor = Self { local, spare: Some(spare), open: None };
        acceptor.listen(socket)?;
        Ok(acceptor)
    }

    /// The address with its real port.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Closes the listening socket: the kernel refuses connections from now on.
    pub fn close(&mut self) {
        self.open = None;
    }

    /// Listens again after [`Acceptor::close`].
    pub fn reopen(&mut self) -> io::Result<()> {
        if self.open.is_some() {
            return Ok(());
        }
        let socket = match self.spare.take() {
            Some(socket) => socket,
            None => bind(self.local)?,
        };
        // Bound before the other listens: SO_REUSEADDR allows two bound sockets, but none beside a listening one.
        self.spare = Some(bind(self.local)?);
        self.listen(socket)
    }

    /// The next connection; waits for ever while closed. Safe to drop.
    pub async fn next(&self) -> io::Result<TcpStream> {
        let Some(open) = &self.open else {
            return std::future::pending().await;
        };
        loop {
            match open.std.accept() {
                Ok((stream, _)) => {
                    // Accepted sockets do not inherit O_NONBLOCK on Linux.
                    if wants_non_blocking_sockets() {
                        stream.set_nonblocking(true)?;
                    }
                    return TcpStream::from_std(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => open.poll.readable(false).await?,
                Err(error) if is_descriptor_shortage(&error) => {
                    monoio::time::sleep(DESCRIPTORS_EXHAUSTED_PAUSE).await;
                }
                Err(error) if is_about_that_connection(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn listen(&mut self, socket: Socket) -> io::Result<()> {
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let std: StdListener = socket.into();
        let poll = TcpListener::from_std(std.try_clone()?)?;
        self.open = Some(Open { std, poll });
        Ok(())
    }
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn is_descriptor_shortage(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

/// accept(2) hands over network errors of the connection that it would have returned.
fn is_about_that_connection(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted | ErrorKind::ConnectionReset)
}
