//! An address that takes no connection and refuses none: connecting to it hangs.
//!
//! A listener whose accept queue is full drops every further SYN (Linux, `tcp_abort_on_overflow` = 0).

use std::{
    fs, io,
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use socket2::{Domain, SockAddr, Socket, Type};

/// How long a connect must hang for the queue to count as full: loopback handshakes take microseconds.
const HANG: Duration = Duration::from_millis(300);

/// Connections tried until one hangs. Linux takes backlog + 1.
const FILLERS_MAX: usize = 8;

/// State of a connection whose SYN is unanswered, as `/proc/net/tcp` writes it.
const SYN_SENT: &str = "02";

/// The address, for as long as this value lives.
#[derive(Debug)]
pub struct Blackhole {
    listener: TcpListener,
    _fillers: Vec<TcpStream>,
}

// === impl Blackhole ===

impl Blackhole {
    /// Fills a listener's queue.
    pub fn start() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SockAddr::from(SocketAddr::from(([127, 0, 0, 1], 0)))).expect("a free port");
        socket.listen(0).expect("a listener");
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().expect("a bound address");
        let mut fillers = Vec::new();
        for _ in 0..FILLERS_MAX {
            match TcpStream::connect_timeout(&address, HANG) {
                Ok(filler) => fillers.push(filler),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Self { listener, _fillers: fillers };
                }
                Err(error) => panic!("filling a backlog: {error}"),
            }
        }
        panic!("a backlog of 0 took {FILLERS_MAX} connections");
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("a bound address")
    }

    /// How many connects to it are hanging now, in any process.
    pub fn hanging(&self) -> usize {
        let remote_port = format!(":{:04X}", self.address().port());
        let table = fs::read_to_string("/proc/net/tcp").expect("the kernel's table of TCP connections");
        table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|columns| {
                columns.len() > 3 && columns[2].ends_with(&remote_port) && columns[3] == SYN_SENT
            })
            .count()
    }
}
