//! Attaching the program under test, and traffic for it to measure.

use std::{
    env, fs,
    io::{Read, Write},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
    thread::{self, JoinHandle},
};

use socket2::SockRef;
use stargate_dataplane::rtt::kernel::{KernelRtt, Object, Options, RttSamples, cgroup};
use stargate_tests::{DEADLINE, DelayedPath};

/// Names another object than the embedded one.
const OBJECT_VARIABLE: &str = "STARGATE_TEST_KERNEL_OBJECT";

/// The program's call of `bpf_sock_ops_cb_flags_set`, whatever compiler wrote it.
pub(crate) const SET_CALLBACKS: [u8; 8] = [0x85, 0, 0, 0, 59, 0, 0, 0];

/// A listener that sends every byte back, over any number of connections.
pub(crate) struct Echo {
    listener: TcpListener,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// A connection to an [`Echo`].
pub(crate) struct Talk(TcpStream);

/// The program under test, with the defaults of the daemon.
pub(crate) fn options() -> Options {
    let object =
        env::var_os(OBJECT_VARIABLE).map(|path| Object::from_bytes(fs::read(path).expect("the object")));
    Options { object: object.unwrap_or_else(Object::embedded), ..Options::default() }
}

/// The program with one of its instructions replaced: for what this kernel does not do by itself. `is_wanted` must tell
/// exactly one.
pub(crate) fn patched(
    object: &Object,
    is_wanted: impl Fn([u8; 8]) -> bool,
    replace: impl Fn(&mut [u8]),
) -> Object {
    let mut bytes = object.bytes().to_vec();
    let mut instructions: Vec<&mut [u8]> = bytes.chunks_exact_mut(8).collect();
    instructions.retain(|instruction| is_wanted(instruction[..].try_into().expect("8 bytes")));
    let [instruction] = &mut instructions[..] else {
        panic!("{} instructions are like it", instructions.len())
    };
    replace(instruction);
    Object::from_bytes(bytes)
}

/// Attaches it to this process's own cgroup; `None` after saying why this machine cannot run the test.
pub(crate) fn attach() -> Option<KernelRtt> {
    let possible = if rustix::process::geteuid().is_root() {
        cgroup::own().map(drop).map_err(|error| error.to_string())
    } else {
        Err("loading a kernel program needs root".to_owned())
    };
    // Here everything is as it must be: whatever fails now is a fault.
    runs(&possible).then(|| KernelRtt::attach(options()).unwrap_or_else(|error| panic!("{error}")))
}

/// Whether a path can be made; says so when not.
pub(crate) fn has_paths() -> bool {
    runs(&DelayedPath::possible())
}

fn runs(possible: &Result<(), String>) -> bool {
    if let Err(reason) = possible {
        assert!(env::var_os("CI").is_none(), "never skipped in CI: {reason}");
        eprintln!("SKIPPED: {reason}");
    }
    possible.is_ok()
}

/// What was measured to an address that is followed.
pub(crate) fn samples(rtt: &KernelRtt, address: SocketAddr) -> RttSamples {
    rtt.samples(address).expect("it can be read").expect("it is followed")
}

// === impl Echo ===

impl Echo {
    /// Listens at a free port of this address.
    pub(crate) fn at(ip: IpAddr) -> Self {
        let listener = TcpListener::bind((ip, 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let accepting = listener.try_clone().expect("another descriptor");
        let thread = thread::spawn(move || {
            thread::scope(|connections| {
                // Fails when the listener is shut down.
                while let Ok((stream, _)) = accepting.accept() {
                    connections.spawn(move || echo(&stream));
                }
            });
        });
        Self { listener, address, thread: Some(thread) }
    }

    pub(crate) fn local() -> Self {
        Self::at(IpAddr::from([127, 0, 0, 1]))
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        SockRef::from(&self.listener).shutdown(Shutdown::Both).expect("it listens");
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join)
            && !thread::panicking()
        {
            panic!("an echo panicked");
        }
    }
}

/// Until the other end is done.
fn echo(mut stream: &TcpStream) {
    stream.set_nodelay(true).expect("TCP_NODELAY");
    let mut byte = [0];
    loop {
        // Acknowledged at once, not with what is sent back: a sample is of the path, not of how soon this thread gets to run.
        // Holds for a while only.
        SockRef::from(stream).set_tcp_quickack(true).expect("TCP_QUICKACK");
        match stream.read(&mut byte) {
            Ok(1) => stream.write_all(&byte).expect("the other end waits for it"),
            _ => return,
        }
    }
}

// === impl Talk ===

impl Talk {
    /// Connects.
    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, DEADLINE)
            .unwrap_or_else(|error| panic!("{address}: {error}"));
        Self::over(stream)
    }

    /// Over a connection that is there.
    pub(crate) fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("TCP_NODELAY");
        stream.set_read_timeout(Some(DEADLINE)).expect("SO_RCVTIMEO");
        Self(stream)
    }

    /// Sends a byte and waits until it is back: one round trip, and so one sample.
    pub(crate) fn exchange(&mut self) {
        let mut byte = [0];
        self.0.write_all(b"x").expect("a reader");
        self.0.read_exact(&mut byte).expect("an echo");
    }

    pub(crate) fn exchanges(mut self, count: usize) -> Self {
        (0..count).for_each(|_| self.exchange());
        self
    }
}
