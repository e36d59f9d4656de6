//! Errors of the API, in `OpenAI`'s shape, with the path of the fault in `param`.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::json_path::path_of;
use crate::registry::RegistryError;

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    param: Option<String>,
}

// === impl ApiError ===

impl ApiError {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), param: None }
    }

    /// Of a value that cannot be used.
    pub(super) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_value", message).at(param)
    }

    pub(super) fn at(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let kind = if self.status.is_client_error() { "invalid_request_error" } else { "server_error" };
        let body = json!({
            "error": { "message": self.message, "type": kind, "code": self.code, "param": self.param }
        });
        (self.status, Json(body)).into_response()
    }
}

impl From<RegistryError> for ApiError {
    fn from(error: RegistryError) -> Self {
        let message = error.to_string();
        match error {
            RegistryError::NotFound { .. } => {
                Self::new(StatusCode::NOT_FOUND, "backend_not_found", message).at("id")
            }
            RegistryError::IdentityChanged { field, .. } => {
                Self::new(StatusCode::CONFLICT, "identity_changed", message).at(field)
            }
            RegistryError::Static { .. } => {
                Self::new(StatusCode::CONFLICT, "static_backend", message).at("id")
            }
            RegistryError::TooManyBackends { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_backends", message)
            }
            RegistryError::ModelCount { .. } => Self::invalid("models", message),
            RegistryError::UnknownModel { ref model } => Self::invalid(path_of(["models", model]), message),
        }
    }
}
