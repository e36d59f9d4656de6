//! What may not change while a registration lives: by it a backend is the same one.
//!
//! A backend that is another under the same id would get the connections, the counts and the cache keys of the one
//! before, so such a renewal is refused, and says which field it is.

use serde::Serialize;

use super::{error::RegistryError, request::RegisterRequest};
use crate::{
    backend_url::BackendUrl,
    config::StaticBackend,
    engine::Engine,
    health_path::HealthPath,
    names::{BackendId, ClusterId, RoutingKey},
};

/// What may not change while a registration lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Where it is.
    pub url: BackendUrl,
    /// Its cluster.
    pub cluster_id: ClusterId,
    /// The scope that it serves.
    pub routing_key: Option<RoutingKey>,
    /// Which engine it is.
    pub engine: Option<Engine>,
    /// Where its health is asked, when not at the configured default.
    pub health_path: Option<HealthPath>,
}

/// A backend that names no cluster is one of its own.
fn own_cluster(id: &BackendId) -> ClusterId {
    const { assert!(ClusterId::MAX_BYTES >= BackendId::MAX_BYTES) };
    ClusterId::new(id.as_str()).expect("every backend id is a cluster id")
}

// === impl Identity ===

impl Identity {
    /// Of a backend that registers itself.
    pub(super) fn of_request(id: &BackendId, request: &RegisterRequest) -> Self {
        Self {
            url: request.url.clone(),
            cluster_id: request.cluster_id.clone().unwrap_or_else(|| own_cluster(id)),
            routing_key: request.routing_key.clone(),
            engine: request.engine,
            health_path: request.engine.and_then(Engine::health_path),
        }
    }

    /// Of one that the configuration names.
    pub(super) fn of_static(backend: &StaticBackend) -> Self {
        Self {
            url: backend.url.clone(),
            cluster_id: backend.cluster_id.clone().unwrap_or_else(|| own_cluster(&backend.id)),
            routing_key: backend.routing_key.clone(),
            engine: backend.engine,
            health_path: backend.health_path.clone().or_else(|| backend.engine.and_then(Engine::health_path)),
        }
    }

    /// That `requested` is the same.
    pub(super) fn check_unchanged(&self, requested: &Self) -> Result<(), RegistryError> {
        fn text<T: Serialize>(value: &T) -> String {
            serde_json::to_string(value).unwrap_or_default()
        }
        for (field, registered, requested) in [
            ("url", text(&self.url), text(&requested.url)),
            ("cluster_id", text(&self.cluster_id), text(&requested.cluster_id)),
            ("routing_key", text(&self.routing_key), text(&requested.routing_key)),
            ("engine", text(&self.engine), text(&requested.engine)),
        ] {
            if registered != requested {
                return Err(RegistryError::IdentityChanged { field, registered, requested });
            }
        }
        Ok(())
    }
}
