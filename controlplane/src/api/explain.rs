//! `POST /api/v1/explain`: what would become of a request now, and why of every cluster.
//!
//! The request's headers go in. They are read and decided on by the code that serves requests, on the snapshot
//! that the cores decide by; nothing is sent and nothing counted.

use std::time::Duration;

use axum::{
    Json,
    body::Bytes,
    extract::{State, rejection::BytesRejection},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stargate_dataplane::{ErrorCode, ReadRequest, RequestRefusal, read_request};
use stargate_routing::{
    AdmissionRefusal, Algorithm, Candidacy, Decision, DecisionState, Exclusions, ExplainedCluster,
    Explanation, Method, Seconds, Target, explain,
};

use super::{body, error::ApiError};
use crate::{config::MethodView, plane::ControlPlane};

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    /// The request's headers, names to values.
    #[serde(default)]
    headers: Headers,
    /// Its body, where that is to be read too; any JSON.
    #[serde(default)]
    body: Option<Value>,
    /// Since its arrival.
    #[serde(default)]
    elapsed_ms: u32,
    /// Clusters that have failed within it.
    #[serde(default)]
    excluded: Vec<String>,
}

type Headers = std::collections::BTreeMap<String, String>;

/// The answer.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    snapshot_version: u64,
    request: Value,
    method: Value,
    decision: Value,
    /// Why it would not be let in; null when it would be.
    refused_admission: Option<&'static str>,
    best_ttft_ms: Option<f64>,
    queue_delay_allowed_ms: Option<f64>,
    affinity_wait_ends_ms: Option<f64>,
    clusters: Vec<Value>,
    /// What an operator may want to know of the configuration, sentences.
    notes: Vec<String>,
}

pub(super) async fn post(
    State(plane): State<ControlPlane>,
    request: Result<Bytes, BytesRejection>,
) -> Result<Json<Answer>, ApiError> {
    let question: Question = body::parse(request, plane.config().registration.max_body_bytes.count())?;
    let snapshot = plane.snapshot().load_full();
    let settings = plane.config().settings(Vec::new());
    let headers: Vec<(String, String)> = question.headers.into_iter().collect();
    let bytes = question.body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
    let read = read_request(&settings, &snapshot, &headers, &bytes).map_err(ApiError::from)?;
    let elapsed = Duration::from_millis(question.elapsed_ms.into());
    let exclusions = exclusions(read.target, &question.excluded)?;
    let request = read.routing_request(elapsed);
    let explained = explain(read.target, &read.method, &request, &exclusions, &mut DecisionState::new());
    Ok(Json(Answer {
        snapshot_version: snapshot.version,
        request: request_view(&read, &explained, question.elapsed_ms),
        method: json!(MethodView(&read.method)),
        decision: decision_view(read.target, &explained.decision),
        refused_admission: explained.admission.err().map(AdmissionRefusal::as_str),
        best_ttft_ms: explained.best_ttft.and_then(millis),
        queue_delay_allowed_ms: explained.queue_delay_allowed.and_then(millis),
        affinity_wait_ends_ms: explained.affinity_wait_ends.map(duration_millis),
        clusters: explained.clusters.iter().map(cluster_view).collect(),
        notes: notes(&plane, read.target, &read.method),
    }))
}

fn exclusions(target: &Target, excluded: &[String]) -> Result<Exclusions, ApiError> {
    let mut exclusions = Exclusions::default();
    for (index, id) in excluded.iter().enumerate() {
        let at = format!("excluded[{index}]");
        let cluster = target.clusters.iter().find(|cluster| *cluster.cluster_id == **id);
        let cluster = cluster.ok_or_else(|| {
            ApiError::invalid(&at, format!("no routable cluster of this target is called {id:?}"))
        })?;
        if !exclusions.exclude_cluster(cluster.uid) {
            let most = Exclusions::CAPACITY;
            return Err(ApiError::invalid(
                at,
                format!("at most {most} clusters can fail within one request"),
            ));
        }
    }
    Ok(exclusions)
}

fn request_view(read: &ReadRequest<'_>, explained: &Explanation, elapsed_ms: u32) -> Value {
    let (input_tokens, is_given) = read.input_tokens();
    json!({
        "routing_key": read.target.name.routing_key,
        "model": read.model(),
        "input_tokens": input_tokens.0,
        "input_tokens_are_estimated": !is_given,
        "affinity_key": read.affinity_key().map(String::from_utf8_lossy),
        "slot": explained.slot,
        "slo_ms": read.slo.map(|slo| slo.0),
        "elapsed_ms": elapsed_ms,
    })
}

fn decision_view(target: &Target, decision: &Decision) -> Value {
    match decision {
        Decision::Selected(selected) => json!({
            "selected": {
                "cluster_id": target.clusters[selected.cluster.0].cluster_id,
                "backend_id": selected.backend.backend_id,
                "rank": selected.rank,
                "is_fallback": selected.is_fallback,
                "after_kv_skip": selected.after_kv_skip,
                "queue_delay_ms": selected.queue_delay.map(duration_millis),
            }
        }),
        Decision::Wait(wait) => json!({
            "wait": { "until_ms": duration_millis(wait.until), "reason": wait.reason.as_str() }
        }),
        Decision::Unavailable(reason) => json!({ "unavailable": { "reason": reason.as_str() } }),
    }
}

fn cluster_view(row: &ExplainedCluster) -> Value {
    json!({
        "cluster_id": row.cluster_id,
        "verdict": row.verdict.as_str(),
        "is_excluded": row.is_excluded,
        "num_running_queries": row.num_running_queries,
        "max_engine_concurrency": row.max_engine_concurrency,
        "queue_size": row.queue_size,
        "queued_input_size": row.queued_input.0,
        "rtt_ms": millis(row.rtt),
        "queue_delay_ms": millis(row.queue_delay),
        "prefill_ms": millis(row.prefill),
        "ttft_ms": millis(row.ttft),
        "kv_cache_free_tokens": row.kv_free.map(|tokens| tokens.0),
        "is_kv_feasible": row.is_kv_feasible,
        "weight": row.weight,
        "rank": row.rank,
        "is_in_group": row.is_in_group,
        "band": row.band.map(|band| json!({
            "number": band.number, "opens_at_ms": duration_millis(band.opens_at)
        })),
        "in_group": row.in_group.as_ref().map(candidacy_view),
        "in_open_set": row.in_open_set.as_ref().map(candidacy_view),
        "cost": row.cost.filter(|cost| cost.is_finite()),
    })
}

fn candidacy_view(candidacy: &Candidacy) -> Value {
    json!({
        "prefill_ms": millis(candidacy.prefill),
        "bucket_ttft_ms": millis(candidacy.bucket_ttft),
        "bucket": candidacy.bucket,
        "unlocks_at_ms": candidacy.unlocks_at.map(duration_millis),
        "is_unlocked": candidacy.is_unlocked,
        "max_queued": candidacy.max_queued,
        "has_capacity": candidacy.has_capacity,
        "is_queue_delay_allowed": candidacy.is_queue_delay_allowed,
        "is_sampled": candidacy.is_sampled,
    })
}

/// What the measured reporting of the backends says of the method's limits.
fn notes(plane: &ControlPlane, target: &Target, method: &Method) -> Vec<String> {
    let widening = match &method.algorithm {
        Algorithm::WaitAndWiden(parameters) => &parameters.widening,
        Algorithm::PulsarWaitAndWiden(parameters) => &parameters.widening,
        _ => return Vec::new(),
    };
    let registry = plane.registry();
    let mut notes = Vec::new();
    for cluster in &target.clusters {
        for backend in &cluster.backends {
            let Some(model) = registry
                .by_uid(backend.uid)
                .and_then(|registration| registration.models.get(&*target.name.model))
            else {
                continue;
            };
            let interval = &model.report_interval;
            if let (Some(needed), Some(every), Some(completions)) =
                (interval.max_queued_needed(cluster.stats.rtt), interval.interval(), interval.completions())
                && needed > widening.max_queued
            {
                notes.push(format!(
                    "backend {} reports every {:.0} ms and completes {completions:.1} requests meanwhile: with \
                     max_queued = {} its queue can drain unseen; {needed} keeps it busy",
                    backend.backend_id,
                    every.as_secs_f64() * 1e3,
                    widening.max_queued,
                ));
            }
        }
    }
    notes
}

/// `None` for what has no bound: JSON has no number for it.
fn millis(seconds: Seconds) -> Option<f64> {
    seconds.0.is_finite().then_some(seconds.0 * 1e3)
}

fn duration_millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

impl From<RequestRefusal> for ApiError {
    /// What the request itself would be answered with, as the answer to the question about it.
    fn from(refusal: RequestRefusal) -> Self {
        let row = ErrorCode::row(refusal.code);
        let status = StatusCode::from_u16(row.status).unwrap_or(StatusCode::BAD_REQUEST);
        Self::new(status, row.code, refusal.message).at("headers")
    }
}
