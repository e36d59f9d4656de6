//! A network path with a round-trip time of the test's choosing, through the kernel's own TCP: no netem, no namespaces.
//!
//! A TUN device holds a network of its own, in which `.1` is this machine (the near end) and any other address is the far
//! end. A packet sent to the far end is held for half the round trip, its addresses are swapped, and it arrives back here:
//! a connection to a port of the far end reaches the listener on that port of the near end. Swapping the addresses leaves
//! all checksums as they are.
//!
//! One thread does it all. TCP answers a packet in the context that delivers it, so a handshake, or an acknowledgement that
//! is sent at once, takes what this thread lets it take, however busy the machine is otherwise. Packets never overtake one another,
//! also when the round trip gets shorter.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    num::NonZeroU64,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    process::setpriority_process,
    thread::set_current_timer_slack,
};

use crate::{poll::eventually, tun::Tun};

/// Networks for measuring (RFC 2544 and RFC 5180): nobody routes them. Each device takes the one of its number.
const NETWORKS_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const NETWORKS_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0);
/// As many as the former holds, of 256 addresses each.
const NETWORKS_MAX: u16 = 512;

/// Host parts of the two ends.
const NEAR: u8 = 1;
const FAR: u8 = 2;

const PREFIX_BITS_V4: u32 = 24;
const PREFIX_BITS_V6: u32 = 64;

/// Above the device's MTU.
const PACKET_BYTES_MAX: usize = 2048;

/// Sooner than any other thread of a busy machine.
const PRIORITY: i32 = -20;
/// How late a timer may be, in ns; by default it is 50 µs.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::new(1).expect("not zero");

/// A path. It is taken down when dropped.
#[derive(Debug)]
pub struct DelayedPath {
    near: [IpAddr; 2],
    far: [IpAddr; 2],
    one_way_ns: Arc<AtomicU64>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// The thread's state.
struct Reflector {
    tun: Tun,
    near: [IpAddr; 2],
    one_way_ns: Arc<AtomicU64>,
    stop: Arc<OwnedFd>,
    /// Packets on their way, by the time when they arrive.
    held: VecDeque<(Instant, Vec<u8>)>,
}

// === impl DelayedPath ===

impl DelayedPath {
    /// Whether this process can make one; if not, the reason.
    pub fn possible() -> Result<(), String> {
        Tun::new().map(drop).map_err(|error| format!("no TUN device can be made: {error}"))
    }

    /// Makes a path, for IPv4 and IPv6.
    pub fn new(rtt: Duration) -> Self {
        let tun = Tun::new().expect("a TUN device");
        let ends = |host| [v4(tun.number(), host).into(), v6(tun.number(), host).into()];
        let (near, far) = (ends(NEAR), ends(FAR));
        for (address, prefix_bits) in near.into_iter().zip([PREFIX_BITS_V4, PREFIX_BITS_V6]) {
            tun.add_address(address, prefix_bits).expect("the device takes an address");
            // An address of IPv6 is tentative until the kernel has had a moment, even where nobody could have the same.
            eventually("the address can be used", || UdpSocket::bind((address, 0)).is_ok());
        }
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
        let one_way_ns = Arc::new(AtomicU64::new(one_way_ns(rtt)));
        let reflector = Reflector {
            tun,
            near,
            one_way_ns: one_way_ns.clone(),
            stop: stop.clone(),
            held: VecDeque::new(),
        };
        let thread = thread::Builder::new().name("delayed-path".to_owned()).spawn(move || reflector.run());
        Self { near, far, one_way_ns, stop, thread: Some(thread.expect("a thread")) }
    }

    /// Changes the round-trip time, for packets sent from now on.
    pub fn set_rtt(&self, rtt: Duration) {
        self.one_way_ns.store(one_way_ns(rtt), Relaxed);
    }

    /// The near end's addresses, of IPv4 and IPv6: where a test listens.
    pub fn near(&self) -> [IpAddr; 2] {
        self.near
    }

    /// Where, across the path, something is reached that listens at the near end.
    pub fn far(&self, listener: SocketAddr) -> SocketAddr {
        let index = self.near.iter().position(|near| *near == listener.ip());
        let index = index.unwrap_or_else(|| panic!("{listener} is not at the near end {:?}", self.near));
        SocketAddr::new(self.far[index], listener.port())
    }
}

impl Drop for DelayedPath {
    fn drop(&mut self) {
        rustix::io::write(&*self.stop, &1_u64.to_ne_bytes()).expect("an eventfd takes a number");
        let result = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            match result {
                Some(Ok(Ok(()))) | None => {}
                Some(Ok(Err(error))) => panic!("the path broke: {error}"),
                Some(Err(_)) => panic!("the path's thread panicked"),
            }
        }
    }
}

// === impl Reflector ===

impl Reflector {
    /// Until it is told to stop.
    fn run(mut self) -> io::Result<()> {
        // Where that is not permitted, times are less exact.
        let _ = setpriority_process(None, PRIORITY);
        let _ = set_current_timer_slack(Some(TIMER_SLACK_NS));
        loop {
            self.receive()?;
            let next_due = self.deliver()?;
            let mut ready = [PollFd::new(&self.tun, PollFlags::IN), PollFd::new(&*self.stop, PollFlags::IN)];
            let timeout = next_due.map(|due| due.saturating_duration_since(Instant::now()));
            let timeout = timeout.map(|timeout| Timespec::try_from(timeout).expect("less than an age"));
            match poll(&mut ready, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !ready[1].revents().is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes all packets that were sent into the path.
    fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; PACKET_BYTES_MAX];
        while let Some(bytes) = self.tun.read(&mut buffer)? {
            let mut packet = buffer[..bytes].to_vec();
            if !reflect(&mut packet, self.near) {
                continue;
            }
            let due = Instant::now() + Duration::from_nanos(self.one_way_ns.load(Relaxed));
            let due = self.held.back().map_or(due, |(last, _)| due.max(*last));
            self.held.push_back((due, packet));
        }
        Ok(())
    }

    /// Lets those arrive whose time has come; returns when the next is due.
    fn deliver(&mut self) -> io::Result<Option<Instant>> {
        while let Some((due, packet)) = self.held.front() {
            if *due > Instant::now() {
                return Ok(Some(*due));
            }
            self.tun.write(packet)?;
            self.held.pop_front();
        }
        Ok(None)
    }
}

/// Swaps a packet's addresses; whether it is one from the near end.
fn reflect(packet: &mut [u8], near: [IpAddr; 2]) -> bool {
    let (source, length) = match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 => (12, 4),
        Some(6) if packet.len() >= 40 => (8, 16),
        _ => return false,
    };
    let (sender, receiver) = packet[source..source + 2 * length].split_at_mut(length);
    // The kernel's own questions to its neighbours come from, or go to, other addresses.
    let is_near = match near[usize::from(length == 16)] {
        IpAddr::V4(near) => *sender == near.octets() && receiver[3] == FAR,
        IpAddr::V6(near) => *sender == near.octets() && receiver[15] == FAR,
    };
    if is_near {
        sender.swap_with_slice(receiver);
    }
    is_near
}

fn one_way_ns(rtt: Duration) -> u64 {
    (rtt / 2).as_nanos() as u64
}

fn v4(network: u16, host: u8) -> Ipv4Addr {
    assert!(network < NETWORKS_MAX, "so many devices at a time");
    Ipv4Addr::from_bits(NETWORKS_V4.to_bits() + (u32::from(network) << 8) + u32::from(host))
}

fn v6(network: u16, host: u8) -> Ipv6Addr {
    Ipv6Addr::from_bits(NETWORKS_V6.to_bits() + (u128::from(network) << 64) + u128::from(host))
}
