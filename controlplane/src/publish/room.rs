//! What of the room that reports show is this gateway's for those who wait ([`RoomShare`]).
//!
//! Its share of a target is its part of what the target's clusters run: gateways do not know of each other, but together
//! they run what the engines report. The part wobbles with every request, so it is held until it has left the held one by
//! more than that: a snapshot is not published for noise, and a gateway that is alone has all of it, though a report may
//! come a moment later than the answer that it counts still.

use std::time::Duration;

use stargate_dataplane::GatewayId;
use stargate_routing::{Accounting, Cluster, RoomShare};
use tokio::time::Instant;

use crate::registry::Model;

/// How far the part may be from the held share, relative to that, before it takes its place.
const HYSTERESIS: f32 = 0.10;

/// A target's share, as it is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldShare(f32);

/// The draw of a (target, cluster).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldDraw {
    draw: f32,
    /// The latest report that it has seen.
    report: u64,
    drawn_at: Option<Instant>,
}

// === impl HeldShare ===

impl Default for HeldShare {
    fn default() -> Self {
        Self(1.0)
    }
}

impl HeldShare {
    /// The share by what `clusters` report now, and this gateway has in flight there. Only those count whose stats follow
    /// what is sent: in those of others nothing is shared.
    pub(super) fn follow(&mut self, clusters: &[Cluster], is_alone: bool) -> f32 {
        let follows = |cluster: &&Cluster| cluster.stats.accounting == Accounting::Reservations;
        let (mut ours, mut all) = (0_u64, 0_u64);
        for cluster in clusters.iter().filter(follows) {
            ours = ours.saturating_add(cluster.load.running());
            all = all.saturating_add(cluster.stats.num_running_queries);
        }
        // Above 0 also where it has nothing there yet: the first of its requests may have to wait.
        let part = if is_alone || all == 0 { 1.0 } else { (ours.max(1) as f64 / all as f64).min(1.0) as f32 };
        if (part - self.0).abs() > self.0 * HYSTERESIS {
            self.0 = part;
        }
        self.0
    }
}

// === impl HeldDraw ===

impl HeldDraw {
    /// Draws anew with a report that what was sent after the last draw has had the time to be in: a round trip. A draw for each report would let as many take the same place as reports come before it is taken.
    pub(super) fn follow(&mut self, report: u64, rtt: Duration, now: Instant, rng: &mut fastrand::Rng) {
        let is_new = std::mem::replace(&mut self.report, report) != report;
        let has_settled = self.drawn_at.is_none_or(|drawn_at| now.saturating_duration_since(drawn_at) >= rtt);
        if is_new && has_settled {
            (self.draw, self.drawn_at) = (rng.f32(), Some(now));
        }
    }

    /// What is published with this share.
    pub(super) fn of(self, share: f32) -> RoomShare {
        // Nothing is rounded where all of it is this gateway's.
        if share < 1.0 { RoomShare { share, draw: self.draw } } else { RoomShare::default() }
    }
}

/// Whether all that run what is sent here say so of whom, and name nobody but `gateway`.
pub(super) fn is_alone<'a>(gateway: Option<GatewayId>, mut models: impl Iterator<Item = &'a Model>) -> bool {
    let Some(gateway) = gateway else { return false };
    models.all(|model| model.stats.attempts.as_ref().is_some_and(|attempts| attempts.are_only_of(gateway)))
}

#[cfg(test)]
mod tests;
