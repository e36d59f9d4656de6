//! Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018): HAProxy's `hash-balance-factor`,
//! Envoy's of the ring hash.
//!
//! Each cluster has 150 points on a ring (`points`). A session goes to the first cluster from its own point on that has
//! fewer requests in flight than the ceiling of `load_factor` (1.25, a usual setting; those proxies have none by
//! default) times the mean, the new request counted in. In flight are this gateway's own, as in proxies: each bounds
//! what it sends itself.
//!
//! Left out: weights. Where all below the bound have failed for a request, the first that has not is taken.

use std::rc::Rc;

use anyhow::ensure;
use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Asked, Baseline, Choice, View, candidates::is_eligible};

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    load_factor: f64,
    points: u32,
}

/// Where clusters are, and keys: the same for all gateways.
pub(super) struct Ring {
    seed: u64,
    /// By position.
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    position: u64,
    cluster: u32,
}

pub(super) struct BoundedLoads {
    load_factor: f64,
    ring: Rc<Ring>,
}

// === impl Parameters ===

impl Default for Parameters {
    fn default() -> Self {
        Self { load_factor: 1.25, points: 150 }
    }
}

impl Parameters {
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        let Self { load_factor, points } = *self;
        ensure!(
            load_factor.is_finite() && load_factor >= 1.0,
            "load_factor is {load_factor}; it is at least 1"
        );
        ensure!((1..=1024).contains(&points), "points is {points}; it is within 1 to 1024");
        Ok(())
    }
}

// === impl Ring ===

impl Ring {
    pub(super) fn new(parameters: Parameters, clusters: usize, seed: u64) -> Self {
        let point = |cluster: u32, number: u32| {
            let name = (u64::from(cluster) << 32 | u64::from(number)).to_le_bytes();
            Point { position: xxh3_64_with_seed(&name, seed), cluster }
        };
        let clusters = 0..clusters as u32;
        let mut points: Vec<Point> = clusters
            .flat_map(|cluster| (0..parameters.points).map(move |number| point(cluster, number)))
            .collect();
        points.sort_unstable();
        Self { seed, points }
    }

    /// The clusters of all points from the session's own on, around the ring.
    fn from(&self, session: u32) -> impl Iterator<Item = usize> + '_ {
        let position = xxh3_64_with_seed(&session.to_le_bytes(), self.seed);
        let at = self.points.partition_point(|point| point.position < position);
        let (before, after) = self.points.split_at(at);
        after.iter().chain(before).map(|point| point.cluster as usize)
    }
}

// === impl BoundedLoads ===

impl BoundedLoads {
    pub(super) fn new(parameters: Parameters, ring: Rc<Ring>) -> Self {
        Self { load_factor: parameters.load_factor, ring }
    }

    /// Requests that a cluster may have in flight with the one that is to be sent.
    fn bound(&self, view: &View<'_>) -> u64 {
        let routable = view.clusters.iter().filter(|cluster| cluster.is_routable);
        let (count, in_flight) = routable
            .fold((0_u64, 0), |(count, in_flight), cluster| (count + 1, in_flight + cluster.in_flight));
        (self.load_factor * (in_flight + 1) as f64 / count.max(1) as f64).ceil() as u64
    }
}

impl Baseline for BoundedLoads {
    fn choose(&mut self, view: &View<'_>, request: &Asked<'_>, _rng: &mut fastrand::Rng) -> Choice {
        let bound = self.bound(view);
        let from = || self.ring.from(request.prompt.session);
        let is_below = |cluster: &usize| view.clusters[*cluster].in_flight < bound;
        let may_take = |cluster: &usize| is_eligible(view, request, *cluster);
        let cluster =
            from().find(|cluster| is_below(cluster) && may_take(cluster)).or_else(|| from().find(may_take));
        let Some(cluster) = cluster else { return Choice::Full };
        let home = from().find(|cluster| view.clusters[*cluster].is_routable);
        Choice::Send { cluster, is_overflow: home != Some(cluster) }
    }
}

#[cfg(test)]
mod tests;
