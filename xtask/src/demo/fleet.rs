//! The processes of the demo: one gateway, three engines.

use std::{fs, net::TcpListener, path::PathBuf, process::Command};

use anyhow::{Context, Result};

use crate::{
    children::Children,
    workspace::{cargo, run, target_dir},
};

/// Names of the engines.
pub(super) const ENGINES: [&str; 3] = ["aurora", "borealis", "corona"];

/// What they serve.
pub(super) const MODEL: &str = "demo-model";

/// Prompt tokens that an engine reads in a second: slow enough that a cached prefix is seen in the times.
const PREFILL_TPS: &str = "4000";

/// Tokens that an engine writes in a second and request.
const DECODE_TPS: &str = "200";

/// The gateway's configuration.
const CONFIG: &str = include_str!("stargate.toml");

/// The running processes.
#[derive(Debug)]
pub(super) struct Fleet {
    /// The gateway's URL for clients.
    pub(super) url: String,
    /// The control plane's URL.
    pub(super) admin_url: String,
    /// Where logs are.
    pub(super) log_dir: PathBuf,
    children: Children,
}

/// Builds both programs.
pub(super) fn build() -> Result<()> {
    run(cargo()
        .args(["build", "--release", "--locked", "--bin", "stargate", "--bin", "stargate-bench"])
        .args(["-p", "stargate-controlplane", "-p", "stargate-bench"]))
}

// === impl Fleet ===

impl Fleet {
    /// Starts the gateway, then the engines, which register themselves with it.
    pub(super) fn start(port: u16, admin_port: u16) -> Result<Self> {
        let log_dir = target_dir().join("demo");
        fs::create_dir_all(&log_dir).with_context(|| format!("{}", log_dir.display()))?;
        let config = log_dir.join("stargate.toml");
        fs::write(&config, CONFIG).with_context(|| format!("{}", config.display()))?;
        let children = Children::new(&log_dir)?;

        let mut gateway = Command::new(target_dir().join("release/stargate"));
        gateway.arg("--config").arg(&config).args([
            "--listen",
            &address_on(port),
            "--admin-listen",
            &address_on(admin_port),
        ]);
        let ready = children.start("stargate", gateway)?;
        let url = format!("http://{}", value_of(&ready, "dataplane")?);
        let admin_url = format!("http://{}", value_of(&ready, "admin")?);

        for (seed, engine) in ENGINES.into_iter().enumerate() {
            let mut command = Command::new(target_dir().join("release/stargate-bench"));
            command
                .args(["mock-engine", "--listen", "127.0.0.1:0", "--id", engine, "--model", MODEL])
                .args(["--prefill-tps", PREFILL_TPS, "--decode-tps", DECODE_TPS])
                .args(["--register", &admin_url, "--on-change"])
                .args(["--seed", &seed.to_string()]);
            children.start(engine, command)?;
        }
        Ok(Self { url, admin_url, log_dir, children })
    }

    /// Waits for Ctrl-C, which ends this program and everything that it started.
    pub(super) fn wait(&self) -> Result<()> {
        self.children.wait()
    }
}

/// The port of 127.0.0.1, or a free one where it is taken.
fn address_on(port: u16) -> String {
    if TcpListener::bind(("127.0.0.1", port)).is_ok() {
        return format!("127.0.0.1:{port}");
    }
    println!("port {port} is taken: using a free one");
    "127.0.0.1:0".to_owned()
}

/// The value of `key=value` in a `ready` line.
fn value_of<'a>(ready: &'a str, key: &str) -> Result<&'a str> {
    ready
        .split(' ')
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        .with_context(|| format!("no {key}= in {ready:?}"))
}
