//! A contestant that runs: it has answered, and has come to rest, before it is measured.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::bail;
use stargate_wire::http::{client::Client, url::Url};

use super::kind::Kind;
use crate::{child::Started, procfs};

/// A contestant must answer its first request within this time. Some look at each of their backends first.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause between two tries of a first request.
const FIRST_ANSWER_PAUSE: Duration = Duration::from_millis(50);

/// A contestant rests when it takes less than this share of a CPU: health checks of a thousand backends are a fifth...
const REST_CPU_SHARE: f64 = 0.4;

/// ... over so long, twice in a row.
const REST_SPAN: Duration = Duration::from_millis(150);

/// One that never rests is measured as it is.
const REST_TIMEOUT: Duration = Duration::from_secs(10);

/// A contestant that runs.
pub(super) struct Contestant {
    pub(super) kind: Kind,
    /// Where requests go; several for the direct way.
    pub(super) addresses: Vec<SocketAddr>,
    /// The process to account for, its children included; `None` on the direct way, where that is the engine.
    pub(super) process: Option<Started>,
}

// === impl Contestant ===

impl Contestant {
    /// Waits until it has answered a request, and rests.
    pub(super) async fn settle(&mut self) -> anyhow::Result<()> {
        self.first_answer().await?;
        self.rest().await
    }

    /// An error when its process has ended.
    pub(super) fn check_alive(&mut self) -> anyhow::Result<()> {
        self.process.as_mut().map_or(Ok(()), Started::check_alive)
    }

    /// Waits until a request is answered with 200: listeners are up, and backends are known to be healthy.
    async fn first_answer(&mut self) -> anyhow::Result<()> {
        let url: Url = format!("http://{}", self.addresses[0]).parse()?;
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
            self.check_alive()?;
            if Instant::now() >= deadline {
                let log = self.process.as_ref().map(Started::log_tail).unwrap_or_default();
                bail!("no answer within {FIRST_ANSWER_TIMEOUT:?}: {problem}; its log ends:\n{log}");
            }
            monoio::time::sleep(FIRST_ANSWER_PAUSE).await;
        }
    }

    /// Waits until it rests: what it does once, such as getting to know a thousand backends, is no part of a request.
    async fn rest(&self) -> anyhow::Result<()> {
        let Some(process) = &self.process else { return Ok(()) };
        let deadline = Instant::now() + REST_TIMEOUT;
        let mut quiet_spans = 0;
        let mut before = procfs::sample(process.pid())?;
        while quiet_spans < 2 && Instant::now() < deadline {
            monoio::time::sleep(REST_SPAN).await;
            let after = procfs::sample(process.pid())?;
            let spent: u64 = procfs::cpu_between(&before, &after).iter().map(|thread| thread.ns).sum();
            let quiet = spent as f64 / 1e9 < REST_CPU_SHARE * REST_SPAN.as_secs_f64();
            quiet_spans = if quiet { quiet_spans + 1 } else { 0 };
            before = after;
        }
        Ok(())
    }
}
