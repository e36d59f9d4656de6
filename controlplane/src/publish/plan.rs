//! Which targets there are, by what is registered, and who is active in each of their clusters.

use std::{collections::BTreeMap, sync::Arc};

use stargate_routing::TargetName;

use crate::{
    names::RoutingKey,
    registry::{Model, ModelStatus, Registration, Registry},
};

/// What a target is made of now: all its clusters, with their active backends only.
pub(super) type Plan<'a> = BTreeMap<TargetName, PlannedClusters<'a>>;

/// The clusters of one target, by their ids.
pub(super) type PlannedClusters<'a> = BTreeMap<Arc<str>, Vec<(&'a Registration, &'a Model)>>;

/// What `registry` makes of it.
pub(super) fn plan(registry: &Registry) -> Plan<'_> {
    let mut plan = Plan::new();
    for registration in registry.backends() {
        let routing_key = registration.identity.routing_key.as_ref().map(RoutingKey::shared);
        for (model_name, model) in &registration.models {
            let name = TargetName { routing_key: routing_key.clone(), model: model_name.shared() };
            let active =
                plan.entry(name).or_default().entry(registration.identity.cluster_id.shared()).or_default();
            if registration.is_available() && model.status == ModelStatus::Active {
                active.push((registration, model));
            }
        }
    }
    plan
}
