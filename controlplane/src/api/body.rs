//! Reads a request's JSON body; an error has the path of the fault.

use axum::{body::Bytes, extract::rejection::BytesRejection, http::StatusCode};
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::{error::ApiError, json_path::path_of};

/// Numbers that JSON does not have, but that are written all the same (Python's `json` does so by default).
const NOT_FINITE: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];

/// The value that `body` holds.
pub(super) fn parse<T: DeserializeOwned>(
    body: Result<Bytes, BytesRejection>,
    bytes_max: usize,
) -> Result<T, ApiError> {
    let body = received(body, bytes_max)?;
    from_json(&body)
}

/// The body, once it has arrived.
pub(super) fn received(body: Result<Bytes, BytesRejection>, bytes_max: usize) -> Result<Bytes, ApiError> {
    body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "payload_too_large",
            format!("the body is over {bytes_max} bytes (registration.max_body_bytes)"),
        ),
        status => ApiError::new(status, "invalid_body", rejection.body_text()),
    })
}

/// The value that JSON text holds.
pub(super) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = path_of(error.path().iter().filter_map(segment));
        fault(body, error.inner(), path)
    })?;
    deserializer.end().map_err(|error| fault(body, &error, String::new()))?;
    Ok(value)
}

fn fault(body: &[u8], error: &serde_json::Error, path: String) -> ApiError {
    let is_number = error.to_string().starts_with("number out of range") || is_not_finite(body, error);
    let api_error = match error.classify() {
        Category::Data => ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_value", error.to_string()),
        _ if is_number => ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "invalid_value",
            format!("not a finite number, at line {} column {}", error.line(), error.column()),
        ),
        _ => ApiError::new(StatusCode::BAD_REQUEST, "invalid_json", error.to_string()),
    };
    if path.is_empty() { api_error } else { api_error.at(path) }
}

/// Whether the parser stopped in a number that is not finite.
fn is_not_finite(body: &[u8], error: &serde_json::Error) -> bool {
    let Some(line) = error.line().checked_sub(1).and_then(|line| body.split(|byte| *byte == b'\n').nth(line))
    else {
        return false;
    };
    // The column counts bytes and is that of the last one read: within the word, or just before it.
    let at = error.column().saturating_sub(2);
    (at..=at + 2).any(|start| {
        line.get(start..).is_some_and(|rest| NOT_FINITE.iter().any(|word| rest.starts_with(word)))
    })
}

fn segment(segment: &serde_path_to_error::Segment) -> Option<String> {
    use serde_path_to_error::Segment as S;
    match segment {
        S::Seq { index } => Some(format!("[{index}]")),
        S::Map { key } => Some(key.clone()),
        S::Enum { variant } => Some(variant.clone()),
        S::Unknown => None,
    }
}
