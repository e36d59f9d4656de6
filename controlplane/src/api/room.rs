//! What of a cluster's room requests that wait here may take: a gateway's part of what a report shows, as
//! docs/routing.md has it under "A share of the room".
//!
//! The rule is the decision core's; this asks it what it would say with one more running, and with another.

use serde::Serialize;
use stargate_routing::{Cluster, EffectiveStats, UnknownConcurrency, Widening};

/// The room of a cluster, as it is answered.
#[derive(Debug, Serialize)]
pub(super) struct RoomView {
    /// This gateway's part of it.
    share: f32,
    /// What decides whether its part is rounded up.
    draw: f32,
    /// Places: slots, and those in the queue that the target's algorithm allows. This, and those free by the report,
    /// are null while no number of slots is reported.
    places: Option<u64>,
    reported_free: Option<u64>,
    /// Places that requests which wait here would take now; null as above, where only the algorithm's word for
    /// unknown clusters counts.
    left: Option<u64>,
}

// === impl RoomView ===

impl RoomView {
    /// Of `cluster`, for requests without a priority.
    pub(super) fn of(cluster: &Cluster, Widening { max_queued, .. }: &Widening) -> Self {
        let stats = &cluster.stats;
        let slots = Some(stats.max_engine_concurrency).filter(|slots| *slots > 0);
        let places = slots.map(|slots| slots.saturating_add(*max_queued));
        let effective = EffectiveStats::new(stats, &cluster.load, 0);
        Self {
            share: stats.room_share.share,
            draw: stats.room_share.draw,
            places,
            reported_free: places.map(|places| places.saturating_sub(stats.num_running_queries)),
            left: places.map(|places| left(effective, *max_queued, places)),
        }
    }
}

/// How many more, `places` at most, find room one after another.
fn left(mut stats: EffectiveStats<'_>, max_queued: u64, places: u64) -> u64 {
    let running = stats.num_running_queries;
    let mut finds_room_after = |more: u64| {
        stats.num_running_queries = running.saturating_add(more);
        stats.has_room(max_queued, UnknownConcurrency::Full, true)
    };
    // Where one finds no room, nobody after it does: a search in halves.
    let (mut low, mut high) = (0, places);
    while low < high {
        let middle = low + (high - low) / 2;
        if finds_room_after(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
