//! The kernel program that measures round-trip times, in a real kernel, through the door that the daemon uses.

use stargate_dataplane::rtt::kernel::{KernelRtt, LogLevel, Options};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

const EXCHANGES: usize = 50;

fn talk_to(listener: &TcpListener) {
    let address = listener.local_addr().expect("an address");
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.set_nodelay(true).expect("TCP_NODELAY");
            let mut byte = [0];
            while stream.read(&mut byte).expect("a byte or the end") == 1 {
                stream.write_all(&byte).expect("a reader");
            }
        });
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        let mut byte = [0];
        for _ in 0..EXCHANGES {
            stream.write_all(b"x").expect("a reader");
            stream.read_exact(&mut byte).expect("an echo");
        }
    });
}

fn listen(ip: &str) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((ip, 0)).expect("a free port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

#[test]
fn registered_addresses_are_measured_and_others_leave_no_trace() {
    let mut rtt =
        KernelRtt::attach(Options { log: LogLevel::Debug, ..Options::default() }).expect("it attaches");
    let (registered, address) = listen("127.0.0.1");
    let (registered_v6, address_v6) = listen("::1");
    let (stranger, stranger_address) = listen("127.0.0.1");
    rtt.follow([address, address_v6].into_iter()).expect("room for two");
    for listener in [&stranger, &registered, &registered, &registered_v6] {
        talk_to(listener);
    }
    assert_eq!(rtt.samples(stranger_address).expect("readable"), None);
    for (address, connects) in [(address, 2), (address_v6, 1)] {
        let samples = rtt.samples(address).expect("readable").expect("followed");
        assert_eq!(samples.connects, connects, "{address}: {samples:?}");
        assert!(samples.samples > connects, "more than the handshakes: {samples:?}");
        assert!(samples.min_us > 0 && samples.smoothed_us > 0 && samples.last_us > 0, "{samples:?}");
    }
    let mut lines = 0;
    rtt.drain_log(|level, line| {
        assert_eq!(level, LogLevel::Debug, "{line}");
        lines += 1;
    });
    assert!(lines > 3, "{lines} lines");
}
