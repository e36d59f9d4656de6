//! `/api/v1/config/routing`: the routing document in force; replaced as a whole, checked without effect,
//! looked up in its history and rolled back.
//!
//! The version is the entity tag. A change that names the tag it knows (`If-Match`) is refused when another one
//! is in force, so that of two operators who change at the same time the second one notices.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{
        Query, State,
        rejection::{BytesRejection, QueryRejection},
    },
    http::{
        HeaderMap, StatusCode,
        header::{CONTENT_TYPE, ETAG, IF_MATCH},
    },
    response::{AppendHeaders, IntoResponse},
};
use serde::{Deserialize, Serialize};

use super::{body, error::ApiError};
use crate::{
    config::{Document, Routing, Violation},
    live_routing::{Applied, Change, ChangeError, Precondition, Source, Version},
    plane::ControlPlane,
};

type Plane = State<ControlPlane>;

/// What a PUT may ask for besides.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// Check only.
    #[serde(default)]
    dry_run: bool,
}

/// What to roll back to.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RollBack {
    version: Option<u64>,
}

/// What a change came to, or would.
#[derive(Debug, Serialize)]
struct AppliedView {
    version: u64,
    applied_at_unix_ms: u64,
    dry_run: bool,
    /// Whether it differs from what was in force.
    is_changed: bool,
    /// Whether models without an entry are treated otherwise than before.
    is_default_changed: bool,
    /// Models that are treated otherwise than before: those with an entry, and those that are served now.
    changed_models: Vec<Arc<str>>,
    warnings: Vec<String>,
}

/// A version in the history.
#[derive(Debug, Serialize)]
struct VersionView {
    version: u64,
    applied_at_unix_ms: u64,
    source: Source,
    is_active: bool,
    document: Arc<Document>,
}

#[derive(Debug, Serialize)]
pub(super) struct History {
    /// Newest first.
    versions: Vec<VersionView>,
}

pub(super) async fn get(State(plane): Plane) -> impl IntoResponse {
    let routing = plane.routing();
    let current = routing.current();
    (tag(current.number), Json(current.document.clone()))
}

pub(super) async fn put(
    State(plane): Plane,
    options: Result<Query<Options>, QueryRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, ApiError> {
    let change = async {
        let Query(Options { dry_run }) =
            options.map_err(|rejection| ApiError::invalid("dry_run", rejection.body_text()))?;
        let bytes_max = plane.config().registration.max_body_bytes.count();
        let body = body::received(body, bytes_max)?;
        let document = read(&headers, &body)?;
        Ok((dry_run, document, precondition(&headers)?))
    };
    let (dry_run, document, precondition) =
        change.await.inspect_err(|_: &ApiError| plane.count_refused_routing())?;
    let change = Change::Put(Arc::new(document));
    let applied = if dry_run {
        plane.plan_routing(change, &precondition)?
    } else {
        plane.change_routing(change, precondition).await?
    };
    Ok(answer(&plane, applied, dry_run))
}

pub(super) async fn history(State(plane): Plane) -> Json<History> {
    let routing = plane.routing();
    let active = routing.current().number;
    let view = |version: &Version| VersionView {
        version: version.number,
        applied_at_unix_ms: version.applied_at_unix_ms,
        source: version.source,
        is_active: version.number == active,
        document: version.document.clone(),
    };
    Json(History { versions: routing.versions().rev().map(view).collect() })
}

pub(super) async fn roll_back(
    State(plane): Plane,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, ApiError> {
    let body = body::received(body, plane.config().registration.max_body_bytes.count())?;
    let RollBack { version } = if body.is_empty() { RollBack::default() } else { body::from_json(&body)? };
    let applied = plane.change_routing(Change::RollBack(version), precondition(&headers)?).await?;
    Ok(answer(&plane, applied, false))
}

fn answer(plane: &ControlPlane, applied: Applied, dry_run: bool) -> impl IntoResponse + use<> {
    let Applied { version, is_new, is_default_changed, models } = applied;
    let view = AppliedView {
        version: version.number,
        applied_at_unix_ms: version.applied_at_unix_ms,
        dry_run,
        is_changed: is_new,
        is_default_changed,
        changed_models: models,
        warnings: version.document.warnings(&plane.config().backends),
    };
    // What was only checked is no version that a client could name.
    let in_force = if dry_run { plane.routing().current().number } else { version.number };
    (tag(in_force), Json(view))
}

fn tag(version: u64) -> AppendHeaders<[(axum::http::HeaderName, String); 1]> {
    AppendHeaders([(ETAG, format!("\"{version}\""))])
}

/// The document in a body: TOML where the content type says so, else JSON.
fn read(headers: &HeaderMap, body: &[u8]) -> Result<Document, ApiError> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_toml = content_type
        .split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/toml"));
    let routing = if is_toml {
        let invalid = |problem| ApiError::new(StatusCode::BAD_REQUEST, "invalid_toml", problem);
        let text = std::str::from_utf8(body).map_err(|_| invalid("it is not UTF-8".to_owned()))?;
        Routing::from_toml(text).map_err(invalid)?
    } else {
        body::from_json(body)?
    };
    routing.read().map_err(ApiError::from)
}

/// What `If-Match` demands: `"3"`, several of these, or `*` for any.
fn precondition(headers: &HeaderMap) -> Result<Precondition, ApiError> {
    let mut versions = Vec::new();
    for value in headers.get_all(IF_MATCH) {
        for tag in value.to_str().unwrap_or("?").split(',').map(str::trim) {
            if tag == "*" {
                return Ok(Precondition::None);
            }
            let number = tag.trim_start_matches("W/").trim_matches('"').parse();
            versions.push(number.map_err(|_| {
                let message = format!("If-Match: found {tag:?}, expected a version such as \"3\", or *");
                ApiError::new(StatusCode::BAD_REQUEST, "invalid_header", message)
            })?);
        }
    }
    Ok(if versions.is_empty() { Precondition::None } else { Precondition::OneOf(versions) })
}

impl From<Violation> for ApiError {
    fn from(violation: Violation) -> Self {
        let Violation { key, found, allowed } = violation;
        Self::invalid(key.clone(), format!("{key}: found {found}, allowed: {allowed}"))
    }
}

impl From<ChangeError> for ApiError {
    fn from(error: ChangeError) -> Self {
        let message = error.to_string();
        match error {
            ChangeError::Conflict { .. } => {
                Self::new(StatusCode::PRECONDITION_FAILED, "version_conflict", message).at("if-match")
            }
            ChangeError::NoSuchVersion { .. } => {
                Self::new(StatusCode::NOT_FOUND, "version_not_found", message).at("version")
            }
            ChangeError::NothingBefore { .. } => {
                Self::new(StatusCode::CONFLICT, "nothing_to_roll_back", message)
            }
            ChangeError::NotKept { .. } => {
                tracing::error!(message, "a change of the routing configuration is not applied");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "state_not_written", message)
            }
        }
    }
}
