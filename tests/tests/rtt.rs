//! Round-trip times through the whole daemon: where they come from, what falls back to what, that they follow
//! the path, and that nothing stays behind in the kernel.
//!
//! What needs root is skipped, with its reason, where the test does not run as root; never in CI.

use std::{
    env, fs,
    net::{IpAddr, SocketAddr},
    path::Path,
    thread,
    time::Duration,
};

use aya::programs::loaded_programs;
use serde_json::Value;
use stargate_tests::{
    Cgroup, DelayedPath, Engine, Gateway, RawEngine, Request, Signal, Then, eventually, eventually_some,
};

/// Becomes the gateway without any capability, root or not.
const WITHOUT_PRIVILEGE: [&str; 3] = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
/// Longer than any test: the first check of each backend is its only one.
const NEVER_AGAIN_MS: u64 = 86_400_000;

/// Whether this machine can attach kernel programs; says so when not.
fn may_attach() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        assert!(env::var_os("CI").is_none(), "never skipped in CI: attaching a kernel program needs root");
        eprintln!("SKIPPED: attaching a kernel program needs root");
    }
    is_root
}

/// Whether paths with a delay can be made; says so when not.
fn has_paths() -> bool {
    let possible = DelayedPath::possible();
    if let Err(reason) = &possible {
        assert!(env::var_os("CI").is_none(), "never skipped in CI: {reason}");
        eprintln!("SKIPPED: {reason}");
    }
    possible.is_ok()
}

/// `rtt` of `GET /api/v1/dataplane`.
fn rtt(gateway: &Gateway) -> Value {
    gateway.admin().get("/api/v1/dataplane").expect_ok().json()["rtt"].clone()
}

/// What is known of the way to a backend.
fn backend(gateway: &Gateway, id: &str) -> Value {
    let rtt = rtt(gateway);
    let backends = rtt["backends"].as_array().expect("backends");
    backends.iter().find(|backend| backend["id"] == id).unwrap_or_else(|| panic!("no {id} in {rtt}")).clone()
}

/// Waits until this source counts for a backend.
fn wait_for_source(gateway: &Gateway, id: &str, source: &str) -> Value {
    eventually_some(&format!("{source} counts for {id}"), || {
        Some(backend(gateway, id)).filter(|backend| backend["source"] == source)
    })
}

/// The lines that say how round-trip times are measured.
fn told(gateway: &Gateway) -> Vec<String> {
    let is_told = |line: &&str| line.contains("round-trip times are measured");
    gateway.process().log().lines().filter(is_told).map(str::to_owned).collect()
}

/// Whether the kernel has a program of this number. One that is attached is loaded.
fn is_loaded(program: u64) -> bool {
    loaded_programs().any(|info| info.is_ok_and(|info| u64::from(info.id()) == program))
}

fn program_of(gateway: &Gateway) -> u64 {
    let rtt = rtt(gateway);
    rtt["kernel_program"]["program_id"].as_u64().unwrap_or_else(|| panic!("no program in {rtt}"))
}

#[test]
fn the_kernel_program_is_attached_where_it_may_be_and_measures() {
    if !may_attach() {
        return;
    }
    let engine = Engine::start("e1");
    let gateway = Gateway::before(&engine.url());
    let status = rtt(&gateway);
    assert_eq!((&status["configured"], &status["source"]), (&"auto".into(), &"ebpf".into()), "{status}");
    assert_eq!(status["reads_tcp_info"], false);
    let program = &status["kernel_program"];
    assert!(Path::new(program["attached_to"].as_str().expect("a path")).join("cgroup.procs").exists());
    assert_eq!((&program["entries"], &program["capacity"]), (&1.into(), &4096.into()));
    assert_eq!(program["faults"], serde_json::json!({ "map_full": 0, "map_refused": 0, "missed": 0 }));
    assert!(is_loaded(program_of(&gateway)));

    for _ in 0..10 {
        let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    }
    let known = wait_for_source(&gateway, "e1", "ebpf");
    let ms = |name: &str| known[name].as_f64().unwrap_or_else(|| panic!("{name} of {known}"));
    assert!((0.001..20.0).contains(&ms("rtt_ms")), "loopback: {known}");
    assert!(ms("min_ms") <= ms("smoothed_ms") && ms("last_sample_age_ms") < 10_000.0, "{known}");
    assert!(known["connects"].as_u64() >= Some(1) && known["samples"].as_u64() >= known["connects"].as_u64());

    let metrics = gateway.metrics();
    let series: Vec<&str> =
        metrics.lines().filter(|line| line.starts_with("stargate_backend_rtt_seconds{")).collect();
    assert_eq!(series.len(), 1, "{series:?}");
    assert!(series[0].contains(r#"inference_server_id="e1",source="ebpf""#), "{series:?}");
    assert!((gateway.metric("stargate_rtt_endpoints", &[]) - 1.0).abs() < f64::EPSILON);
    let told = told(&gateway);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("INFO") && told[0].contains("attached to"), "{told:?}");
}

#[test]
fn without_privilege_own_sockets_tell_and_all_else_works() {
    let engine = Engine::start("e1");
    let gateway = Gateway::builder().under(&WITHOUT_PRIVILEGE).backend("e1", &engine.url()).start();
    let status = rtt(&gateway);
    assert_eq!(
        (&status["source"], &status["kernel_program"]),
        (&"tcp_info".into(), &Value::Null),
        "{status}"
    );
    let why = status["why"].as_str().expect("a reason");
    assert!(why.contains("lacks CAP_BPF and CAP_NET_ADMIN"), "{why}");
    for _ in 0..20 {
        let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    }
    let known = wait_for_source(&gateway, "e1", "tcp_info");
    assert!(known["rtt_ms"].as_f64().is_some_and(|ms| ms > 0.0 && ms < 20.0), "{known}");
    // Requests are measured, too: 20 answers, and the connections that they came by.
    assert!(known["samples"].as_u64() >= known["connects"].as_u64().map(|connects| connects + 20), "{known}");
    let labels = [("inference_server_id", "e1")];
    let series = |source| gateway.metric("stargate_backend_rtt_seconds", &[labels[0], ("source", source)]);
    assert!(series("tcp_info") > 0.0 && series("probe") == 0.0 && series("ebpf") == 0.0);
    let told = told(&gateway);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("WARN") && told[0].contains("CAP_NET_ADMIN"), "{told:?}");
}

#[test]
fn asked_for_and_not_permitted_the_program_is_a_reason_not_to_start() {
    let gateway = Gateway::builder().under(&WITHOUT_PRIVILEGE).set("rtt.source", r#""ebpf""#);
    let output = gateway.run(&["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for part in [
        r#"rtt.source = "ebpf""#,
        "lacks CAP_BPF and CAP_NET_ADMIN",
        "Linux 5.8",
        r#""auto" takes what works"#,
    ] {
        assert!(stderr.contains(part), "{part} is not in: {stderr}");
    }
    // What the file says is fine; whether it can be done is found at start.
    assert_eq!(gateway.run(&["check-config"]).status.code(), Some(0));
}

#[test]
fn health_checks_alone_are_enough() {
    let engine = Engine::start("e1");
    let gateway = Gateway::builder().set("rtt.source", r#""probe""#).backend("e1", &engine.url()).start();
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    let status = rtt(&gateway);
    assert_eq!((&status["configured"], &status["source"]), (&"probe".into(), &"probe".into()));
    assert_eq!((&status["kernel_program"], &status["reads_tcp_info"]), (&Value::Null, &false.into()));
    let known = backend(&gateway, "e1");
    assert_eq!(known["source"], "probe");
    assert!(
        known["rtt_ms"].as_f64() > Some(0.0) && known["last_sample_age_ms"].as_f64() < Some(10_000.0),
        "{known}"
    );
    assert!(gateway.metric("stargate_backend_rtt_seconds", &[("source", "probe")]) > 0.0);
}

/// A connection is measured when its address was known as it was established: it must be there before the
/// first.
#[test]
fn a_backend_is_measured_from_its_first_connection_on() {
    if !may_attach() {
        return;
    }
    let static_engine = RawEngine::plain();
    let gateway = Gateway::builder()
        .set("health.interval_ms", NEVER_AGAIN_MS)
        .backend("static", &static_engine.url())
        .start();
    let registered = RawEngine::plain();
    gateway.register("registered", &registered.url());
    // The one check is their only connection.
    for id in ["static", "registered"] {
        let known = wait_for_source(&gateway, id, "ebpf");
        assert_eq!(known["connects"], 1, "{known}");
    }
    assert_eq!(gateway.delete_backend("registered").status, 204);
    eventually("its address is forgotten", || rtt(&gateway)["kernel_program"]["entries"] == 1);
}

#[test]
fn nothing_stays_attached_however_the_gateway_ends() {
    if !may_attach() {
        return;
    }
    for signal in [Signal::Term, Signal::Kill] {
        let mut gateway = Gateway::builder().start();
        let program = program_of(&gateway);
        assert!(is_loaded(program));
        gateway.signal(signal);
        let _ = gateway.wait();
        // The kernel frees it after a grace period.
        eventually("the program is gone", || !is_loaded(program));
    }
}

/// Moved to another cgroup, the gateway opens sockets that the program does not see: found by its own health
/// checks.
#[test]
fn a_program_that_sees_nothing_any_more_is_replaced_and_traffic_does_not_notice() {
    if !may_attach() {
        return;
    }
    let engine = Engine::start("e1");
    let parent = Gateway::builder().start();
    let parent_path = rtt(&parent)["kernel_program"]["attached_to"].as_str().expect("a path").to_owned();
    drop(parent);
    let cgroup = Cgroup::new(Path::new(&parent_path));
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", cgroup.path().display());
    let mut gateway = Gateway::builder().under(&["sh", "-c", &enter]).backend("e1", &engine.url()).start();
    let attached_to = rtt(&gateway)["kernel_program"]["attached_to"].clone();
    assert_eq!(attached_to.as_str().map(Path::new), Some(cgroup.path()));
    wait_for_source(&gateway, "e1", "ebpf");

    let procs = Path::new(&parent_path).join("cgroup.procs");
    fs::write(procs, gateway.process().id().to_string()).expect("the gateway can be moved");
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    let known = wait_for_source(&gateway, "e1", "tcp_info");
    assert!(known["rtt_ms"].as_f64() > Some(0.0), "{known}");
    let _ = gateway.client().send(&Request::chat("mock")).expect_ok();
    assert_eq!(rtt(&gateway)["kernel_program"]["faults"]["missed"], 1);
    assert!((gateway.metric("stargate_rtt_faults_total", &[("fault", "missed")]) - 1.0).abs() < f64::EPSILON);
    eventually("it is told", || gateway.process().log().contains("did not see a connection to backend `e1`"));

    // Back where it is seen, the program counts again.
    cgroup.take(gateway.process().id());
    wait_for_source(&gateway, "e1", "ebpf");
    assert_eq!(gateway.process().log().matches("did not see a connection").count(), 1);
    gateway.signal(Signal::Term);
    let _ = gateway.wait();
}

#[test]
fn the_programs_log_reaches_the_gateways() {
    if !may_attach() {
        return;
    }
    let engine = Engine::start("e1");
    let gateway = Gateway::builder()
        .set("rtt.kernel_log", r#""debug""#)
        .set("log.level", r#""debug""#)
        .backend("e1", &engine.url())
        .start();
    eventually("a connection is logged", || {
        gateway
            .process()
            .log()
            .lines()
            .any(|line| line.contains("DEBUG") && line.contains("kernel program: "))
    });
}

// === over paths of a known length ===

/// A gateway that measures by one source, before an engine at the other end of a path.
struct Across {
    source: &'static str,
    gateway: Gateway,
    // Dropped in this order: the engine's address is the path's.
    _engine: RawEngine,
    path: DelayedPath,
}

/// How each source is asked for, and what it is called.
const SOURCES: [(&str, &str); 3] = [("ebpf", "ebpf"), ("tcp-info", "tcp_info"), ("probe", "probe")];

impl Across {
    /// The engine answers after `think`.
    fn new((asked, source): (&str, &'static str), rtt: Duration, think: Duration) -> Self {
        let path = DelayedPath::new(rtt);
        let near: IpAddr = path.near()[0];
        let engine = RawEngine::start_on(near, true, move |exchange| {
            thread::sleep(think);
            exchange.respond_ok();
            Then::KeepOpen
        });
        let far: SocketAddr = path.far(engine.address());
        let asked = format!("{asked:?}");
        let gateway = Gateway::builder()
            .cores(1)
            .set("rtt.source", asked)
            .backend("e1", &format!("http://{far}"))
            .start();
        Self { source, gateway, _engine: engine, path }
    }

    /// Sends a request over a kept connection.
    fn request(&self) {
        let _ = self.gateway.client().send(&Request::chat("mock")).expect_ok();
    }

    /// What is measured now, once this source counts.
    fn measured_ms(&self) -> Option<f64> {
        let known = backend(&self.gateway, "e1");
        known["rtt_ms"].as_f64().filter(|_| known["source"] == self.source)
    }

    /// Sends requests until what is measured is the path's length, within a tenth and 0.3 ms, and returns it.
    fn follows(&self, rtt_ms: f64) -> f64 {
        eventually_some(&format!("{} measures {rtt_ms} ms", self.source), || {
            self.request();
            self.measured_ms().filter(|ms| (ms - rtt_ms).abs() <= rtt_ms * 0.1 + 0.3)
        })
    }
}

#[test]
fn every_source_follows_a_path_that_gets_longer_and_shorter() {
    if !may_attach() || !has_paths() {
        return;
    }
    for source in SOURCES {
        let across = Across::new(source, Duration::from_millis(10), Duration::ZERO);
        across.follows(10.0);
        for rtt_ms in [25, 10] {
            across.path.set_rtt(Duration::from_millis(rtt_ms));
            across.follows(rtt_ms as f64);
            let routed = rtt_ms as f64;
            eventually("routing sees it", || {
                let snapshot = across.gateway.snapshot();
                let seen = snapshot["targets"][0]["clusters"][0]["reported"]["rtt_ms"].as_f64();
                seen.is_some_and(|ms| (ms - routed).abs() <= routed * 0.1 + 1.0)
            });
        }
    }
}

/// What is acknowledged with the answer, 20 ms later, is no longer way.
#[test]
fn an_engine_that_takes_its_time_is_not_further_away_for_that() {
    if !may_attach() || !has_paths() {
        return;
    }
    for source in [SOURCES[0], SOURCES[1]] {
        let across = Across::new(source, Duration::from_millis(10), Duration::from_millis(20));
        across.follows(10.0);
        let mut last_ms = None;
        for _ in 0..30 {
            across.request();
            last_ms = Some(across.measured_ms().expect("it counts all the time"));
            assert!(last_ms < Some(15.0), "{source:?}: {last_ms:?}");
        }
        let known = backend(&across.gateway, "e1");
        println!("{}: {last_ms:?} ms, by a last sample of {} ms", source.1, known["last_ms"]);
    }
}

/// The table of docs/operating.md: `cargo test -p stargate-tests --test rtt -- --nocapture what_is_measured`.
#[test]
fn what_is_measured_is_the_paths_length() {
    if !may_attach() || !has_paths() {
        return;
    }
    println!("| path | {} |\n| --- | --- | --- | --- |", SOURCES.map(|(_, source)| source).join(" | "));
    for rtt_ms in [1, 10, 50] {
        let measured = SOURCES.map(|source| {
            let across = Across::new(source, Duration::from_millis(rtt_ms), Duration::ZERO);
            across.follows(rtt_ms as f64);
            (0..10).for_each(|_| across.request());
            let ms = across.follows(rtt_ms as f64);
            format!("{ms:.2} ms")
        });
        println!("| {rtt_ms} ms | {} |", measured.join(" | "));
    }
}
