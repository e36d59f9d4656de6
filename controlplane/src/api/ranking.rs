//! `GET /api/v1/targets/{model}/ranking?key=…`: where an affinity key goes, and where it goes next.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use stargate_routing::{
    Algorithm, AlgorithmKind, ClusterIndex, Method, Ranking, RendezvousWeight, Scalar, Seed, Target,
};

use super::{
    error::ApiError,
    targets::{Share, find, query},
};
use crate::{names::RoutingKey, plane::ControlPlane};

/// What is asked for. A seed or a weight other than the target's own asks for the ranking of a request that
/// selects them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    key: String,
    routing_key: Option<String>,
    seed: Option<String>,
    rendezvous_weight: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct RankingView {
    routing_key: Option<Arc<str>>,
    model: Arc<str>,
    slot: u32,
    seed: Box<str>,
    rendezvous_weight: &'static str,
    revision: u64,
    /// Whether decisions look the first ranks up; they are ranked directly otherwise, to the same result.
    has_table: bool,
    ranking: Vec<RankedCluster>,
    unranked: Vec<Unranked>,
}

#[derive(Debug, Serialize)]
struct RankedCluster {
    /// From 1.
    rank: usize,
    cluster_id: Arc<str>,
    #[serde(flatten)]
    share: Share,
    kv_free_tokens: Option<u64>,
}

/// A cluster of the target that no key goes to.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Unranked {
    cluster_id: Arc<str>,
    reason: &'static str,
}

pub(super) async fn get(
    State(plane): State<ControlPlane>,
    Path(model): Path<String>,
    question: Result<Query<Question>, QueryRejection>,
) -> Result<Json<RankingView>, ApiError> {
    let question = query(question)?;
    if question.key.is_empty() {
        return Err(ApiError::invalid("key", "an affinity key is not empty"));
    }
    let snapshot = plane.snapshot().load_full();
    let target = find(&snapshot, question.routing_key.as_deref(), &model)?;
    let (seed, weight) = ranked_by(target, &question)?;
    let table = target.ranking.as_deref().filter(|table| table.is_for(&seed, weight));
    let ranking = Ranking::new(target, &seed, weight, question.key.as_bytes());
    let ranked = ranking.to_vec();
    let rank = |(position, index): (usize, &ClusterIndex)| {
        let cluster = &target.clusters[index.0];
        RankedCluster {
            rank: position + 1,
            cluster_id: cluster.cluster_id.clone(),
            share: Share::of(cluster, *index, weight, table),
            kv_free_tokens: cluster.stats.kv_free_tokens().map(|tokens| tokens.0),
        }
    };
    Ok(Json(RankingView {
        routing_key: target.name.routing_key.clone(),
        model: target.name.model.clone(),
        slot: ranking.slot().number(),
        seed: seed.as_str().into(),
        rendezvous_weight: weight.as_str(),
        revision: target.ranking_revision,
        has_table: table.is_some(),
        ranking: ranked.iter().enumerate().map(rank).collect(),
        unranked: unranked(&plane, target, &ranked),
    }))
}

/// The seed and weight asked for, each else the target's own.
fn ranked_by(target: &Target, question: &Question) -> Result<(Seed, RendezvousWeight), ApiError> {
    let algorithm = &target.policy.method.algorithm;
    let own = algorithm.ranked_by();
    if own.is_none() && question.seed.is_none() && question.rendezvous_weight.is_none() {
        let message = format!(
            "{} ranks no clusters; seed= or rendezvous_weight= ask for the ranking of a request that selects \
             pulsar with it",
            algorithm.kind().as_str()
        );
        return Err(ApiError::new(StatusCode::CONFLICT, "no_ranking", message).at("model"));
    }
    let seed = question.seed.as_deref().map(Seed::new);
    let weight = question.rendezvous_weight.as_deref().map(weight_of).transpose()?;
    Ok((
        seed.unwrap_or_else(|| own.map_or_else(Seed::default, |(seed, _)| seed.clone())),
        weight.unwrap_or_else(|| own.map_or_else(Default::default, |(_, weight)| weight)),
    ))
}

/// The weight of this name, as a method reads it.
fn weight_of(name: &str) -> Result<RendezvousWeight, ApiError> {
    let field = [("rendezvous_weight", Scalar::from(name))];
    match Method::with_fields(AlgorithmKind::Pulsar, field).map(|method| method.algorithm) {
        Ok(Algorithm::Pulsar(parameters)) => Ok(parameters.weight),
        Ok(_) => Ok(RendezvousWeight::default()),
        Err(error) => Err(ApiError::invalid(error.field.clone(), error.to_string())),
    }
}

/// Clusters that have no weight, or no active backend.
fn unranked(plane: &ControlPlane, target: &Target, ranked: &[ClusterIndex]) -> Vec<Unranked> {
    let mut unranked: BTreeSet<Unranked> = (0..target.clusters.len())
        .filter(|index| !ranked.contains(&ClusterIndex(*index)))
        .map(|index| Unranked { cluster_id: target.clusters[index].cluster_id.clone(), reason: "no_weight" })
        .collect();
    for registration in plane.registry().backends() {
        let identity = &registration.identity;
        let routing_key = identity.routing_key.as_ref().map(RoutingKey::as_str);
        let cluster_id = identity.cluster_id.shared();
        if routing_key == target.name.routing_key.as_deref()
            && registration.models.contains_key(&*target.name.model)
            && target.clusters.binary_search_by(|other| other.cluster_id.cmp(&cluster_id)).is_err()
        {
            unranked.insert(Unranked { cluster_id, reason: "not_routable" });
        }
    }
    unranked.into_iter().collect()
}
