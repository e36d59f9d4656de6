//! What a decision means for a request: it has its place, it is held, or it is refused.

use std::time::Duration;

use crate::{UnavailableReason, WaitReason};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling<P> {
    /// It has a place.
    Placed(P),
    /// It waits.
    Held(Hold),
    /// It is turned away.
    Refused(Refused),
}

/// A wait for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// When, counted from the request's arrival, it is decided again though nothing has happened.
    pub until: Duration,
    /// What is waited for.
    pub reason: WaitedFor,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitedFor {
    /// For a moment that is known.
    Opening(WaitReason),
    /// For something to change.
    Change(UnavailableReason),
}

/// Why a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nothing can serve it, and it does not wait until something can.
    Unavailable(UnavailableReason),
    /// It has waited as long as it may.
    Expired(Hold),
    /// It cannot get its first token within its SLO any more, whatever becomes free.
    SloUnreachable {
        /// What that takes from now on, at best.
        best: Duration,
        /// The SLO, counted from its arrival.
        slo: Duration,
    },
}

// === impl Ruling ===

impl<P> Ruling<P> {
    /// With another word for the place.
    pub fn map<Q>(self, place: impl FnOnce(P) -> Q) -> Ruling<Q> {
        match self {
            Self::Placed(taken) => Ruling::Placed(place(taken)),
            Self::Held(hold) => Ruling::Held(hold),
            Self::Refused(refused) => Ruling::Refused(refused),
        }
    }
}

// === impl WaitedFor ===

impl WaitedFor {
    /// The value of the metric label `reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opening(reason) => reason.as_str(),
            Self::Change(reason) => reason.as_str(),
        }
    }
}
