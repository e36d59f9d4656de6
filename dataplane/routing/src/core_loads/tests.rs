//! Release, expiry and handover of one reservation never meet: a core does one after the other, so there are no
//! interleavings of them to explore. What orders of them come to is tried by random histories; what
//! cores share is tried under loom.

#[cfg(not(loom))]
mod bursts;
#[cfg(not(loom))]
mod ends;
#[cfg(not(loom))]
mod histories;
#[cfg(loom)]
mod loom;
#[cfg(not(loom))]
mod model;

use std::{rc::Rc, sync::Arc, time::Duration};

use super::*;
use crate::{
    BackendRtt, BackendUid, ClusterStats, Nanos, RoutingRequest, RttSource, Running, Tokens, testing::fleet,
};

pub(super) const fn us(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// A core among so many, which share clusters.
pub(super) fn core(number: u32, cores: usize) -> Rc<CoreLoads> {
    Rc::new(CoreLoads::new(number, cores, CoreLoads::TTL))
}

/// A backend this far away; `None` where that was not measured.
pub(super) fn backend(uid: u64, publishes_stats: bool, rtt: Option<Duration>) -> Arc<Backend> {
    let distance = BackendRtt::default();
    if let Some(rtt) = rtt {
        distance.set(RttSource::TcpInfo, Nanos(rtt.as_nanos() as u64));
    }
    Arc::new(Backend {
        uid: BackendUid(uid),
        backend_id: uid.to_string().into(),
        cluster_id: "c".into(),
        address: ([127, 0, 0, 1], 9000).into(),
        authority: "a".into(),
        base_path: "".into(),
        publishes_stats,
        rtt: Arc::new(distance),
    })
}

/// A cluster whose stats are accounted for by reservations.
pub(super) fn reserving(stats: ClusterStats, backend: &Arc<Backend>) -> Cluster {
    let stats = ClusterStats { accounting: Accounting::Reservations, ..stats };
    Cluster { backends: [backend.clone()].into(), ..fleet::cluster(1, 1, stats) }
}

/// Takes a place whatever the load is, at the cluster's first backend.
#[cfg(not(loom))]
pub(super) fn send(loads: &Rc<CoreLoads>, cluster: &Cluster, tokens: u64, now: Duration) -> Running {
    loads.advance(now);
    let request = RoutingRequest { input_tokens: Tokens(tokens), ..RoutingRequest::default() };
    let stats = loads.unflushed().effective(cluster, 0);
    let place = loads.take_place(cluster, &request, &stats, None).unwrap();
    loads.hold(place, cluster.uid, &cluster.backends[0])
}
