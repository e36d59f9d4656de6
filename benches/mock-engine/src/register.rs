//! Registers the engine with a control plane and keeps its stats fresh there.
//!
//! Stats go out on a timer and, when asked for, at every change, at most every 10 ms. A control plane that forgot the
//! engine (404) gets a new registration; one that cannot be reached is tried again for as long as it takes.

use std::{io, pin::pin, rc::Rc, time::Duration};

use serde_json::{Map, Value, json};
use stargate_wire::{
    http::{client::Client, url::Url},
    net::race::race,
};

use super::{engine::Engine, stats::Reporter};

/// Changes within this time go out together.
const COALESCE: Duration = Duration::from_millis(10);

/// Pause after the first failed exchange; doubled after each further one.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);
/// Pause after many.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// How and where to register.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    /// The control plane's REST address.
    pub(crate) control_plane: Url,
    /// Where the gateway reaches this engine.
    pub(crate) url: String,
    pub(crate) cluster_id: Option<String>,
    pub(crate) routing_key: Option<String>,
    pub(crate) lease_ms: u64,
    pub(crate) stats_interval: Duration,
    /// Also push when something changed.
    pub(crate) on_change: bool,
}

/// A registered engine.
pub(crate) struct Registrar {
    engine: Rc<Engine>,
    registration: Registration,
    client: Client,
    reporter: Reporter,
    path: String,
}

// === impl Registrar ===

impl Registrar {
    /// Not registered yet.
    pub(crate) fn new(engine: Rc<Engine>, registration: Registration) -> Self {
        Self {
            client: Client::new(registration.control_plane.clone()),
            path: format!("/api/v1/backends/{}", engine.settings.id),
            reporter: Reporter::new(registration.on_change),
            engine,
            registration,
        }
    }

    /// Registers, trying until it succeeds. The registration is taken for a new one: no attempt at it has come yet.
    pub(crate) async fn register(&mut self) {
        if let Some(handover) = &self.engine.handover {
            handover.borrow_mut().forget();
        }
        let mut pause = RETRY_PAUSE_MIN;
        let mut reported = false;
        loop {
            let body = self.registration_body();
            match self.client.request("PUT", &self.path, body.as_bytes()).await {
                Ok(answer) if answer.status < 300 => return,
                outcome => {
                    // Once: a control plane that starts later is the normal case.
                    if !reported {
                        let reason = match outcome {
                            Ok(answer) => {
                                format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body))
                            }
                            Err(error) => error.to_string(),
                        };
                        eprintln!(
                            "cannot register with {}: {reason}",
                            self.registration.control_plane.authority
                        );
                        reported = true;
                    }
                }
            }
            monoio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
    }

    /// Pushes stats for ever.
    pub(crate) async fn publish(&mut self) {
        let mut pause = RETRY_PAUSE_MIN;
        loop {
            let seen = self.engine.changed.version();
            match self.push().await {
                Ok(404) => self.register().await,
                Ok(status) if status < 300 => pause = RETRY_PAUSE_MIN,
                Ok(status) => {
                    eprintln!("the control plane refused stats: {status}");
                    monoio::time::sleep(pause).await;
                    pause = (pause * 2).min(RETRY_PAUSE_MAX);
                }
                Err(_) => {
                    monoio::time::sleep(pause).await;
                    pause = (pause * 2).min(RETRY_PAUSE_MAX);
                    continue;
                }
            }
            self.wait(seen).await;
        }
    }

    /// Takes the engine out of service, once, at shutdown.
    pub(crate) async fn deregister(&mut self) -> io::Result<()> {
        self.client.request("DELETE", &self.path, b"").await.map(|_| ())
    }

    /// Waits for the next push to be due.
    async fn wait(&self, seen: u64) {
        let timer = pin!(monoio::time::sleep(self.registration.stats_interval));
        if self.registration.on_change {
            let change = pin!(async {
                monoio::time::sleep(COALESCE).await;
                self.engine.changed.changed_since(seen).await;
            });
            race(timer, change).await;
        } else {
            timer.await;
        }
    }

    async fn push(&mut self) -> io::Result<u16> {
        let stats = self.reporter.model_stats(&self.engine);
        let models: Map<String, Value> =
            self.engine.settings.models.iter().map(|model| (model.clone(), stats.clone())).collect();
        let body = json!({"models": models}).to_string();
        let path = format!("{}/stats", self.path);
        self.client.request("POST", &path, body.as_bytes()).await.map(|answer| answer.status)
    }

    fn registration_body(&self) -> String {
        let stats = self.reporter.model_stats(&self.engine);
        let models: Map<String, Value> = self
            .engine
            .settings
            .models
            .iter()
            .map(|model| (model.clone(), json!({"status": "active", "stats": stats})))
            .collect();
        let mut body =
            json!({"url": self.registration.url, "lease_ms": self.registration.lease_ms, "models": models});
        if let Some(cluster) = &self.registration.cluster_id {
            body["cluster_id"] = json!(cluster);
        }
        if let Some(key) = &self.registration.routing_key {
            body["routing_key"] = json!(key);
        }
        body.to_string()
    }
}
