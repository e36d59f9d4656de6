//! What is compared: starts each contestant in front of the same engines, and knows its configuration.

use std::{
    fmt::Write,
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};

use crate::{
    child::{Started, own_path},
    http::{client::Client, url::Url},
};

/// A contestant must answer its first request within this time.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Pause between two tries of a first request.
const FIRST_ANSWER_PAUSE: Duration = Duration::from_millis(50);

/// Slots of the engine: more than any scenario has connections, so that it never queues.
const ENGINE_CONCURRENCY: usize = 16_384;

/// One way from the load generator to the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// No proxy.
    Direct,
    /// A bare relay.
    Relay,
    /// `HAProxy`.
    Haproxy,
    /// Stargate.
    Gateway,
    /// Another Stargate: of another build, or with other settings.
    Other,
}

/// A contestant that runs.
pub(crate) struct Contestant {
    pub(crate) kind: Kind,
    /// Where requests go; several for the direct way.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The process to account for: the proxy, or the engine on the direct way.
    pub(crate) process: Option<Started>,
}

/// The engines: one process with several addresses, since the machine has one CPU left for them.
pub(crate) struct Engines {
    pub(crate) process: Started,
    pub(crate) addresses: Vec<SocketAddr>,
}

/// Where and with what to start contestants.
pub(crate) struct Stage<'a> {
    /// For configurations and logs.
    pub(crate) folder: &'a Path,
    pub(crate) proxy_core: usize,
    pub(crate) load_core: usize,
    pub(crate) upstreams: usize,
    pub(crate) stargate: Option<PathBuf>,
    pub(crate) other: Option<Other>,
    pub(crate) haproxy: Option<PathBuf>,
}

/// Another Stargate to compare with.
#[derive(Clone, Debug)]
pub(crate) struct Other {
    pub(crate) program: PathBuf,
    /// Settings of its own, as `KEY=VALUE`.
    pub(crate) settings: Vec<String>,
}

// === impl Kind ===

impl Kind {
    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Relay => "relay",
            Self::Haproxy => "haproxy",
            Self::Gateway => "gateway",
            Self::Other => "other",
        }
    }
}

// === impl Stage ===

impl Stage<'_> {
    /// Starts the engines; `decode_tps` 0 answers at once, others vary by `jitter`.
    pub(crate) fn engines(&self, decode_tps: f64, jitter: f64) -> anyhow::Result<Engines> {
        let mut arguments: Vec<String> =
            ["mock-engine", "--prefill-tps", "0", "--keep-alive-ms", "0"].map(str::to_owned).into();
        arguments.extend(["--decode-tps".to_owned(), decode_tps.to_string()]);
        arguments.extend(["--jitter".to_owned(), jitter.to_string()]);
        arguments.extend(["--concurrency".to_owned(), ENGINE_CONCURRENCY.to_string()]);
        for _ in 0..self.upstreams {
            arguments.extend(["--listen".to_owned(), "127.0.0.1:0".to_owned()]);
        }
        let mut process =
            Started::new("engines", Some(self.load_core), &own_path()?, &arguments, self.folder)?;
        let addresses = process.ready_addresses("listen")?;
        Ok(Engines { process, addresses })
    }

    /// Starts every contestant that there is, and has each answer a request.
    pub(crate) async fn contestants(&self, engines: &Engines) -> anyhow::Result<Vec<Contestant>> {
        let addresses = &engines.addresses;
        let mut contestants = vec![
            Contestant { kind: Kind::Direct, addresses: addresses.clone(), process: None },
            self.relay(addresses)?,
        ];
        if let Some(program) = &self.haproxy {
            contestants.push(self.haproxy(program, addresses)?);
        }
        if let Some(program) = &self.stargate {
            contestants.push(self.gateway(Kind::Gateway, program, &[], addresses)?);
        }
        if let Some(Other { program, settings }) = &self.other {
            contestants.push(self.gateway(Kind::Other, program, settings, addresses)?);
        }
        for contestant in &mut contestants {
            first_answer(contestant).await?;
        }
        Ok(contestants)
    }

    fn relay(&self, upstreams: &[SocketAddr]) -> anyhow::Result<Contestant> {
        let mut arguments = vec!["relay".to_owned()];
        for upstream in upstreams {
            arguments.extend(["--upstream".to_owned(), upstream.to_string()]);
        }
        let mut process =
            Started::new("relay", Some(self.proxy_core), &own_path()?, &arguments, self.folder)?;
        let addresses = process.ready_addresses("listen")?;
        Ok(Contestant { kind: Kind::Relay, addresses, process: Some(process) })
    }

    fn haproxy(&self, program: &Path, upstreams: &[SocketAddr]) -> anyhow::Result<Contestant> {
        // It cannot tell which port it took: one that is free now is free for the moment that it needs.
        let listen =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).context("no port")?;
        let file = self.folder.join("haproxy.cfg");
        fs::write(&file, haproxy_configuration(listen, upstreams)).context("haproxy.cfg")?;
        // -db: in the foreground, as one process.
        let arguments = ["-db".to_owned(), "-f".to_owned(), file.display().to_string()];
        let process = Started::new("haproxy", Some(self.proxy_core), program, &arguments, self.folder)?;
        Ok(Contestant { kind: Kind::Haproxy, addresses: vec![listen], process: Some(process) })
    }

    fn gateway(
        &self,
        kind: Kind,
        program: &Path,
        settings: &[String],
        upstreams: &[SocketAddr],
    ) -> anyhow::Result<Contestant> {
        let file = self.folder.join("stargate.toml");
        fs::write(&file, gateway_configuration(upstreams)).context("stargate.toml")?;
        let mut arguments = vec!["serve".to_owned(), "--config".to_owned(), file.display().to_string()];
        // One core of those that it may use, and `run-pinned` leaves it exactly one, its control plane included.
        arguments.extend(["--cores".to_owned(), "1".to_owned(), "--log-level".to_owned(), "warn".to_owned()]);
        arguments.extend(settings.iter().flat_map(|setting| ["--set".to_owned(), setting.clone()]));
        let mut process = Started::new(kind.name(), Some(self.proxy_core), program, &arguments, self.folder)?;
        let addresses = process.ready_addresses("dataplane")?;
        ensure!(!addresses.is_empty(), "{}: no address", kind.name());
        Ok(Contestant { kind, addresses, process: Some(process) })
    }
}

/// Waits until a request is answered with 200: listeners are up, and backends are known to be healthy.
async fn first_answer(contestant: &mut Contestant) -> anyhow::Result<()> {
    let address = contestant.addresses[0];
    let url: Url = format!("http://{address}").parse()?;
    let mut client = Client::new(url);
    let body = br#"{"model":"mock","max_tokens":1,"messages":[{"role":"user","content":"ready?"}]}"#;
    let deadline = Instant::now() + FIRST_ANSWER_TIMEOUT;
    loop {
        let outcome = client.request("POST", "/v1/chat/completions", body).await;
        let problem = match outcome {
            Ok(answer) if answer.status == 200 => return Ok(()),
            Ok(answer) => format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body)),
            Err(error) => error.to_string(),
        };
        if let Some(process) = &mut contestant.process {
            process.check_alive()?;
        }
        ensure!(
            Instant::now() < deadline,
            "{}: no answer within {FIRST_ANSWER_TIMEOUT:?}: {problem}",
            contestant.kind.name()
        );
        monoio::time::sleep(FIRST_ANSWER_PAUSE).await;
    }
}

/// One thread, keep-alive to the servers, small buffers, no delay: as its users tune it for this traffic.
fn haproxy_configuration(listen: SocketAddr, upstreams: &[SocketAddr]) -> String {
    let mut text = format!(
        "global\n  maxconn 9950\n  nbthread 1\n  tune.bufsize 16384\n  log /dev/null local0 emerg\n\
         defaults\n  mode http\n  option http-keep-alive\n  http-reuse always\n  timeout client 600s\n  \
         timeout server 600s\n  timeout connect 5s\n  timeout http-keep-alive 3600s\n  option forwardfor\n  \
         option http-no-delay\n\
         frontend clients\n  bind {listen} backlog 4096\n  maxconn 9950\n  default_backend engines\n\
         backend engines\n  balance roundrobin\n"
    );
    for (number, upstream) in upstreams.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  server s{number} {upstream} pool-max-conn 4096");
    }
    text
}

/// Static backends, power-of-n, everything else as it comes: derivation, health checks and metrics are on.
fn gateway_configuration(upstreams: &[SocketAddr]) -> String {
    let mut text = "[server]\nlisten = [\"127.0.0.1:0\"]\n\n[admin]\nlisten = \"127.0.0.1:0\"\n\n\
                    [routing]\ndefault = \"power-of-n\"\n"
        .to_owned();
    for (number, upstream) in upstreams.iter().enumerate() {
        let _ = write!(
            text,
            "\n[[backends]]\nid = \"e{number}\"\nurl = \"http://{upstream}\"\nengine = \"vllm\"\nmodels = [\"mock\"]\n\
             max_engine_concurrency = {ENGINE_CONCURRENCY}\nlast_mean_input_tps = 1000000.0\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_name_every_upstream() {
        let upstreams: Vec<SocketAddr> =
            (1..=3).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let haproxy = haproxy_configuration("127.0.0.1:9".parse().unwrap(), &upstreams);
        assert_eq!(haproxy.matches("  server s").count(), 3);
        assert!(haproxy.contains("bind 127.0.0.1:9 "));
        let gateway = gateway_configuration(&upstreams);
        assert_eq!(gateway.matches("[[backends]]").count(), 3);
        assert!(gateway.contains("url = \"http://127.0.0.1:2\""));
    }
}
