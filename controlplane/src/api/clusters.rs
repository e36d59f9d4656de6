//! `GET /api/v1/clusters`: every cluster of every target, routable or not, with all its backends.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State};
use serde::Serialize;

use super::snapshot::{ClusterView, cluster};
use crate::{names::RoutingKey, plane::ControlPlane, registry::ModelStatus};

#[derive(Debug, Serialize)]
pub(super) struct ClusterList {
    clusters: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    routing_key: Option<Arc<str>>,
    model: Arc<str>,
    cluster_id: Arc<str>,
    /// Whether it can be chosen now.
    is_routable: bool,
    members: Vec<Member>,
    /// As the data plane sees it; null while it is not routable.
    current: Option<ClusterView>,
}

#[derive(Debug, Serialize)]
struct Member {
    backend_id: Arc<str>,
    is_active: bool,
}

pub(super) async fn list(State(plane): State<ControlPlane>) -> Json<ClusterList> {
    let mut members: BTreeMap<_, Vec<Member>> = BTreeMap::new();
    for registration in plane.registry().backends() {
        let routing_key = registration.identity.routing_key.as_ref().map(RoutingKey::shared);
        for (name, model) in &registration.models {
            let key = (routing_key.clone(), name.shared(), registration.identity.cluster_id.shared());
            members.entry(key).or_default().push(Member {
                backend_id: registration.id.shared(),
                is_active: registration.is_available() && model.status == ModelStatus::Active,
            });
        }
    }
    let snapshot = plane.snapshot().load_full();
    let clusters = members
        .into_iter()
        .map(|((routing_key, model, cluster_id), members)| {
            let current = snapshot
                .target(routing_key.as_deref(), &model)
                .and_then(|target| target.clusters.iter().find(|other| other.cluster_id == cluster_id))
                .map(|of| cluster(&snapshot, of));
            let is_routable = current.is_some();
            Entry { routing_key, model, cluster_id, is_routable, members, current }
        })
        .collect();
    Json(ClusterList { clusters })
}
