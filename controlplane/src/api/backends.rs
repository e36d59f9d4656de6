//! `/api/v1/backends`: backends register themselves, report their stats, and are listed and removed.

use std::collections::BTreeMap;

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequestParts, Path, State, rejection::BytesRejection},
    http::{StatusCode, request::Parts},
};
use serde::Serialize;
use tokio::time::Instant;

use super::{body, error::ApiError};
use crate::{
    aggregate::assumed_input_tps,
    engine::Engine,
    health::Condition,
    names::{BackendId, ClusterId, ModelName, RoutingKey, excerpt},
    plane::ControlPlane,
    registry::{Model, ModelStats, ModelStatus, Registration, Registry},
};

type Plane = State<ControlPlane>;
type Body = Result<Bytes, BytesRejection>;

/// The id of a backend in a path.
pub(super) struct Id(BackendId);

/// A backend, as it is answered.
#[derive(Debug, Serialize)]
pub(super) struct BackendView {
    id: BackendId,
    uid: u64,
    cluster_id: ClusterId,
    url: String,
    routing_key: Option<RoutingKey>,
    engine: Option<Engine>,
    origin: &'static str,
    lease_ms: Option<u64>,
    lease_remaining_ms: Option<u64>,
    address: Option<String>,
    health: HealthView,
    publishes_stats: bool,
    models: BTreeMap<ModelName, ModelView>,
}

#[derive(Debug, Serialize)]
struct HealthView {
    condition: Condition,
    last_failure: Option<String>,
    rtt_ms: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ModelView {
    status: ModelStatus,
    /// Whether requests are sent there now.
    is_active: bool,
    stats: ModelStats,
    input_tps: InputTpsView,
}

/// The prefill throughput that routing works with.
#[derive(Debug, Serialize)]
struct InputTpsView {
    value: f64,
    source: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct BackendList {
    backends: Vec<BackendView>,
}

pub(super) async fn list(State(plane): Plane) -> Json<BackendList> {
    let registry = plane.registry();
    let now = Instant::now();
    let backends = registry.backends().map(|registration| view(&registry, registration, now)).collect();
    Json(BackendList { backends })
}

pub(super) async fn get(State(plane): Plane, Id(id): Id) -> Result<Json<BackendView>, ApiError> {
    one(&plane, &id)
}

pub(super) async fn put(
    State(plane): Plane,
    Id(id): Id,
    body: Body,
) -> Result<(StatusCode, Json<BackendView>), ApiError> {
    let request = body::parse(body, bytes_max(&plane))?;
    let registered = plane.register(&id, request).await?;
    let status = if registered.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, one(&plane, &id)?))
}

pub(super) async fn delete(State(plane): Plane, Id(id): Id) -> Result<StatusCode, ApiError> {
    plane.remove(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn stats(State(plane): Plane, Id(id): Id, body: Body) -> Result<StatusCode, ApiError> {
    let request = body::parse(body, bytes_max(&plane))?;
    plane.report(&id, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn bytes_max(plane: &ControlPlane) -> usize {
    plane.config().registration.max_body_bytes.count()
}

fn one(plane: &ControlPlane, id: &BackendId) -> Result<Json<BackendView>, ApiError> {
    let registry = plane.registry();
    let registration = registry.get(id)?;
    Ok(Json(view(&registry, registration, Instant::now())))
}

fn view(registry: &Registry, registration: &Registration, now: Instant) -> BackendView {
    let models = registration
        .models
        .iter()
        .map(|(name, model)| (name.clone(), model_view(registry, registration, name, model)))
        .collect();
    BackendView {
        id: registration.id.clone(),
        uid: registration.uid.0,
        cluster_id: registration.identity.cluster_id.clone(),
        url: registration.identity.url.as_str().to_owned(),
        routing_key: registration.identity.routing_key.clone(),
        engine: registration.identity.engine,
        origin: if registration.lease.is_some() { "registered" } else { "static" },
        lease_ms: registration.lease.map(|lease| lease.length.as_millis() as u64),
        lease_remaining_ms: registration
            .lease
            .map(|lease| lease.expires_at.saturating_duration_since(now).as_millis() as u64),
        address: registration.address().map(|address| address.to_string()),
        health: HealthView {
            condition: registration.health.condition(),
            last_failure: registration.health.last_failure().map(str::to_owned),
            rtt_ms: registration.probed_rtt.smoothed().map(|rtt| rtt.as_secs_f64() * 1e3),
        },
        publishes_stats: registration.publishes_stats,
        models,
    }
}

fn model_view(
    registry: &Registry,
    registration: &Registration,
    name: &ModelName,
    model: &Model,
) -> ModelView {
    let input_tps = match (model.stats.last_mean_input_tps, model.input_tps()) {
        (Some(_), Some(value)) => InputTpsView { value, source: "reported" },
        (None, Some(value)) => InputTpsView { value, source: "measured" },
        (_, None) => {
            let others = registry
                .backends()
                .filter(|other| {
                    other.is_available() && other.identity.routing_key == registration.identity.routing_key
                })
                .filter_map(|other| other.models.get(name))
                .filter(|other| other.status == ModelStatus::Active);
            InputTpsView { value: assumed_input_tps(others), source: "assumed" }
        }
    };
    ModelView {
        status: model.status,
        is_active: registration.is_available() && model.status == ModelStatus::Active,
        stats: model.stats.clone(),
        input_tps,
    }
}

// === impl Id ===

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let invalid = |found: &str| {
            ApiError::invalid("id", format!("invalid value: {found}, expected {}", BackendId::ALLOWED))
        };
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| invalid(&rejection.body_text()))?;
        BackendId::new(&text).map(Self).ok_or_else(|| invalid(&format!("{:?}", excerpt(&text))))
    }
}
