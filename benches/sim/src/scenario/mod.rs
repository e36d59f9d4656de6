//! Scenarios: a fleet, its network, its clients and the policies that are compared on them, as TOML.
//!
//! A scenario is a grid: every policy meets every combination of the axes' values with every seed. An axis value is a
//! set of changes to the scenario's own text, so that whatever can be written in it can be swept.

mod clients;
mod grid;
mod library;
mod policy;

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use serde::Deserialize;

pub(super) use self::{
    clients::{Arrivals, Clients, Growth, Popularity},
    grid::{Grid, Point},
    policy::{Accounted, Policy, PolicySpec, Router},
};
use super::engine::EngineSpec;

/// One point of a grid: everything that a run needs but the policy and the seed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    #[serde(default = "seeds")]
    pub(super) seeds: Vec<u64>,
    /// Not counted, while caches fill.
    pub(super) warmup_s: f64,
    /// Counted.
    pub(super) measured_s: f64,
    pub(super) network: Network,
    pub(super) gateways: Gateways,
    pub(super) engines: BTreeMap<String, EngineSpec>,
    pub(super) clusters: Vec<Clusters>,
    pub(super) reports: Reports,
    pub(super) clients: Clients,
    /// Names of the policies that are compared, in the order of the report.
    pub(super) policies: Vec<String>,
    /// Policies of this scenario's own, by name; others are those of `policies.toml`.
    #[serde(default)]
    pub(super) policy: BTreeMap<String, PolicySpec>,
}

/// Regions and the ways between them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Network {
    pub(super) regions: Vec<String>,
    /// There and back in ms, a row and a column for each region.
    pub(super) rtt_ms: Vec<Vec<f64>>,
}

/// Gateways share nothing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gateways {
    /// In every region that has clients.
    pub(super) per_region: usize,
}

/// Clusters of one kind, each of one engine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Clusters {
    /// Name in `engines`.
    pub(super) engine: String,
    pub(super) region: String,
    pub(super) count: usize,
    /// How many times as fast as its engine's numbers say.
    #[serde(default = "one")]
    pub(super) speed: f64,
    /// When they are there first.
    #[serde(default)]
    pub(super) from_s: f64,
    /// When they die, with all that they run.
    pub(super) until_s: Option<f64>,
    /// Speeds that they have from these times on, instead.
    #[serde(default)]
    pub(super) speeds: Vec<Speed>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Speed {
    pub(super) from_s: f64,
    pub(super) speed: f64,
}

/// When engines report what they do, and what they say of it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reports {
    /// At an interval, each engine at a moment of its own.
    pub(super) heartbeat_ms: Option<f64>,
    /// After every change, those within this time together.
    pub(super) on_change_ms: Option<f64>,
    /// Reports say which attempts they include.
    #[serde(default)]
    pub(super) hand_over: bool,
}

fn one() -> f64 {
    1.0
}

fn seeds() -> Vec<u64> {
    vec![1, 2, 3]
}

// === impl Scenario ===

impl Scenario {
    /// Checks what the types do not.
    fn validate(&self) -> anyhow::Result<()> {
        let regions = self.network.regions.len();
        ensure!((1..=64).contains(&regions), "network.regions: found {regions}, allowed: 1 to 64");
        ensure!(
            self.network.rtt_ms.len() == regions
                && self.network.rtt_ms.iter().all(|row| row.len() == regions),
            "network.rtt_ms: allowed: {regions} rows of {regions} numbers, one for each of network.regions"
        );
        let rtts = self.network.rtt_ms.iter().flatten();
        ensure!(
            rtts.clone().all(|rtt| (0.0..=10_000.0).contains(rtt)),
            "network.rtt_ms: allowed: 0 to 10000"
        );
        ensure!(
            (1..=1024).contains(&self.gateways.per_region),
            "gateways.per_region: found {}, allowed: 1 to 1024",
            self.gateways.per_region
        );
        ensure!(
            (0.0..=86_400.0).contains(&self.warmup_s) && self.measured_s > 0.0 && self.measured_s <= 86_400.0,
            "warmup_s and measured_s: allowed: up to 86400, measured_s above 0"
        );
        ensure!(!self.seeds.is_empty(), "seeds: found none, allowed: at least one");
        ensure!(!self.policies.is_empty(), "policies: found none, allowed: at least one");
        for (name, engine) in &self.engines {
            engine.validate().with_context(|| format!("engines.{name}"))?;
        }
        let total: usize = self.clusters.iter().map(|group| group.count).sum();
        ensure!((1..=4096).contains(&total), "clusters: found {total} in all, allowed: 1 to 4096");
        for (index, group) in self.clusters.iter().enumerate() {
            group.validate(self).with_context(|| format!("clusters[{index}]"))?;
        }
        self.reports.validate().context("reports")?;
        self.clients.validate(&self.network).context("clients")
    }

    /// The clients' region of this name, or the cluster's.
    pub(super) fn region(&self, name: &str) -> Option<usize> {
        self.network.regions.iter().position(|region| region == name)
    }
}

// === impl Clusters ===

impl Clusters {
    fn validate(&self, scenario: &Scenario) -> anyhow::Result<()> {
        let engines: Vec<&str> = scenario.engines.keys().map(String::as_str).collect();
        ensure!(
            scenario.engines.contains_key(&self.engine),
            "engine: found {:?}, allowed: {}",
            self.engine,
            engines.join(", ")
        );
        ensure!(
            scenario.region(&self.region).is_some(),
            "region: found {:?}, allowed: {}",
            self.region,
            scenario.network.regions.join(", ")
        );
        let speeds = self.speeds.iter().map(|speed| speed.speed).chain([self.speed]);
        for speed in speeds {
            ensure!((0.01..=100.0).contains(&speed), "speed: found {speed}, allowed: 0.01 to 100");
        }
        ensure!(
            self.from_s >= 0.0 && self.until_s.is_none_or(|until| until > self.from_s),
            "from_s and until_s: allowed: from 0 on, in this order"
        );
        Ok(())
    }
}

// === impl Reports ===

impl Reports {
    fn validate(&self) -> anyhow::Result<()> {
        let intervals = [self.heartbeat_ms, self.on_change_ms];
        ensure!(
            intervals.iter().any(Option::is_some),
            "found nothing, allowed: heartbeat_ms, on_change_ms or both"
        );
        ensure!(
            intervals.iter().flatten().all(|ms| (1.0..=600_000.0).contains(ms)),
            "heartbeat_ms and on_change_ms: allowed: 1 to 600000"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests;
