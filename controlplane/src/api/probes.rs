//! `/healthz`, `/readyz`, `/metrics`.

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
};
use serde_json::{Value, json};

use crate::plane::{ControlPlane, Readiness};

/// Prometheus' text format, version 0.0.4.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The process lives.
pub(super) async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Requests can be served.
pub(super) async fn readyz(State(plane): State<ControlPlane>) -> (StatusCode, Json<Value>) {
    let (status, reason) = match plane.readiness() {
        Readiness::Ready => return (StatusCode::OK, Json(json!({ "status": "ready" }))),
        Readiness::NoSnapshot => (StatusCode::SERVICE_UNAVAILABLE, "no_snapshot"),
        Readiness::NoRoutableBackend => (StatusCode::SERVICE_UNAVAILABLE, "no_routable_backend"),
        Readiness::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "shutting_down"),
    };
    (status, Json(json!({ "status": "not_ready", "reason": reason })))
}

pub(super) async fn metrics(State(plane): State<ControlPlane>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, METRICS_TYPE)], plane.scrape())
}
