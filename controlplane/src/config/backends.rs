//! `[[backends]]`: the static backends, and what an operator knows of their capacity.

use serde::{Deserialize, Serialize};

use super::violation::Violation;
use crate::{
    backend_url::BackendUrl,
    engine::Engine,
    health_path::HealthPath,
    names::{BackendId, ClusterId, ModelName, RoutingKey},
    ranged::{Throughput, Whole},
};

/// One static backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticBackend {
    /// What operators call it.
    pub id: BackendId,
    /// Where it is.
    pub url: BackendUrl,
    /// Which cluster it belongs to; its own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<ClusterId>,
    /// The scope that it serves; unscoped when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<RoutingKey>,
    /// Which engine it is; decides where its health is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Where its health is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_path: Option<HealthPath>,
    /// What it serves.
    pub models: Vec<ModelName>,
    /// Slots of the engine; counts as reported until it reports itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_engine_concurrency: Option<Whole<1, 1_000_000>>,
    /// Prefill throughput; counts as reported until it reports itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_mean_input_tps: Option<Throughput>,
    /// Highest prefill throughput; counts as reported until it reports itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_input_tps: Option<Throughput>,
}

/// The first backend that cannot be used beside the others, if any.
pub(super) fn validate(backends: &[StaticBackend], max_models: usize) -> Result<(), Violation> {
    for (index, backend) in backends.iter().enumerate() {
        let key = |name: &str| format!("backends[{index}].{name}");
        if backends[..index].iter().any(|other| other.id == backend.id) {
            return Err(Violation {
                key: key("id"),
                found: format!("{:?} again", backend.id.as_str()),
                allowed: "an id that no other backend has".into(),
            });
        }
        if backend.models.is_empty() || backend.models.len() > max_models {
            return Err(Violation {
                key: key("models"),
                found: format!("{} models", backend.models.len()),
                allowed: format!("1 to {max_models} (registration.max_models_per_backend)"),
            });
        }
        for (position, model) in backend.models.iter().enumerate() {
            if backend.models[..position].contains(model) {
                return Err(Violation {
                    key: key(&format!("models[{position}]")),
                    found: format!("{:?} again", model.as_str()),
                    allowed: "each model once".into(),
                });
            }
        }
    }
    Ok(())
}
