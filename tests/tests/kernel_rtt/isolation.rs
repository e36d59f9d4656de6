//! What is not this gateway's leaves no trace, and several gateways do not disturb one another.

use std::net::{SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};
use stargate_dataplane::rtt::kernel::{KernelRtt, LogLevel, Options, RttSamples, cgroup};
use stargate_tests::{Cgroup, eventually};

use crate::{
    peer::Peer,
    support::{Echo, SET_CALLBACKS, Talk, attach, options, patched, samples},
};

const EXCHANGES: usize = 20;

#[test]
fn an_address_that_is_not_followed_leaves_no_trace() {
    let Some(mut rtt) = attach() else { return };
    let (followed, stranger) = (Echo::local(), Echo::local());
    rtt.follow([followed.address()].into_iter()).expect("room");
    Talk::to(stranger.address()).exchanges(EXCHANGES);
    assert_eq!(rtt.samples(stranger.address()).expect("readable"), None);
    assert_eq!(samples(&rtt, followed.address()), RttSamples::default());
    Talk::to(followed.address()).exchanges(EXCHANGES);
    let measured = samples(&rtt, followed.address());
    assert_eq!(measured.connects, 1, "{measured:?}");
    assert!(measured.samples >= EXCHANGES as u64, "{measured:?}");
    assert_eq!(rtt.followed(), 1);
}

#[test]
fn a_connection_that_was_accepted_leaves_no_trace() {
    let Some(mut rtt) = attach() else { return };
    let echo = Echo::local();
    // To the accepted end, the connecting one's address is where the connection goes.
    let client = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    client.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    let address = client.local_addr().expect("an address").as_socket().expect("an address of IP");
    rtt.follow([address].into_iter()).expect("room");
    client.connect(&echo.address().into()).expect("it listens");
    Talk::over(TcpStream::from(client)).exchanges(EXCHANGES);
    assert_eq!(samples(&rtt, address), RttSamples::default());
}

#[test]
fn an_address_that_is_followed_no_more_is_measured_no_more() {
    let Some(mut rtt) = attach() else { return };
    let (kept, dropped) = (Echo::local(), Echo::local());
    rtt.follow([kept.address(), dropped.address()].into_iter()).expect("room");
    let mut open = Talk::to(dropped.address());
    drop(Talk::to(kept.address()));
    rtt.follow([kept.address()].into_iter()).expect("room");
    open.exchange();
    assert_eq!(rtt.samples(dropped.address()).expect("readable"), None);
    assert_eq!(samples(&rtt, kept.address()).connects, 1, "what was measured before is kept");
    rtt.follow([dropped.address(), kept.address()].into_iter()).expect("room");
    assert_eq!(samples(&rtt, dropped.address()), RttSamples::default(), "it starts from nothing");
    // The connection is the same, and this gateway still its opener.
    open.exchange();
    let measured = samples(&rtt, dropped.address());
    assert_eq!(measured.connects, 0, "{measured:?}");
    assert!(measured.samples > 0, "{measured:?}");
}

#[test]
fn two_gateways_in_one_cgroup_both_measure_and_one_may_go_first() {
    let (Some(mut first), Some(mut second)) = (attach(), attach()) else { return };
    let (of_both, of_second) = (Echo::local(), Echo::local());
    first.follow([of_both.address()].into_iter()).expect("room");
    second.follow([of_both.address(), of_second.address()].into_iter()).expect("room");
    let mut open = Talk::to(of_both.address());
    (0..EXCHANGES).for_each(|_| open.exchange());
    Talk::to(of_second.address()).exchanges(EXCHANGES);
    let (by_first, by_second) = (samples(&first, of_both.address()), samples(&second, of_both.address()));
    assert_eq!((by_first.connects, by_first.samples), (by_second.connects, by_second.samples));
    assert_eq!(first.samples(of_second.address()).expect("readable"), None);
    assert_eq!(samples(&second, of_second.address()).connects, 1);

    drop(first);
    (0..EXCHANGES).for_each(|_| open.exchange());
    Talk::to(of_both.address()).exchanges(EXCHANGES);
    let after = samples(&second, of_both.address());
    assert_eq!(after.connects, 2, "{after:?}");
    assert!(after.samples >= by_second.samples + 2 * EXCHANGES as u64, "{by_second:?}, then {after:?}");
}

#[test]
fn two_gateways_in_two_processes_of_one_cgroup_do_not_disturb_one_another() {
    let Some(mut rtt) = attach() else { return };
    let echo = Echo::local();
    rtt.follow([echo.address()].into_iter()).expect("room");
    let mut peer = Peer::start();
    peer.attach().expect("it attaches");
    peer.follow(echo.address());
    let mut open = Talk::to(echo.address());
    peer.talk(echo.address());
    // Which process opened a connection in a cgroup that they share cannot be told; the path is the same.
    assert_eq!((peer.connects(echo.address()), samples(&rtt, echo.address()).connects), (2, 2));
    peer.kill();
    let before = samples(&rtt, echo.address());
    (0..EXCHANGES).for_each(|_| open.exchange());
    Talk::to(echo.address()).exchanges(EXCHANGES);
    let after = samples(&rtt, echo.address());
    assert_eq!(after.connects, 3);
    assert!(after.samples >= before.samples + 2 * EXCHANGES as u64, "{before:?}, then {after:?}");
}

#[test]
fn gateways_in_two_cgroups_see_their_own_connections_only() {
    let Some(parent) = attach() else { return };
    let own = parent.attached_to().to_owned();
    let [first_cgroup, second_cgroup] = [Cgroup::new(&own), Cgroup::new(&own)];
    let echo = Echo::local();
    let mut peers = [&first_cgroup, &second_cgroup].map(|cgroup| {
        let mut peer = Peer::start();
        cgroup.take(peer.id());
        peer.attach().expect("it attaches");
        peer.follow(echo.address());
        peer
    });
    peers[0].talk(echo.address());
    assert_eq!((peers[0].connects(echo.address()), peers[1].connects(echo.address())), (1, 0));
    peers[1].talk(echo.address());
    peers[1].talk(echo.address());
    assert_eq!((peers[0].connects(echo.address()), peers[1].connects(echo.address())), (1, 2));
}

#[test]
fn connections_and_samples_are_logged_when_asked_and_only_then() {
    let Some(mut quiet) = attach() else { return };
    let mut verbose = KernelRtt::attach(Options { log: LogLevel::Debug, ..options() }).expect("it attaches");
    let echoes = [Echo::local(), Echo::at(std::net::Ipv6Addr::LOCALHOST.into())];
    for rtt in [&mut quiet, &mut verbose] {
        rtt.follow(echoes.iter().map(Echo::address)).expect("room");
    }
    for echo in &echoes {
        Talk::to(echo.address()).exchanges(EXCHANGES);
    }
    let mut lines = Vec::new();
    eventually("all is logged", || {
        verbose.drain_log(|level, line| {
            assert_eq!(level, LogLevel::Debug, "{line}");
            lines.push(line.to_owned());
        });
        lines.len() > 2 * EXCHANGES
    });
    for echo in &echoes {
        let ip = match echo.address().ip() {
            std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            std::net::IpAddr::V6(ip) => ip,
        };
        let start = format!("[{ip}]:{}: ", echo.address().port());
        let of_echo: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix(&start)).collect();
        assert!(of_echo[0].starts_with("established in "), "{lines:#?}");
        assert!(of_echo[1..].iter().all(|line| line.contains(" us, smoothed ")), "{lines:#?}");
        assert!(of_echo.len() > EXCHANGES, "{lines:#?}");
    }
    quiet.drain_log(|level, line| panic!("{level:?}: {line}"));
}

#[test]
fn a_kernel_that_refuses_callbacks_is_logged_as_a_fault_also_when_nothing_else_is() {
    /// `r0 = 1`, which is how the helper tells of a flag that it does not know.
    const REFUSED: [u8; 8] = [0xb7, 0, 0, 0, 1, 0, 0, 0];
    let Some(_) = attach() else { return };
    let object = patched(
        &options().object,
        |instruction| instruction == SET_CALLBACKS,
        |instruction| instruction.copy_from_slice(&REFUSED),
    );
    let mut rtt = KernelRtt::attach(Options { object, ..options() }).expect("it attaches");
    let echo = Echo::local();
    rtt.follow([echo.address()].into_iter()).expect("room");
    Talk::to(echo.address()).exchanges(EXCHANGES);
    let mut lines = Vec::new();
    rtt.drain_log(|level, line| lines.push((level, line.to_owned())));
    let port = echo.address().port();
    let fault = format!("[::ffff:127.0.0.1]:{port}: the kernel refuses RTT callbacks (1): handshakes only");
    assert_eq!(lines, [(LogLevel::Faults, fault)]);
    let measured = samples(&rtt, echo.address());
    assert_eq!((measured.samples, measured.connects), (1, 1), "the handshake is measured all the same");
}

#[test]
fn the_own_cgroup_is_found() {
    let Some(rtt) = attach() else { return };
    assert_eq!(rtt.attached_to(), cgroup::own().expect("a cgroup"));
    assert!(rtt.attached_to().join("cgroup.procs").exists(), "{}", rtt.attached_to().display());
}
