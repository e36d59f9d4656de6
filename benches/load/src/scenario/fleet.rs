//! A gateway on every CPU and the mock engines that registered with it.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use stargate_wire::http::{client::Client, url::Url};
use tempfile::TempDir;

use super::MODEL;
use crate::child::{Started, own_path};

/// The engines must be known to the gateway within this time.
const READY_TIMEOUT: Duration = Duration::from_secs(15);

/// Pause between two looks.
const READY_PAUSE: Duration = Duration::from_millis(20);

/// What the gateway's metrics begin with.
const PREFIX: &str = "stargate_";

/// How one mock engine behaves.
#[derive(Clone, Debug)]
pub(super) struct EngineOptions {
    /// Requests that run at once.
    pub(super) slots: u32,
    /// Input tokens a second; 0 takes no time.
    pub(super) prefill_tps: f64,
    /// Output tokens a second of each request.
    pub(super) decode_tps: f64,
    /// Tokens that its prefix cache holds.
    pub(super) kv_capacity_tokens: u64,
    /// When it reports.
    pub(super) reports: Reports,
}

/// When an engine reports its stats, and what it says of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reports {
    /// After every change.
    OnChange,
    /// Every second.
    EverySecond,
    /// Every second, and which attempts each report includes.
    EverySecondWithHandover,
}

/// A gateway and its engines; all end when this value goes.
pub(super) struct Fleet {
    /// Where clients connect.
    pub(super) gateway: SocketAddr,
    admin: Client,
    engines: Vec<Client>,
    gateway_process: Started,
    _engine_processes: Vec<Started>,
    _folder: TempDir,
}

/// What the engines say of themselves, summed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EngineTotals {
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: u64,
    /// Requests that found no free slot on arrival.
    pub(super) arrived_without_free_slot: u64,
}

// === impl Fleet ===

impl Fleet {
    /// Starts everything, with `routing` as the routing configuration, and waits until every engine is routable.
    pub(super) async fn start(
        stargate: &Path,
        engines: &[EngineOptions],
        routing: &Value,
    ) -> anyhow::Result<Self> {
        let folder = TempDir::with_prefix("stargate-scenario-").context("a temporary folder")?;
        let file = folder.path().join("stargate.toml");
        fs::write(
            &file,
            "[server]\nlisten = [\"127.0.0.1:0\"]\n\n[admin]\nlisten = \"127.0.0.1:0\"\n\n[log]\nlevel = \"error\"\n",
        )
        .context("stargate.toml")?;
        let arguments = ["serve".to_owned(), "--config".to_owned(), file.display().to_string()];
        let mut gateway_process = Started::new("gateway", None, stargate, &arguments, folder.path())?;
        let ready = gateway_process.ready_line()?;
        let gateway = first(&gateway_process, &ready, "dataplane")?;
        let admin = first(&gateway_process, &ready, "admin")?;
        let mut engine_processes = Vec::new();
        let mut clients = Vec::new();
        for (number, options) in engines.iter().enumerate() {
            let process = engine(number, options, admin, folder.path())?;
            engine_processes.push(process);
        }
        for process in &mut engine_processes {
            let address = process.ready_addresses("listen")?[0];
            clients.push(client(address)?);
        }
        let mut fleet = Self {
            gateway,
            admin: client(admin)?,
            engines: clients,
            gateway_process,
            _engine_processes: engine_processes,
            _folder: folder,
        };
        let (status, answer) = fleet.put_routing(routing).await?;
        ensure!(status == 200, "the routing configuration was refused: {answer}");
        fleet.wait_for_engines().await?;
        Ok(fleet)
    }

    /// The gateway's process.
    pub(super) fn gateway_pid(&self) -> u32 {
        self.gateway_process.pid()
    }

    /// Replaces the routing configuration. Returns status and answer.
    pub(super) async fn put_routing(&mut self, document: &Value) -> anyhow::Result<(u16, Value)> {
        let body = serde_json::to_vec(document)?;
        let answer = self.admin.request("PUT", "/api/v1/config/routing", &body).await.context("admin API")?;
        Ok((answer.status, serde_json::from_slice(&answer.body).unwrap_or_default()))
    }

    /// The sum of a metric's samples whose labels contain all of `labels`, such as `selection="primary"`.
    pub(super) async fn metric(&mut self, name: &str, labels: &[&str]) -> anyhow::Result<f64> {
        let samples = self.metric_samples(name).await?;
        let has_all = |sample: &&(String, f64)| labels.iter().all(|label| sample.0.contains(label));
        // From 0, as the sum of nothing is -0 otherwise.
        Ok(samples.iter().filter(has_all).fold(0.0, |sum, (_, value)| sum + value))
    }

    /// A metric's samples: labels and value.
    pub(super) async fn metric_samples(&mut self, name: &str) -> anyhow::Result<Vec<(String, f64)>> {
        let answer = self.admin.request("GET", "/metrics", b"").await.context("metrics")?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        Ok(text.lines().filter_map(|line| sample(line, name)).collect())
    }

    /// What the engines count, summed.
    pub(super) async fn engine_totals(&mut self) -> anyhow::Result<EngineTotals> {
        let mut totals = EngineTotals::default();
        for engine in &mut self.engines {
            let answer = engine.request("GET", "/mock/state", b"").await.context("engine state")?;
            let state: Value = serde_json::from_slice(&answer.body)?;
            totals.prompt_tokens += state["prompt_tokens"].as_u64().context("prompt_tokens")?;
            totals.cached_tokens += state["cached_tokens"].as_u64().context("cached_tokens")?;
            totals.arrived_without_free_slot +=
                state["arrived_without_free_slot"].as_u64().context("arrived_without_free_slot")?;
        }
        Ok(totals)
    }

    async fn wait_for_engines(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let answer = self.admin.request("GET", "/api/v1/snapshot", b"").await.context("snapshot")?;
            let snapshot: Value = serde_json::from_slice(&answer.body)?;
            let clusters = snapshot["targets"][0]["clusters"].as_array().map_or(0, Vec::len);
            if clusters == self.engines.len() {
                return Ok(());
            }
            self.gateway_process.check_alive()?;
            if Instant::now() > deadline {
                bail!("{clusters} of {} engines are routable after {READY_TIMEOUT:?}", self.engines.len());
            }
            monoio::time::sleep(READY_PAUSE).await;
        }
    }
}

/// A routing document for the one model.
pub(super) fn document(policy: &Value) -> Value {
    json!({ "models": { MODEL: policy } })
}

fn engine(
    number: usize,
    options: &EngineOptions,
    admin: SocketAddr,
    folder: &Path,
) -> anyhow::Result<Started> {
    let id = format!("e{}", number + 1);
    let arguments = [
        "mock-engine".to_owned(),
        format!("--id={id}"),
        format!("--model={MODEL}"),
        format!("--concurrency={}", options.slots),
        format!("--prefill-tps={}", options.prefill_tps),
        format!("--decode-tps={}", options.decode_tps),
        format!("--kv-capacity-tokens={}", options.kv_capacity_tokens),
        format!("--register=http://{admin}"),
        "--stats-interval-ms=1000".to_owned(),
        "--lease-ms=60000".to_owned(),
    ];
    let saying = match options.reports {
        Reports::OnChange => Some("--on-change"),
        Reports::EverySecond => None,
        Reports::EverySecondWithHandover => Some("--handover"),
    };
    let arguments: Vec<String> = arguments.into_iter().chain(saying.map(str::to_owned)).collect();
    Started::new(&id, None, &own_path()?, &arguments, folder)
}

fn client(address: SocketAddr) -> anyhow::Result<Client> {
    let url: Url = format!("http://{address}").parse()?;
    Ok(Client::new(url))
}

fn first(process: &Started, ready: &str, key: &str) -> anyhow::Result<SocketAddr> {
    process.addresses(ready, key)?.first().copied().with_context(|| format!("no address under {key}="))
}

/// Labels and value of a line of Prometheus' text format, if it is of that metric.
fn sample(line: &str, name: &str) -> Option<(String, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (metric, labels) = series.split_once('{').unwrap_or((series, ""));
    let is_it = !line.starts_with('#') && metric.strip_prefix(PREFIX) == Some(name);
    is_it.then(|| Some((labels.trim_end_matches('}').to_owned(), value.parse().ok()?)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_told_by_name() {
        let line = "stargate_routing_selections_total{model=\"m\",selection=\"primary\"} 12";
        let (labels, value) = sample(line, "routing_selections_total").unwrap();
        assert_eq!((labels.as_str(), value), ("model=\"m\",selection=\"primary\"", 12.0));
        assert_eq!(sample("stargate_snapshot_version 3", "snapshot_version"), Some((String::new(), 3.0)));
        assert_eq!(sample("stargate_core_snapshot_version{core=\"0\"} 3", "snapshot_version"), None);
        assert_eq!(sample("# HELP stargate_x y", "x"), None);
    }
}
