//! Makes the snapshot that the registry's state comes to, and publishes it where it differs from the one in force.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use stargate_dataplane::{GatewayId, SharedSnapshot, rtt::Rtt};
use stargate_routing::{Accounting, Backend, Cluster, RendezvousWeights, Snapshot, Target, TargetName};
use tokio::time::Instant;

use super::{
    held,
    inclusions::NewInclusions,
    kept::Kept,
    plan::{PlannedClusters, plan},
    room::is_alone,
    tables::{BuiltTable, TableJob},
};
use crate::{
    aggregate::{Member, aggregate, assumed_input_tps},
    config::Policies,
    registry::Registry,
};

/// Publishes snapshots.
#[derive(Debug)]
pub struct Publisher {
    routing: Policies,
    shared: SharedSnapshot,
    kept: Kept,
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

// === impl Publisher ===

impl Publisher {
    /// Publishes into a snapshot of its own, which is empty at first.
    pub fn new(routing: Policies) -> Self {
        Self {
            routing,
            shared: SharedSnapshot::default(),
            kept: Kept::default(),
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
        self.kept.follow(&plan);
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

    fn target(
        &mut self,
        name: &TargetName,
        clusters: &PlannedClusters<'_>,
        inclusions: &mut NewInclusions<'_>,
    ) -> Target {
        let kept = self.kept.get_mut(name).expect("followed before");
        let policy = self.routing.policy(&name.model).clone();
        let models = || clusters.values().flatten().map(|(_, model)| *model);
        let assumed = assumed_input_tps(models());
        let is_alone = is_alone(self.gateway, models());
        let now = Instant::now();
        let mut clusters: Vec<Cluster> = clusters
            .iter()
            .filter(|(_, active)| !active.is_empty())
            .map(|(cluster_id, active)| {
                let of = kept.clusters.get_mut(cluster_id).expect("followed before");
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
                    inclusions.add(of.uid, registration.backend_uid(), model);
                }
                let stats = aggregate(&members);
                of.held = held::follow(of.held, RendezvousWeights::reported(&stats));
                let report = members.iter().map(|member| member.report).max().unwrap_or_default();
                of.draw.follow(report, stats.rtt.into(), now, &mut self.rng);
                Cluster {
                    uid: of.uid,
                    cluster_id: cluster_id.clone(),
                    id_hash: of.id_hash,
                    rendezvous: of.held,
                    stats,
                    load: of.load.clone(),
                    backends,
                }
            })
            .collect();
        let share = kept.share.follow(&clusters, is_alone);
        let follows = |cluster: &&mut Cluster| cluster.stats.accounting == Accounting::Reservations;
        for cluster in clusters.iter_mut().filter(follows) {
            cluster.stats.room_share = kept.clusters[&cluster.cluster_id].draw.of(share);
        }
        let ranking_revision = kept.table.revise(&clusters);
        Target {
            name: kept.name.clone(),
            round_robin: kept.round_robin.clone(),
            clusters,
            ranking_revision,
            ranking: kept.table.current(policy.method.algorithm.ranked_by()),
            policy,
        }
    }

    /// The next table that the current snapshot lacks, each target in its turn.
    pub fn next_table(&mut self) -> Option<TableJob> {
        let snapshot = self.shared.load_full();
        let kept = &self.kept;
        let lacking = || {
            let of = |target: &Target| kept.get(&target.name)?.table.lacking(&snapshot, target);
            snapshot.targets().iter().filter_map(of)
        };
        let next = lacking()
            .find(|job| self.last_table.as_ref().is_none_or(|last| job.target() > last))
            .or_else(|| lacking().next())?;
        // Noted before it is built: one that cannot be must not keep the others waiting.
        self.last_table = Some(next.target().clone());
        Some(next)
    }

    /// Keeps a table for the next snapshots of its target, if that is there still.
    pub fn adopt(&mut self, built: &BuiltTable) {
        if let Some(kept) = self.kept.get_mut(built.target()) {
            kept.table.adopt(built);
        }
    }
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
