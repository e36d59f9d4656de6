//! What a backend says to register itself, and to report its stats.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::IntoDeserializer};

use super::stats::{ModelStats, Rate};
use crate::{
    backend_url::BackendUrl,
    config::{LEASE_MS_MAX, LEASE_MS_MIN, StaticBackend},
    engine::Engine,
    names::{ClusterId, ModelName, RoutingKey},
    ranged::Whole,
};

/// Body of `PUT /api/v1/backends/{id}`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisterRequest {
    /// Its cluster; its own when absent or empty.
    #[serde(default, deserialize_with = "absent_when_empty")]
    pub cluster_id: Option<ClusterId>,
    /// Where it is.
    pub url: BackendUrl,
    /// The scope that it serves; unscoped when absent or empty.
    #[serde(default, deserialize_with = "absent_when_empty")]
    pub routing_key: Option<RoutingKey>,
    /// Which engine it is.
    #[serde(default)]
    pub engine: Option<Engine>,
    /// How long it stays registered without a word.
    #[serde(default)]
    pub lease_ms: Option<Whole<LEASE_MS_MIN, LEASE_MS_MAX>>,
    /// What it serves: all of it, each time.
    pub models: BTreeMap<ModelName, ModelRequest>,
}

/// One model of a registration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelRequest {
    /// Whether it takes requests.
    pub status: ModelStatus,
    /// Its stats; the former ones stay when absent.
    pub stats: Option<ModelStats>,
}

/// Whether a model takes requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelStatus {
    /// It does.
    #[default]
    Active,
    /// It does not.
    Inactive,
}

/// Body of `POST /api/v1/backends/{id}/stats`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatsRequest {
    /// Stats of some or all of its models.
    pub models: BTreeMap<ModelName, ModelStats>,
}

/// An empty string is as good as none: agents template these fields.
fn absent_when_empty<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    match Option::<String>::deserialize(deserializer)? {
        None => Ok(None),
        Some(text) if text.is_empty() => Ok(None),
        Some(text) => T::deserialize(text.into_deserializer()).map(Some),
    }
}

// === impl ModelRequest ===

impl ModelRequest {
    /// What an operator knows of a static backend counts as reported until it reports itself.
    pub(super) fn of_static(backend: &StaticBackend) -> Self {
        let stats = ModelStats {
            last_mean_input_tps: backend.last_mean_input_tps.and_then(|tps| Rate::new(tps.get())),
            max_input_tps: backend.max_input_tps.and_then(|tps| Rate::new(tps.get())),
            max_engine_concurrency: backend.max_engine_concurrency.map(|count| Whole::new(count.get())),
            ..ModelStats::default()
        };
        Self { status: ModelStatus::Active, stats: (stats != ModelStats::default()).then_some(stats) }
    }
}
