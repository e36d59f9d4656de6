//! Every path of the API, and which handler answers it.

use std::any::Any;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::{StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use tower_http::catch_panic::CatchPanicLayer;

use super::{
    backends, clusters, dataplane, error::ApiError, explain, probes, ranking, routing, snapshot, targets,
};
use crate::plane::ControlPlane;

/// The API of `plane`.
pub fn router(plane: ControlPlane) -> Router {
    let body_bytes_max = plane.config().registration.max_body_bytes.count();
    Router::new()
        .route("/healthz", get(probes::healthz))
        .route("/readyz", get(probes::readyz))
        .route("/metrics", get(probes::metrics))
        .route("/api/v1/backends", get(backends::list))
        .route("/api/v1/backends/{id}", get(backends::get).put(backends::put).delete(backends::delete))
        .route("/api/v1/backends/{id}/stats", post(backends::stats))
        .route("/api/v1/clusters", get(clusters::list))
        .route("/api/v1/config/routing", get(routing::get).put(routing::put))
        .route("/api/v1/config/routing/history", get(routing::history))
        .route("/api/v1/config/routing/rollback", post(routing::roll_back))
        .route("/api/v1/dataplane", get(dataplane::get))
        .route("/api/v1/snapshot", get(snapshot::get))
        .route("/api/v1/explain", post(explain::post))
        .route("/api/v1/targets", get(targets::list))
        .route("/api/v1/targets/{model}", get(targets::get))
        .route("/api/v1/targets/{model}/ranking", get(ranking::get))
        .fallback(no_such_path)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(plane)
}

async fn no_such_path(uri: Uri) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "not_found", format!("no such path: {}", uri.path()))
}

async fn method_not_allowed() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this path exists, but not with this method",
    )
}

#[expect(clippy::needless_pass_by_value, reason = "the layer's signature")]
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    tracing::error!(message, "a request to the admin API panicked");
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "a fault of this gateway; see its log")
        .into_response()
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_panic_costs_its_request_only() {
        async fn panics() {
            panic!("a panic of this test");
        }
        let app: Router = Router::new().route("/", get(panics)).layer(CatchPanicLayer::custom(panicked));
        for _ in 0..2 {
            let response = app.clone().oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        }
    }
}
