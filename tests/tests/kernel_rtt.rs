//! The kernel program that measures round-trip times, in a real kernel: attached to this process's own cgroup, it
//! measures connections to registered addresses and leaves no trace of others.
//!
//! Skipped, with its reason, where the kernel or the privilege is missing; never in CI.

use std::{
    env,
    fs::{self, File},
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
    thread,
};

use aya::{
    Ebpf, EbpfLoader,
    maps::{MapData, PerCpuHashMap, PerCpuValues},
    programs::{CgroupAttachMode, SockOps},
    util::nr_cpus,
};
use stargate_ebpf_common::{ENDPOINTS_MAP, Endpoint, PROGRAM, RttSamples};
use stargate_tests::{target_dir, workspace_dir};

/// Bytes sent to and fro over each connection, one at a time: each exchange gives the kernel a sample.
const EXCHANGES: usize = 50;

/// Shared types as the bytes that they are: the library's trait cannot be implemented for them here.
type Key = [u8; size_of::<Endpoint>()];
type Value = [u8; size_of::<RttSamples>()];
type Endpoints = PerCpuHashMap<MapData, Key, Value>;

/// The attached program and its map.
struct Monitor {
    endpoints: Endpoints,
    /// Detached when dropped.
    _program: Ebpf,
}

/// This process's cgroup of version 2, which may be mounted beside those of version 1.
fn own_cgroup() -> Result<PathBuf, String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    let mount = mounts
        .lines()
        .filter_map(|line| line.split_once(" - "))
        .find(|(_, kind)| kind.starts_with("cgroup2 "))
        .and_then(|(mount, _)| mount.split(' ').nth(4))
        .ok_or("no cgroup of version 2 is mounted")?;
    let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    Ok(PathBuf::from(mount).join(path.trim_start_matches('/')))
}

/// The cgroup, or `None` after saying why this machine cannot run the test.
fn cgroup_or_skip() -> Option<PathBuf> {
    let cgroup = if rustix::process::geteuid().is_root() {
        own_cgroup()
    } else {
        Err("loading a kernel program needs root".to_owned())
    };
    match cgroup {
        Ok(cgroup) => Some(cgroup),
        Err(reason) => {
            assert!(env::var_os("CI").is_none(), "never skipped in CI: {reason}");
            eprintln!("SKIPPED: {reason}");
            None
        }
    }
}

/// Builds the object; up to date, that takes a second.
fn object() -> PathBuf {
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(workspace_dir())
        .args(["run", "--quiet", "--package", "xtask", "--target-dir"])
        .arg(target_dir())
        .args(["--", "build-ebpf"])
        .output()
        .expect("cargo starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the kernel programs do not build; `cargo xtask setup-ebpf`?\n{stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    PathBuf::from(stdout.lines().last().expect("the path of the object"))
}

fn key_of(address: SocketAddr) -> Key {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let endpoint = Endpoint { address: bytemuck::cast(ip.octets()), port: address.port().into() };
    bytemuck::cast(endpoint)
}

impl Monitor {
    fn attach(cgroup: &PathBuf) -> Self {
        let mut ebpf = EbpfLoader::new().load_file(object()).expect("the kernel takes the object");
        let program: &mut SockOps =
            ebpf.program_mut(PROGRAM).expect("the program").try_into().expect("a sock_ops program");
        program.load().expect("the verifier takes the program");
        let cgroup = File::open(cgroup).expect("the cgroup");
        // Single: the only mode that links to cgroups have; other programs stay attached beside it.
        program.attach(cgroup, CgroupAttachMode::Single).expect("it attaches");
        let map = ebpf.take_map(ENDPOINTS_MAP).expect("the map");
        let endpoints = map.try_into().expect("a hash map with a value a CPU");
        Self { endpoints, _program: ebpf }
    }

    fn register(&mut self, address: SocketAddr) {
        let cpus = nr_cpus().expect("the number of CPUs");
        let zeroes = PerCpuValues::try_from(vec![[0; size_of::<Value>()]; cpus]).expect("a value a CPU");
        self.endpoints.insert(key_of(address), zeroes, 0).expect("a free place");
    }

    fn unregister(&mut self, address: SocketAddr) {
        self.endpoints.remove(&key_of(address)).expect("it was registered");
    }

    fn samples(&self, address: SocketAddr) -> RttSamples {
        let values = self.endpoints.get(&key_of(address), 0).expect("it is registered");
        let per_cpu: Vec<RttSamples> = values.iter().copied().map(bytemuck::cast).collect();
        RttSamples::fold(&per_cpu)
    }

    fn registered(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.endpoints.keys().map(|key| key.expect("a key")).collect();
        keys.sort_unstable();
        keys
    }
}

/// Connects to a listener of this process and exchanges single bytes; returns when both ends are done.
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
    let Some(cgroup) = cgroup_or_skip() else { return };
    let mut monitor = Monitor::attach(&cgroup);
    let (registered, address) = listen("127.0.0.1");
    let (registered_v6, address_v6) = listen("::1");
    let (stranger, _) = listen("127.0.0.1");
    monitor.register(address);
    monitor.register(address_v6);
    let mut keys = [key_of(address), key_of(address_v6)];
    keys.sort_unstable();

    for listener in [&stranger, &registered, &registered, &registered_v6] {
        talk_to(listener);
    }
    assert_eq!(monitor.registered(), keys, "a stranger left a trace");
    for (address, connects) in [(address, 2), (address_v6, 1)] {
        let samples = monitor.samples(address);
        assert_eq!(samples.connects, connects, "{address}: {samples:?}");
        assert!(samples.samples > u64::from(connects), "more than the handshakes: {samples:?}");
        let mean = samples.mean_us().expect("samples");
        // Loopback takes some 20 µs; a mean of seconds would be a unit that was misunderstood.
        assert!((1..1_000_000).contains(&mean), "{samples:?}");
        assert!(samples.min_us > 0 && u64::from(samples.min_us) <= mean, "{samples:?}");
        assert!(samples.smoothed_us > 0 && samples.last_at_ns > 0, "{samples:?}");
    }
}

#[test]
fn an_address_that_was_removed_is_measured_no_more() {
    let Some(cgroup) = cgroup_or_skip() else { return };
    let mut monitor = Monitor::attach(&cgroup);
    let (listener, address) = listen("127.0.0.1");
    monitor.register(address);
    talk_to(&listener);
    assert_eq!(monitor.samples(address).connects, 1);
    monitor.unregister(address);
    talk_to(&listener);
    assert_eq!(monitor.registered(), Vec::<Key>::new());
    monitor.register(address);
    assert_eq!(monitor.samples(address), RttSamples::default(), "a new registration starts from nothing");
}
