//! `GET /api/v1/targets`: what requests can ask for, how each is routed, how its keys are shared out, and what load
//! decisions see on its clusters and why.
//!
//! A target is named in a path by its model, percent-encoded since models may have slashes, and
//! `?routing_key=` names its scope.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use stargate_routing::{Cluster, ClusterIndex, RankingTable, Slot, Snapshot, Target};

use super::{
    error::ApiError,
    room::RoomView,
    snapshot::{ClusterView, cluster},
};
use crate::{
    names::excerpt,
    plane::ControlPlane,
    registry::{Registry, Reporting},
};

type Plane = State<ControlPlane>;

#[derive(Debug, Serialize)]
pub(super) struct TargetList {
    targets: Vec<Summary>,
}

/// A target in short.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    routing_key: Option<Arc<str>>,
    model: Arc<str>,
    algorithm: &'static str,
    /// Routable ones.
    clusters: usize,
    /// Null where the algorithm ranks nothing.
    ranking: Option<RankingSummary>,
}

/// A target with its clusters.
#[derive(Debug, Serialize)]
pub(super) struct Detail {
    #[serde(flatten)]
    summary: Summary,
    shares: Vec<ClusterShare>,
    /// What this gateway's attempts are stamped with; null while there is no data plane.
    gateway: Option<String>,
    load: Vec<ClusterLoad>,
}

/// The load of a routable cluster, with the reason for its accounting.
#[derive(Debug, Serialize)]
struct ClusterLoad {
    #[serde(flatten)]
    view: ClusterView,
    reporting: ReportingView,
    /// What requests that wait may take; null where the algorithm holds nobody to it.
    room: Option<RoomView>,
}

/// The active backends, by how far their stats follow what is sent to them: reservations count where none is polled.
#[derive(Debug, Default, Serialize)]
struct ReportingView {
    hands_over: Vec<Arc<str>>,
    change_driven: Vec<Arc<str>>,
    polled: Vec<Arc<str>>,
}

#[derive(Debug, Serialize)]
struct RankingSummary {
    seed: Box<str>,
    rendezvous_weight: &'static str,
    slots: usize,
    /// Changes with the clusters and the weights held.
    revision: u64,
    has_table: bool,
    /// This and the next are null until the table is built.
    memory_bytes: Option<usize>,
    share_deviation: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ClusterShare {
    cluster_id: Arc<str>,
    #[serde(flatten)]
    share: Share,
}

/// What a cluster gets of the keys, and by which weights.
#[derive(Debug, Serialize)]
pub(super) struct Share {
    /// Ranked by: null where the cluster has none.
    weight_held: Option<f64>,
    weight_reported: Option<f64>,
    /// Slots that it is first of; this and the next are null without a table.
    first_slots: Option<usize>,
    fair_slots: Option<f64>,
}

/// `?routing_key=`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scope {
    pub(super) routing_key: Option<String>,
}

pub(super) async fn list(State(plane): Plane) -> Json<TargetList> {
    let snapshot = plane.snapshot().load_full();
    Json(TargetList { targets: snapshot.targets().iter().map(summary).collect() })
}

pub(super) async fn get(
    State(plane): Plane,
    Path(model): Path<String>,
    scope: Result<Query<Scope>, QueryRejection>,
) -> Result<Json<Detail>, ApiError> {
    let scope = query(scope)?;
    let snapshot = plane.snapshot().load_full();
    let target = find(&snapshot, scope.routing_key.as_deref(), &model)?;
    let ranked_by = target.policy.method.algorithm.ranked_by();
    let shares = ranked_by.map_or_else(Vec::new, |(_, weight)| {
        let share = |(index, cluster): (usize, &Cluster)| ClusterShare {
            cluster_id: cluster.cluster_id.clone(),
            share: Share::of(cluster, ClusterIndex(index), weight, target.ranking.as_deref()),
        };
        target.clusters.iter().enumerate().map(share).collect()
    });
    let widening = target.policy.method.algorithm.widening();
    let registry = plane.registry();
    let load = |of: &Cluster| ClusterLoad {
        view: cluster(&snapshot, of),
        reporting: ReportingView::of(of, &target.name.model, &registry),
        room: widening.map(|widening| RoomView::of(of, widening)),
    };
    Ok(Json(Detail {
        summary: summary(target),
        shares,
        gateway: plane.gateway_id().map(|id| id.to_string()),
        load: target.clusters.iter().map(load).collect(),
    }))
}

/// The target of this name.
pub(super) fn find<'a>(
    snapshot: &'a Snapshot,
    routing_key: Option<&str>,
    model: &str,
) -> Result<&'a Target, ApiError> {
    snapshot.target(routing_key, model).ok_or_else(|| {
        let scope = routing_key.map_or_else(String::new, |key| format!(" in the scope {:?}", excerpt(key)));
        let message = format!("no backend is registered for the model {:?}{scope}", excerpt(model));
        ApiError::new(StatusCode::NOT_FOUND, "target_not_found", message).at("model")
    })
}

/// The parameters, or what is wrong with them.
pub(super) fn query<T>(parameters: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    match parameters {
        Ok(Query(parameters)) => Ok(parameters),
        Err(rejection) => {
            Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_query", rejection.body_text()))
        }
    }
}

fn summary(target: &Target) -> Summary {
    let algorithm = &target.policy.method.algorithm;
    let table = target.ranking.as_deref();
    Summary {
        routing_key: target.name.routing_key.clone(),
        model: target.name.model.clone(),
        algorithm: algorithm.kind().as_str(),
        clusters: target.clusters.len(),
        ranking: algorithm.ranked_by().map(|(seed, weight)| RankingSummary {
            seed: seed.as_str().into(),
            rendezvous_weight: weight.as_str(),
            slots: Slot::COUNT,
            revision: target.ranking_revision,
            has_table: table.is_some(),
            memory_bytes: table.map(RankingTable::memory_bytes),
            share_deviation: table.map(RankingTable::share_deviation),
        }),
    }
}

// === impl ReportingView ===

impl ReportingView {
    /// Of those backends of `cluster` that are still registered.
    fn of(cluster: &Cluster, model: &str, registry: &Registry) -> Self {
        let mut view = Self::default();
        for backend in &cluster.backends {
            let registration = registry.by_uid(backend.uid);
            let Some(model) = registration.and_then(|registration| registration.models.get(model)) else {
                continue;
            };
            let kind = match model.stats.reporting() {
                Reporting::HandsOver => &mut view.hands_over,
                Reporting::ChangeDriven => &mut view.change_driven,
                Reporting::Polled => &mut view.polled,
            };
            kind.push(backend.backend_id.clone());
        }
        view
    }
}

// === impl Share ===

impl Share {
    /// By `weight`, of whose rankings `table` is.
    pub(super) fn of(
        cluster: &Cluster,
        index: ClusterIndex,
        weight: stargate_routing::RendezvousWeight,
        table: Option<&RankingTable>,
    ) -> Self {
        let reported = stargate_routing::RendezvousWeights::reported(&cluster.stats);
        Self {
            weight_held: cluster.rendezvous.get(weight),
            weight_reported: reported.get(weight),
            first_slots: table.map(|table| table.first_ranks(index)),
            fair_slots: table.map(|table| table.fair_share(index)),
        }
    }
}
