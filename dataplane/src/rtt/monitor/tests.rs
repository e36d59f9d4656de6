use std::collections::HashSet;

use stargate_routing::BackendUid;

use super::*;

/// A kernel that measures what it is told to have, and refuses what it is told to refuse.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    room: usize,
    followed: HashSet<SocketAddr>,
    follows: usize,
    samples: HashMap<SocketAddr, RttSamples>,
    refuses: bool,
    log: Vec<&'static str>,
    is_dropped: bool,
}

impl Fake {
    fn with_room(room: usize) -> Self {
        let fake = Self::default();
        fake.state().room = room;
        fake
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    fn refused(&self) -> Result<(), MapError> {
        let source = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        if self.state().refuses { Err(MapError::Refused { action: "do it", source }) } else { Ok(()) }
    }
}

impl Kernel for Fake {
    fn follow(&mut self, addresses: impl Iterator<Item = SocketAddr>) -> Result<(), MapError> {
        self.refused()?;
        let mut state = self.state();
        let wanted: Vec<SocketAddr> = addresses.collect();
        state.follows += 1;
        state.followed = wanted.iter().copied().take(state.room).collect();
        match wanted.len().saturating_sub(state.room) {
            0 => Ok(()),
            without_room => Err(MapError::Full { followed: state.followed.len(), without_room }),
        }
    }

    fn samples(&self, address: SocketAddr) -> Result<Option<RttSamples>, MapError> {
        self.refused()?;
        let state = self.state();
        let samples = state.samples.get(&address).copied().unwrap_or_default();
        Ok(state.followed.contains(&address).then_some(samples))
    }

    fn followed(&self) -> usize {
        self.state().followed.len()
    }

    fn drain_log(&mut self, mut line: impl FnMut(kernel::LogLevel, &str)) {
        for text in std::mem::take(&mut self.state().log) {
            line(kernel::LogLevel::Faults, text);
        }
    }
}

/// The monitor's own copy: dropped when the program is detached.
struct Held(Fake);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.state().is_dropped = true;
    }
}

impl Kernel for Held {
    fn follow(&mut self, addresses: impl Iterator<Item = SocketAddr>) -> Result<(), MapError> {
        self.0.follow(addresses)
    }

    fn samples(&self, address: SocketAddr) -> Result<Option<RttSamples>, MapError> {
        self.0.samples(address)
    }

    fn followed(&self) -> usize {
        self.0.followed()
    }

    fn drain_log(&mut self, line: impl FnMut(kernel::LogLevel, &str)) {
        self.0.drain_log(line);
    }
}

/// A monitor with its kernel, and what it knows of addresses.
struct Bench {
    kernel: Fake,
    monitor: Arc<Monitor<Held>>,
    tcp_info: Arc<TcpInfoSource>,
    addresses: HashMap<SocketAddr, Address>,
}

impl Bench {
    fn new(room: usize) -> Self {
        let (kernel, tcp_info) = (Fake::with_room(room), Arc::new(TcpInfoSource::default()));
        let monitor = Arc::new(Monitor::new(Held(kernel.clone()), tcp_info.clone()));
        Self { kernel, monitor, tcp_info, addresses: HashMap::new() }
    }

    fn follow(&self, backends: &Arc<[Arc<Backend>]>) {
        self.monitor.follow(&snapshot(backends));
    }

    fn round(&mut self) {
        self.monitor.round(&mut self.addresses);
    }

    /// All that is told until now.
    fn told(&self) -> Vec<String> {
        std::iter::from_fn(|| self.monitor.notices.pop()).collect()
    }

    fn faults(&self) -> [u64; 3] {
        KernelFault::ALL.map(|fault| self.monitor.faults(fault))
    }
}

fn snapshot(backends: &Arc<[Arc<Backend>]>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.backends = Some(backends.clone());
    snapshot
}

fn backends(count: u16) -> Arc<[Arc<Backend>]> {
    (1..=count)
        .map(|port| {
            Arc::new(Backend {
                uid: BackendUid(port.into()),
                backend_id: format!("b{port}").into(),
                cluster_id: Arc::from("c"),
                address: ([127, 0, 0, 1], port).into(),
                authority: "b".into(),
                base_path: "".into(),
                publishes_stats: false,
                rtt: Arc::default(),
            })
        })
        .collect()
}

fn at(us: u64, at: Duration) -> kernel::RttSample {
    kernel::RttSample { at_ns: at.as_nanos() as u64, rtt_us: us }
}

/// A handshake of this length, now.
fn handshake_only(us: u64) -> RttSamples {
    let now = monotonic_time();
    let mut samples = RttSamples { handshake: at(us, now), ..RttSamples::default() };
    (samples.samples, samples.connects, samples.last_at_ns) = (1, 1, now.as_nanos() as u64);
    samples
}

fn measured_us(backend: &Backend) -> Option<u64> {
    backend.rtt.of(RttSource::Ebpf).map(|rtt| rtt.0 / 1000)
}

#[test]
fn what_the_program_measures_is_stored_for_every_backend() {
    let (mut bench, all) = (Bench::new(8), backends(3));
    bench.follow(&all);
    for (backend, us) in all.iter().zip([100, 20_000]) {
        bench.kernel.state().samples.insert(backend.address, handshake_only(us));
    }
    bench.round();
    assert_eq!(
        all.iter().map(|backend| measured_us(backend)).collect::<Vec<_>>(),
        [Some(100), Some(20_000), None]
    );
    assert_eq!((bench.faults(), bench.told().len(), bench.tcp_info.is_on()), ([0; 3], 0, false));
}

#[test]
fn samples_of_data_and_handshakes_are_taken_in_the_order_of_their_times() {
    let (mut bench, all) = (Bench::new(8), backends(1));
    bench.follow(&all);
    let now = monotonic_time();
    let mut read = |samples: RttSamples| {
        bench.kernel.state().samples.insert(all[0].address, samples);
        bench.round();
        measured_us(&all[0])
    };
    // Five handshakes, one a reading; the quickest counts until it is the sixth.
    let ago = |ms: u64| now.saturating_sub(Duration::from_millis(ms));
    let of = |handshake, recent: &[kernel::RttSample]| {
        let mut samples = RttSamples { handshake, last_at_ns: handshake.at_ns, ..RttSamples::default() };
        samples.recent[..recent.len()].copy_from_slice(recent);
        samples
    };
    assert_eq!(read(of(at(10_000, ago(900)), &[])), Some(10_000));
    for ms in [800, 700, 600, 500] {
        assert_eq!(read(of(at(90_000, ago(ms)), &[])), Some(10_000));
    }
    assert_eq!(read(of(at(90_000, ago(400)), &[])), Some(90_000));
    // One sample of data, newer than all of them.
    assert_eq!(read(of(at(90_000, ago(400)), &[at(80_000, ago(300))])), Some(80_000));
    // Held acknowledgements are known by the handshake.
    let held: Vec<_> = (0..8).map(|n| at(31_000, ago(10 + n))).collect();
    assert_eq!(read(of(at(11_000, ago(100)), &held)), Some(11_000));
}

#[test]
fn the_same_backends_are_followed_once() {
    let (bench, all) = (Bench::new(8), backends(2));
    for _ in 0..3 {
        bench.follow(&all);
    }
    bench.monitor.follow(&Snapshot::default());
    assert_eq!(bench.kernel.state().follows, 1);
    assert_eq!(bench.monitor.followed(), Some(2), "a snapshot that does not know its backends ends none");
    bench.follow(&backends(3));
    assert_eq!(bench.kernel.state().follows, 2);
    assert_eq!(bench.monitor.followed(), Some(3));
}

#[test]
fn a_full_map_costs_those_without_room_the_source_and_is_told_once() {
    let (mut bench, all) = (Bench::new(1), backends(3));
    bench.follow(&all);
    bench.kernel.state().samples.insert(all[0].address, handshake_only(100));
    bench.round();
    assert_eq!((measured_us(&all[0]), measured_us(&all[1])), (Some(100), None));
    assert_eq!(bench.faults(), [1, 0, 0]);
    assert!(bench.tcp_info.is_on());
    // The same backends have no more room the next time; others may.
    bench.follow(&all);
    assert_eq!(bench.kernel.state().follows, 1);
    bench.follow(&backends(4));
    let told = bench.told();
    assert_eq!((bench.faults(), told.len()), ([2, 0, 0], 1));
    assert!(told[0].contains("no room for 2 addresses"), "{told:?}");
    bench.kernel.state().room = 8;
    bench.follow(&all);
    assert_eq!(bench.monitor.followed(), Some(3));
}

#[test]
fn a_kernel_that_refuses_costs_the_source_until_it_does_not() {
    let (mut bench, all) = (Bench::new(8), backends(2));
    bench.follow(&all);
    for backend in all.iter() {
        bench.kernel.state().samples.insert(backend.address, handshake_only(100));
    }
    bench.round();
    bench.kernel.state().refuses = true;
    bench.round();
    bench.round();
    assert!(all.iter().all(|backend| measured_us(backend).is_none()));
    assert!(bench.tcp_info.is_on());
    let told = bench.told();
    assert_eq!((bench.faults(), told.len()), ([0, 4, 0], 1));
    assert!(told[0].contains("the kernel refuses to do it"), "{told:?}");
    // What could not be followed is tried again with the next publication.
    let more = backends(3);
    bench.follow(&more);
    bench.kernel.state().refuses = false;
    bench.follow(&more);
    assert_eq!(bench.monitor.followed(), Some(3));
    bench.follow(&all);
    bench.round();
    assert!(all.iter().all(|backend| measured_us(backend) == Some(100)));
}

#[test]
fn a_program_that_sees_nothing_any_more_is_found_by_the_handshakes_that_it_missed() {
    let (mut bench, all) = (Bench::new(8), backends(1));
    let backend = &all[0];
    bench.follow(&all);
    bench.kernel.state().samples.insert(backend.address, handshake_only(100));
    bench.round();
    let seen = Duration::from_nanos(bench.kernel.state().samples[&backend.address].last_at_ns);
    let connected = |at| backend.rtt.recent().take_handshake(RttSample { rtt: Nanos(500_000), at });
    connected(seen + MISSED_AFTER);
    bench.round();
    assert_eq!(measured_us(backend), Some(100), "none is missed yet");
    // The first reading of an address counts as seen, too, and was a moment later.
    let late = seen + MISSED_AFTER * 2;
    connected(late);
    bench.round();
    bench.round();
    assert_eq!(measured_us(backend), None);
    let told = bench.told();
    assert_eq!((bench.faults(), told.len()), ([0, 0, 1], 1));
    assert!(told[0].contains("`b1` (127.0.0.1:1)"), "{told:?}");
    assert!(bench.tcp_info.is_on());
    // It sees them again.
    let mut samples = handshake_only(100);
    samples.last_at_ns = late.as_nanos() as u64;
    bench.kernel.state().samples.insert(backend.address, samples);
    bench.round();
    assert_eq!(measured_us(backend), Some(100));
}

#[test]
fn what_is_no_longer_followed_is_forgotten() {
    let (mut bench, all) = (Bench::new(8), backends(3));
    bench.follow(&all);
    bench.round();
    assert_eq!(bench.addresses.len(), 3);
    bench.follow(&backends(1));
    bench.round();
    assert_eq!(bench.addresses.len(), 1);
}

#[test]
fn stopping_detaches_though_a_handle_is_left_and_tells_what_was_logged() {
    let (bench, all) = (Bench::new(8), backends(1));
    bench.follow(&all);
    bench.kernel.state().log.push("a fault of the program");
    bench.monitor.notices.push("a notice".to_owned());
    let told = Arc::new(SegQueue::new());
    let (stop, stopped) = mpsc::channel();
    let (monitor, sink) = (bench.monitor.clone(), told.clone());
    let mut tell: Tell = Box::new(move |severity, line| sink.push((severity, line.to_owned())));
    let thread = std::thread::spawn(move || monitor.run(&stopped, &mut tell));
    drop(stop);
    thread.join().unwrap();
    assert!(bench.kernel.state().is_dropped);
    assert_eq!(bench.monitor.followed(), None);
    bench.follow(&backends(2));
    let told: Vec<_> = std::iter::from_fn(|| told.pop()).collect();
    let expected = ["round-trip times: a notice", "kernel program: a fault of the program"];
    assert_eq!(told, expected.map(|line| (Severity::Warn, line.to_owned())));
}
