//! The gateway's process, from its configuration file to its metrics.

use std::{
    fmt::{self, Write as _},
    net::SocketAddr,
    path::PathBuf,
    process::{Command, ExitStatus, Output, Stdio},
    thread,
};

use serde_json::{Value, json};

use crate::{
    binaries::Binary,
    client::Client,
    poll::eventually,
    process::{Process, Signal, scratch_file},
    request::Request,
    response::Response,
};

/// Lease of a backend that a test registers: longer than any test.
const LEASE_MS: u64 = 600_000;

/// Core threads of a gateway under test: more than one, so that what cores share is tested too.
const CORES: usize = 2;

/// Between two health checks. Short, because a static backend is routable only after its first.
const HEALTH_INTERVAL_MS: u64 = 100;

/// What a gateway is started with.
#[derive(Clone, Debug)]
pub struct GatewayBuilder {
    listen: Vec<String>,
    cores: String,
    settings: Vec<(String, String)>,
    tables: String,
    backends: Vec<String>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// A command that runs the gateway in its own place.
    under: Vec<String>,
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    process: Process,
    data_plane: Vec<SocketAddr>,
    admin: SocketAddr,
}

// === impl GatewayBuilder ===

impl GatewayBuilder {
    /// Sets a key of the configuration file, such as `timeouts.connect_ms`, to a TOML value.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.settings.retain(|(k, _)| k != key);
        self.settings.push((key.to_owned(), value.to_string()));
        self
    }

    /// Forgets all keys that were set, the harness's own too.
    #[must_use]
    pub fn without_settings(mut self) -> Self {
        self.settings.clear();
        self
    }

    /// Adds tables to the configuration file.
    #[must_use]
    pub fn toml(mut self, tables: &str) -> Self {
        self.tables.push_str(tables);
        self.tables.push('\n');
        self
    }

    /// Adds a static backend for the model `mock`.
    #[must_use]
    pub fn backend(self, id: &str, url: &str) -> Self {
        self.backend_for(id, url, &["mock"])
    }

    /// Adds a static backend for these models.
    #[must_use]
    pub fn backend_for(mut self, id: &str, url: &str, models: &[&str]) -> Self {
        self.backends.push(id.to_owned());
        self.toml(&format!("[[backends]]\nid = {id:?}\nurl = {url:?}\nmodels = {models:?}"))
    }

    /// Listens here instead of on a free port of 127.0.0.1; may be given more than once.
    #[must_use]
    pub fn listen(mut self, address: &str) -> Self {
        self.listen.push(address.to_owned());
        self
    }

    /// Runs on this many cores.
    #[must_use]
    pub fn cores(mut self, cores: usize) -> Self {
        self.cores = cores.to_string();
        self
    }

    /// Adds a command-line argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Runs the gateway under this command, which must become it, such as `setpriv`.
    #[must_use]
    pub fn under(mut self, command: &[&str]) -> Self {
        self.under = command.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the gateway and waits until its static backends are routable.
    #[track_caller]
    pub fn start(&self) -> Gateway {
        let gateway = self.start_without_waiting();
        for backend in &self.backends {
            gateway.wait_until_routable(backend);
        }
        gateway
    }

    /// Starts the gateway and waits until it listens, no more.
    #[track_caller]
    pub fn start_without_waiting(&self) -> Gateway {
        let config = self.write_config();
        let mut command = self.command();
        command.arg("--config").arg(config).args(["--admin-listen", "127.0.0.1:0", "--cores", &self.cores]);
        let free_port = ["127.0.0.1:0".to_owned()];
        for address in if self.listen.is_empty() { &free_port[..] } else { &self.listen } {
            command.args(["--listen", address]);
        }
        command.args(&self.arguments).envs(self.environment.iter().cloned());
        let process = Process::start("stargate", command);
        let parse = |address: &str| {
            address.parse().unwrap_or_else(|error| panic!("the ready line names {address:?}: {error}"))
        };
        let data_plane = process.ready_value("dataplane").split(',').map(parse).collect();
        let admin = parse(process.ready_value("admin"));
        Gateway { process, data_plane, admin }
    }

    /// Runs `stargate` with these arguments and this configuration to its end: for `check-config`, and for
    /// starts that fail.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command();
        command.args(arguments).arg("--config").arg(self.write_config());
        self.finish(command)
    }

    /// Runs `stargate` with these arguments to its end, without a configuration file but one that they name.
    #[track_caller]
    pub fn run_bare(&self, arguments: &[&str]) -> Output {
        let mut command = self.command();
        command.args(arguments);
        self.finish(command)
    }

    fn command(&self) -> Command {
        let stargate = Binary::Stargate.path();
        match self.under.split_first() {
            None => Command::new(stargate),
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(stargate);
                command
            }
        }
    }

    fn finish(&self, mut command: Command) -> Output {
        command.args(&self.arguments).envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).output().expect("stargate starts")
    }

    /// Writes the configuration file.
    pub fn write_config(&self) -> PathBuf {
        let mut text = String::new();
        // Dotted keys first: after a table they would belong to it.
        for (key, value) in &self.settings {
            writeln!(text, "{key} = {value}").expect("a String takes all");
        }
        text.push_str(&self.tables);
        scratch_file("stargate.toml", &text)
    }
}

// === impl Gateway ===

impl Gateway {
    /// A gateway with short health checks, otherwise with the defaults that users get.
    pub fn builder() -> GatewayBuilder {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let builder = GatewayBuilder {
            listen: Vec::new(),
            cores: CORES.min(cpus).to_string(),
            settings: Vec::new(),
            tables: String::new(),
            backends: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            under: Vec::new(),
        };
        builder.set("health.interval_ms", HEALTH_INTERVAL_MS)
    }

    /// A gateway with one static backend, `e1`, for the model `mock`.
    #[track_caller]
    pub fn before(url: &str) -> Self {
        Self::builder().backend("e1", url).start()
    }

    /// A client of the data plane.
    pub fn client(&self) -> Client {
        Client::new(self.data_plane[0])
    }

    /// The data plane's addresses.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.data_plane
    }

    /// A client of the control plane.
    pub fn admin(&self) -> Client {
        Client::new(self.admin)
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for the process's end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait()
    }

    /// Registers a backend for the model `mock` and waits until it is routable.
    #[track_caller]
    pub fn register(&self, id: &str, url: &str) {
        self.register_with(id, &json!({ "url": url, "lease_ms": LEASE_MS, "models": { "mock": {} } }));
    }

    /// Registers a backend with this body and waits until it is routable.
    #[track_caller]
    pub fn register_with(&self, id: &str, body: &Value) {
        let response = self.put_backend(id, body);
        assert!([200, 201].contains(&response.status), "{response:?}");
        self.wait_until_routable(id);
    }

    /// `PUT /api/v1/backends/{id}`.
    #[track_caller]
    pub fn put_backend(&self, id: &str, body: &Value) -> Response {
        self.admin().send(
            &Request::new("PUT", &format!("/api/v1/backends/{id}"))
                .header("content-type", "application/json")
                .body(body.to_string()),
        )
    }

    /// `DELETE /api/v1/backends/{id}`.
    #[track_caller]
    pub fn delete_backend(&self, id: &str) -> Response {
        self.admin().send(&Request::new("DELETE", &format!("/api/v1/backends/{id}")))
    }

    /// `POST /api/v1/backends/{id}/stats` for the model `mock`.
    #[track_caller]
    pub fn post_stats(&self, id: &str, stats: &Value) -> Response {
        self.admin().post(&format!("/api/v1/backends/{id}/stats"), &json!({ "models": { "mock": stats } }))
    }

    /// `GET /api/v1/snapshot`: what the data plane routes by.
    #[track_caller]
    pub fn snapshot(&self) -> Value {
        self.admin().get("/api/v1/snapshot").expect_ok().json()
    }

    /// Whether some target of the current snapshot can go to this backend.
    #[track_caller]
    pub fn is_routable(&self, backend: &str) -> bool {
        clusters(&self.snapshot())
            .flat_map(|cluster| cluster["backends"].as_array().expect("backends of a cluster").clone())
            .any(|entry| entry["backend_id"] == backend)
    }

    /// Waits until a backend is in the snapshot.
    #[track_caller]
    pub fn wait_until_routable(&self, backend: &str) {
        eventually(&format!("{backend} is routable"), || self.is_routable(backend));
    }

    /// Waits until a backend has left the snapshot.
    #[track_caller]
    pub fn wait_until_not_routable(&self, backend: &str) {
        eventually(&format!("{backend} leaves the snapshot"), || !self.is_routable(backend));
    }

    /// The sum of all in-flight counters.
    #[track_caller]
    pub fn in_flight(&self) -> u64 {
        let counter = |cluster: &Value, name: &str| {
            cluster["in_flight"][name].as_u64().unwrap_or_else(|| panic!("in_flight.{name} of {cluster}"))
        };
        clusters(&self.snapshot())
            .map(|cluster| {
                ["running", "queued", "queued_input_tokens"]
                    .map(|name| counter(&cluster, name))
                    .iter()
                    .sum::<u64>()
            })
            .sum()
    }

    /// Waits until nothing is in flight: every counter is 0.
    #[track_caller]
    pub fn wait_until_idle(&self) {
        eventually("all in-flight counters read 0", || self.in_flight() == 0);
    }

    /// `GET /metrics`.
    #[track_caller]
    pub fn metrics(&self) -> String {
        self.admin().get("/metrics").expect_ok().text()
    }

    /// The sum of all series of a metric (name with its prefix) that carry these labels; 0 without any.
    #[track_caller]
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let metrics = self.metrics();
        series(&metrics, name)
            .filter(|(found, _)| {
                labels.iter().all(|(label, value)| found.contains(&format!("{label}={value:?}")))
            })
            .map(|(_, value)| value)
            .sum()
    }
}

/// All clusters of all targets.
fn clusters(snapshot: &Value) -> impl Iterator<Item = Value> {
    let targets = snapshot["targets"].as_array().expect("targets of a snapshot").clone();
    targets
        .into_iter()
        .flat_map(|target| target["clusters"].as_array().expect("clusters of a target").clone())
}

/// Label text and value of every series of a metric.
fn series<'a>(metrics: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    metrics.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once("} ")?,
            None => ("", rest.strip_prefix(' ')?),
        };
        Some((labels, value.trim().parse().expect("a metric's value")))
    })
}
