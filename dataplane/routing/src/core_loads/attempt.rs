//! One attempt and its reservation, from selection to its end.

use super::{
    chain::{Linked, Links},
    clusters::ClusterKey,
};
use crate::{
    Accounting, BackendUid, ClusterStats, RoutingRequest, Tokens,
    load::{Amount, Change, Lane, charged},
};

/// What a request adds to the load of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    pub(super) input: Tokens,
    pub(super) is_reserved: bool,
    /// Where the cluster publishes estimates by priority; asked once, so that what was added is what is taken away.
    pub(super) lane: Option<Lane>,
}

/// A place taken in a cluster, at no backend yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(super) cluster: ClusterKey,
    pub(super) charge: Charge,
}

/// An attempt. It lies in its core's slab for as long as its handle lives.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) cluster: ClusterKey,
    pub(super) backend: BackendUid,
    /// Its number at its backend, from 1; 0 where attempts are not numbered.
    pub(super) sequence: u64,
    input: Tokens,
    lane: Option<Lane>,
    is_queued: bool,
    pub(super) reservation: Reservation,
    /// When its reservation ends by time, in ticks of the wheel.
    pub(super) due: u64,
    links: Links,
}

/// How the reservation of an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reservation {
    /// Pending until its time comes: in the wheel.
    Timed,
    /// Pending until a report includes the attempt: in this list.
    Awaited(u32),
    /// The report that this list is about includes the attempt.
    Included(u32),
    /// Over, or never made.
    Over,
}

// === impl Charge ===

impl Charge {
    pub(crate) fn new(stats: &ClusterStats, request: &RoutingRequest<'_>) -> Self {
        let is_reserved = stats.accounting == Accounting::Reservations;
        let has_lane = is_reserved && stats.has_queue_time_estimates();
        Self {
            input: charged(request.input_tokens),
            is_reserved,
            lane: has_lane.then(|| Lane::of(request.priority)),
        }
    }

    /// What it changes.
    pub(crate) fn change(&self) -> Change {
        let entering = Amount::entering(self.input);
        let reserved = if self.is_reserved { entering } else { Amount::default() };
        Change { in_flight: entering, reserved, ended: 0, lane: self.lane }
    }
}

// === impl Attempt ===

impl Attempt {
    pub(super) fn new(Place { cluster, charge }: Place, backend: BackendUid) -> Self {
        Self {
            cluster,
            backend,
            sequence: 0,
            input: charge.input,
            lane: charge.lane,
            is_queued: true,
            reservation: Reservation::Over,
            due: 0,
            links: Links::default(),
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        matches!(self.reservation, Reservation::Timed | Reservation::Awaited(_))
    }

    /// What the end of its pending reservation changes.
    pub(super) fn unreserving(&self) -> Change {
        let reserved = Amount::entering(self.input).reversed();
        Change { reserved, lane: self.lane, ..Change::default() }
    }

    /// What the first byte of the answer changes; nothing at a later one.
    pub(super) fn answering(&mut self) -> Option<Change> {
        let is_first = std::mem::replace(&mut self.is_queued, false);
        is_first.then(|| Change { in_flight: Amount::answered(self.input), ..Change::default() })
    }

    /// What its end changes, but for its reservation.
    pub(super) fn leaving(&mut self) -> Change {
        let answered = self.answering().unwrap_or_default();
        Change { in_flight: answered.in_flight.plus(Amount::LEAVING), ..Change::default() }
    }
}

// === impl Reservation ===

impl Reservation {
    /// The list that it waits in, or has left for being included.
    pub(super) fn list(self) -> Option<u32> {
        match self {
            Self::Awaited(list) | Self::Included(list) => Some(list),
            Self::Timed | Self::Over => None,
        }
    }
}

impl Linked for Attempt {
    fn links(&self) -> Links {
        self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}
