//! `GET /api/v1/snapshot`: what the data plane routes by at this moment.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::{Value, json};
use stargate_routing::{
    Accounting, Backend, Cluster, ClusterStats, EffectiveStats, Inclusion, Nanos, Snapshot, Target, Tokens,
    TokensPerSecond,
};

use crate::{config::MethodView, plane::ControlPlane};

#[derive(Debug, Serialize)]
pub(super) struct SnapshotView {
    version: u64,
    published_at_unix_ms: u64,
    targets: Vec<TargetView>,
}

#[derive(Debug, Serialize)]
struct TargetView {
    routing_key: Option<Arc<str>>,
    model: Arc<str>,
    method: Value,
    affinity_from_leading_messages: usize,
    ranking_revision: u64,
    has_ranking_table: bool,
    clusters: Vec<ClusterView>,
}

/// A routable cluster of a target.
#[derive(Debug, Serialize)]
pub(super) struct ClusterView {
    cluster_id: Arc<str>,
    uid: u64,
    reported: Value,
    /// Weights held for rankings; 0 where there is none.
    rendezvous: Value,
    /// How what this gateway sent is added to what is reported.
    accounting: &'static str,
    in_flight: Value,
    reserved: Value,
    effective: Value,
    backends: Vec<Value>,
}

pub(super) async fn get(State(plane): State<ControlPlane>) -> Json<SnapshotView> {
    let snapshot = plane.snapshot().load_full();
    Json(SnapshotView {
        version: snapshot.version,
        published_at_unix_ms: snapshot.published_at_unix_ms,
        targets: snapshot.targets().iter().map(|of| target(&snapshot, of)).collect(),
    })
}

fn target(snapshot: &Snapshot, target: &Target) -> TargetView {
    TargetView {
        routing_key: target.name.routing_key.clone(),
        model: target.name.model.clone(),
        method: json!(MethodView(&target.policy.method)),
        affinity_from_leading_messages: target.policy.affinity_from_leading_messages,
        ranking_revision: target.ranking_revision,
        has_ranking_table: target.ranking.is_some(),
        clusters: target.clusters.iter().map(|of| cluster(snapshot, of)).collect(),
    }
}

/// `cluster`, which is of a target of `snapshot`.
pub(super) fn cluster(snapshot: &Snapshot, cluster: &Cluster) -> ClusterView {
    ClusterView {
        cluster_id: cluster.cluster_id.clone(),
        uid: cluster.uid.0,
        reported: reported(&cluster.stats),
        rendezvous: json!({
            "max_input_tps": cluster.rendezvous.max_input_tps,
            "last_mean_input_tps": cluster.rendezvous.last_mean_input_tps,
        }),
        accounting: match cluster.stats.accounting {
            Accounting::InFlight => "in_flight",
            Accounting::Reservations => "reservations",
        },
        in_flight: json!({
            "running": cluster.load.running(),
            "queued": cluster.load.queued(),
            "queued_input_tokens": cluster.load.queued_input().0,
        }),
        reserved: json!({
            "attempts": cluster.load.reserved(),
            "input_tokens": cluster.load.reserved_input().0,
            "ended": cluster.load.ended(),
        }),
        effective: effective(cluster),
        backends: cluster
            .backends
            .iter()
            .map(|of| backend(of, snapshot.inclusions.get(cluster.uid, of.uid).map(Arc::as_ref)))
            .collect(),
    }
}

/// What decisions compare, as far as the load that this gateway adds changes it.
fn effective(cluster: &Cluster) -> Value {
    let Cluster { stats, load, .. } = cluster;
    let of_priority = |priority| EffectiveStats::new(stats, load, priority);
    let most_urgent = of_priority(0);
    let reserved = match stats.accounting {
        Accounting::InFlight => Tokens(0),
        Accounting::Reservations => load.reserved_input(),
    };
    json!({
        "queue_size": most_urgent.queue_size,
        "num_running_queries": most_urgent.num_running_queries,
        "queued_input_size": most_urgent.queued_input.0,
        "total_query_input_size": stats.total_query_input.saturating_add(reserved).0,
        "queue_time_estimate_ms_by_priority": estimates(stats, |priority, _| of_priority(priority).backlog().0),
    })
}

/// The published estimates, each as `seconds` makes them of the priority and what was published.
fn estimates(stats: &ClusterStats, seconds: impl Fn(u32, Nanos) -> f64) -> serde_json::Map<String, Value> {
    let entry = |(priority, published): &(u32, Nanos)| {
        (priority.to_string(), json!(seconds(*priority, *published) * 1e3))
    };
    stats.queue_time_estimates.iter().map(entry).collect()
}

fn reported(stats: &ClusterStats) -> Value {
    let rate = |rate: TokensPerSecond| rate.0;
    let tokens = |tokens: Tokens| tokens.0;
    json!({
        "last_mean_input_tps": rate(stats.last_mean_input_tps),
        "max_input_tps": stats.max_input_tps.map(rate),
        "output_tps": rate(stats.output_tps),
        "max_output_tps": rate(stats.max_output_tps),
        "queue_size": stats.queue_size,
        "queued_input_size": tokens(stats.queued_input),
        "input_processing_queries": stats.input_processing_queries,
        "output_generation_queries": stats.output_generation_queries,
        "num_running_queries": stats.num_running_queries,
        "max_engine_concurrency": stats.max_engine_concurrency,
        "total_query_input_size": tokens(stats.total_query_input),
        "queue_time_estimate_ms_by_priority": estimates(stats, |_, published| published.as_secs_f64()),
        "kv_cache_capacity_tokens": stats.kv_capacity.map(tokens),
        "kv_cache_used_tokens": stats.kv_used.map(tokens),
        "kv_cache_free_tokens": stats.kv_free.map(tokens),
        "rtt_ms": stats.rtt.as_secs_f64() * 1e3,
    })
}

fn backend(backend: &Backend, inclusion: Option<&Inclusion>) -> Value {
    json!({
        "uid": backend.uid.0,
        "backend_id": backend.backend_id,
        "address": backend.address.to_string(),
        "authority": backend.authority,
        "base_path": backend.base_path,
        "publishes_stats": backend.publishes_stats,
        "handover": inclusion.map(handover),
    })
}

/// Which of this gateway's attempts a report includes, in short: exceptions are only counted.
fn handover(inclusion: &Inclusion) -> Value {
    let cores = inclusion.cores.iter().map(|core| {
        (core.core.to_string(), json!({ "through": core.through, "exceptions": core.except.len() }))
    });
    json!({ "report": inclusion.report, "cores": cores.collect::<serde_json::Map<_, _>>() })
}
