//! From the registry to snapshots, published only when something in them changed.
//!
//! What must outlive a snapshot lives here: a (target, cluster) pair keeps its identity and its in-flight
//! counters from its first backend's registration to its last one's end, whatever health checks and stats do;
//! so do the weights that it is ranked by ([`held`]), its draw of the room for those who wait ([`room`]) and a target's
//! ranking table ([`tables`]). What is published is the cache of what is published next: the backends and the
//! inclusions in it are taken over while they are the same.

mod held;
mod inclusions;
mod room;
mod tables;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use stargate_dataplane::{GatewayId, SharedSnapshot, rtt::Rtt};
use stargate_routing::{
    Accounting, Backend, Cluster, ClusterLoad, ClusterUid, RendezvousWeights, RoundRobinCursor, Snapshot,
    Target, TargetName,
};

use tokio::time::Instant;

pub use self::tables::{BuiltTable, TableJob};
use self::{
    inclusions::NewInclusions,
    room::{HeldDraw, HeldShare, is_alone},
    tables::TableSlot,
};
use crate::{
    aggregate::{Member, aggregate},
    config::Policies,
    learn::ASSUMED_INPUT_TPS,
    registry::{Model, ModelStatus, Registration, Registry},
};

/// Publishes snapshots.
#[derive(Debug)]
pub struct Publisher {
    routing: Policies,
    shared: SharedSnapshot,
    slots: BTreeMap<TargetName, TargetSlot>,
    last_cluster: u64,
    /// Whose table was handed out to be built last.
    last_table: Option<Arc<TargetName>>,
    /// Whose attempts are looked for in reports; `None` while no data plane is there.
    gateway: Option<GatewayId>,
    /// The registry's `backends_revision` that the backends were published by.
    backends_revision: u64,
    /// Who is to know of new backends before anyone can connect to them.
    rtt: Option<Rtt>,
    /// What shares of room are rounded by.
    rng: fastrand::Rng,
}

/// What a target keeps across snapshots.
#[derive(Debug)]
struct TargetSlot {
    name: Arc<TargetName>,
    round_robin: Arc<RoundRobinCursor>,
    clusters: BTreeMap<Arc<str>, ClusterSlot>,
    share: HeldShare,
    table: TableSlot,
}

/// What a (target, cluster) keeps across snapshots.
#[derive(Clone, Debug)]
struct ClusterSlot {
    uid: ClusterUid,
    id_hash: u64,
    load: Arc<ClusterLoad>,
    held: RendezvousWeights,
    draw: HeldDraw,
}

/// What a target is made of now: all its clusters, with their active backends only.
type Plan<'a> = BTreeMap<TargetName, BTreeMap<Arc<str>, Vec<(&'a Registration, &'a Model)>>>;

// === impl Publisher ===

impl Publisher {
    /// Publishes into a snapshot of its own, which is empty at first.
    pub fn new(routing: Policies) -> Self {
        Self {
            routing,
            shared: SharedSnapshot::default(),
            slots: BTreeMap::new(),
            last_cluster: 0,
            last_table: None,
            gateway: None,
            backends_revision: 0,
            rtt: None,
            rng: fastrand::Rng::new(),
        }
    }

    /// Where it publishes.
    pub fn shared(&self) -> SharedSnapshot {
        self.shared.clone()
    }

    /// From now on `rtt` follows each snapshot before it is there for all; first the current one.
    pub fn set_rtt(&mut self, rtt: Rtt) {
        rtt.follow(&self.shared.load());
        self.rtt = Some(rtt);
    }

    /// Takes what holds for each model from the next publication on.
    pub fn set_routing(&mut self, routing: Policies) {
        self.routing = routing;
    }

    /// Takes whose attempts count, from the next publication on.
    pub fn set_gateway(&mut self, gateway: GatewayId) {
        self.gateway = Some(gateway);
    }

    /// Publishes the registry's state, unless nothing changed. True when it did.
    pub fn publish(&mut self, registry: &Registry) -> bool {
        let plan = plan(registry);
        self.follow(&plan);
        let current = self.shared.load_full();
        let mut inclusions = NewInclusions::new(self.gateway, &current.inclusions);
        let targets: Vec<Target> =
            plan.iter().map(|(name, clusters)| self.target(name, clusters, &mut inclusions)).collect();
        let inclusions = inclusions.finish();
        let backends = self.backends(registry, current.backends.as_ref());
        let is_same = current.version > 0
            && current.backends.as_ref().is_some_and(|old| Arc::ptr_eq(old, &backends))
            && current.inclusions.is_copy_of(&inclusions)
            && current.targets().len() == targets.len()
            && current.targets().iter().zip(&targets).all(|(old, new)| is_same_target(old, new));
        if is_same {
            return false;
        }
        let mut snapshot = Snapshot::new(current.version + 1, unix_ms(), targets);
        snapshot.backends = Some(backends);
        snapshot.inclusions = inclusions;
        if let Some(rtt) = &self.rtt {
            rtt.follow(&snapshot);
        }
        self.shared.store(Arc::new(snapshot));
        true
    }

    /// All backends with an address, ordered by uid; `former` while they are the same.
    fn backends(&mut self, registry: &Registry, former: Option<&Arc<[Arc<Backend>]>>) -> Arc<[Arc<Backend>]> {
        let revision = std::mem::replace(&mut self.backends_revision, registry.backends_revision());
        if let Some(former) = former.filter(|_| revision == self.backends_revision) {
            return former.clone();
        }
        let mut backends: Vec<Arc<Backend>> =
            registry.backends().filter_map(|registration| registration.backend().cloned()).collect();
        backends.sort_unstable_by_key(|backend| backend.uid);
        match former {
            Some(former) if is_same_list(former, &backends) => former.clone(),
            _ => backends.into(),
        }
    }

    /// Ends what has no registration left and begins what is new.
    fn follow(&mut self, plan: &Plan<'_>) {
        self.slots.retain(|name, slot| {
            plan.get(name).is_some_and(|clusters| {
                slot.clusters.retain(|cluster_id, _| clusters.contains_key(cluster_id));
                true
            })
        });
        for (name, clusters) in plan {
            let slot = self.slots.entry(name.clone()).or_insert_with(|| TargetSlot {
                name: Arc::new(name.clone()),
                round_robin: Arc::default(),
                clusters: BTreeMap::new(),
                share: HeldShare::default(),
                table: TableSlot::default(),
            });
            for cluster_id in clusters.keys() {
                slot.clusters.entry(cluster_id.clone()).or_insert_with(|| {
                    self.last_cluster += 1;
                    ClusterSlot {
                        uid: ClusterUid(self.last_cluster),
                        id_hash: Cluster::hash_id(cluster_id),
                        load: Arc::default(),
                        held: RendezvousWeights::default(),
                        draw: HeldDraw::default(),
                    }
                });
            }
        }
    }

    fn target(
        &mut self,
        name: &TargetName,
        clusters: &BTreeMap<Arc<str>, Vec<(&Registration, &Model)>>,
        inclusions: &mut NewInclusions<'_>,
    ) -> Target {
        let slot = self.slots.get_mut(name).expect("followed before");
        let policy = self.routing.policy(&name.model).clone();
        let models = || clusters.values().flatten().map(|(_, model)| *model);
        let assumed = assumed_input_tps(models());
        let is_alone = is_alone(self.gateway, models());
        let now = Instant::now();
        let mut clusters: Vec<Cluster> = clusters
            .iter()
            .filter(|(_, active)| !active.is_empty())
            .map(|(cluster_id, active)| {
                let kept = slot.clusters.get_mut(cluster_id).expect("followed before");
                let members: Vec<Member<'_>> = active
                    .iter()
                    .map(|(registration, model)| Member {
                        stats: &model.stats,
                        report: model.report,
                        input_tps: model.input_tps().unwrap_or(assumed),
                        rtt: registration.routed_rtt(),
                    })
                    .collect();
                let backends: Box<[Arc<Backend>]> =
                    active.iter().filter_map(|(registration, _)| registration.backend().cloned()).collect();
                for (registration, model) in active {
                    inclusions.add(kept.uid, registration.backend_uid(), model);
                }
                let stats = aggregate(&members);
                kept.held = held::follow(kept.held, RendezvousWeights::reported(&stats));
                let report = members.iter().map(|member| member.report).max().unwrap_or_default();
                kept.draw.follow(report, stats.rtt.into(), now, &mut self.rng);
                Cluster {
                    uid: kept.uid,
                    cluster_id: cluster_id.clone(),
                    id_hash: kept.id_hash,
                    rendezvous: kept.held,
                    stats,
                    load: kept.load.clone(),
                    backends,
                }
            })
            .collect();
        let share = slot.share.follow(&clusters, is_alone);
        let follows = |cluster: &&mut Cluster| cluster.stats.accounting == Accounting::Reservations;
        for cluster in clusters.iter_mut().filter(follows) {
            cluster.stats.room_share = slot.clusters[&cluster.cluster_id].draw.of(share);
        }
        let ranking_revision = slot.table.revise(&clusters);
        Target {
            name: slot.name.clone(),
            round_robin: slot.round_robin.clone(),
            clusters,
            ranking_revision,
            ranking: slot.table.current(policy.method.algorithm.ranked_by()),
            policy,
        }
    }
}

fn plan(registry: &Registry) -> Plan<'_> {
    let mut plan = Plan::new();
    for registration in registry.backends() {
        let routing_key = registration.identity.routing_key.as_ref().map(crate::names::RoutingKey::shared);
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

/// What a backend whose throughput nobody knows is taken for: as fast as the fastest known one of its target,
/// so that it gets requests, and with them an estimate of its own. A lower assumption would keep it from ever
/// being tried beside a known one.
pub(crate) fn assumed_input_tps<'a>(models: impl Iterator<Item = &'a Model>) -> f64 {
    models.filter_map(Model::input_tps).reduce(f64::max).unwrap_or(ASSUMED_INPUT_TPS)
}

fn is_same_target(old: &Target, new: &Target) -> bool {
    old.name == new.name
        && old.policy == new.policy
        && old.ranking_revision == new.ranking_revision
        && old.ranking.as_ref().map(Arc::as_ptr) == new.ranking.as_ref().map(Arc::as_ptr)
        && old.clusters.len() == new.clusters.len()
        && old.clusters.iter().zip(&new.clusters).all(|(old, new)| {
            old.uid == new.uid && old.stats == new.stats && is_same_list(&old.backends, &new.backends)
        })
}

fn is_same_list(old: &[Arc<Backend>], new: &[Arc<Backend>]) -> bool {
    old.len() == new.len() && old.iter().zip(new).all(|(old, new)| Arc::ptr_eq(old, new))
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_millis() as u64
}

#[cfg(test)]
mod tests;
