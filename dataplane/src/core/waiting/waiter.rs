//! One request that waits: what it is decided by, and where its outcome is put.

use std::{
    cell::{Cell, RefCell},
    fmt,
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use stargate_routing::{
    Claim, Exclusions, Hold, Refused, RoutingRequest, TargetName, Ticket, WaitedFor, Waits,
};

use super::WaitRoom;
use crate::{
    core::placing::{Placement, Routed, refusal},
    error::Refusal,
};

/// What a wait comes to.
pub(super) type Outcome = Result<Placement, Refusal>;

/// A request that waits.
pub(crate) struct Waiter {
    routed: Routed,
    /// Without its affinity key, which is below.
    request: RoutingRequest<'static>,
    affinity_key: Option<Box<[u8]>>,
    exclusions: Exclusions,
    arrived: Duration,
    hold: Cell<Hold>,
    outcome: Cell<Option<Outcome>>,
    waker: RefCell<Option<Waker>>,
}

/// A request that was decided to wait, and has not joined those who do.
pub(crate) struct Newcomer {
    pub(crate) target: Arc<TargetName>,
    pub(crate) waiter: Rc<Waiter>,
    /// Of the snapshot that it was decided on.
    pub(crate) version: u64,
}

/// The waiting itself: ends with the outcome. Dropping it takes the request out of its queue, and gives back a
/// place that it was handed meanwhile.
#[derive(Debug)]
pub(crate) struct WaiterHandle {
    waiter: Rc<Waiter>,
    target: Arc<TargetName>,
    ticket: Ticket,
    room: Rc<WaitRoom>,
}

// === impl Waiter ===

impl fmt::Debug for Waiter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Waiter({:?})", self.hold.get())
    }
}

impl Waits for Waiter {
    fn due(&self) -> Duration {
        self.arrived.saturating_add(self.routed.patience().due(self.hold.get()))
    }
}

impl Waiter {
    /// A request that is held.
    pub(crate) fn new(routed: &Routed, claim: &Claim<'_>, hold: Hold) -> Rc<Self> {
        Rc::new(Self {
            routed: routed.clone(),
            request: RoutingRequest { affinity_key: None, is_waiting: true, ..claim.request },
            affinity_key: claim.request.affinity_key.map(Box::from),
            exclusions: claim.exclusions.clone(),
            arrived: claim.arrived,
            hold: Cell::new(hold),
            outcome: Cell::new(None),
            waker: RefCell::default(),
        })
    }

    /// When it has waited as long as it may.
    pub(crate) fn deadline(&self) -> Duration {
        self.arrived.saturating_add(self.routed.patience().deadline)
    }

    pub(super) fn claim(&self) -> Claim<'_> {
        let request = RoutingRequest { affinity_key: self.affinity_key.as_deref(), ..self.request };
        self.routed.claim(request, &self.exclusions, self.arrived)
    }

    pub(super) fn routed(&self) -> &Routed {
        &self.routed
    }

    pub(super) fn priority(&self) -> u32 {
        self.request.priority
    }

    pub(super) fn arrived(&self) -> Duration {
        self.arrived
    }

    /// How it is held, by its last decision.
    pub(super) fn hold(&self) -> Hold {
        self.hold.get()
    }

    pub(super) fn goes_on_waiting(&self, hold: Hold) {
        self.hold.set(hold);
    }

    /// Ends the wait. Call it once the waiter is out of its queue.
    pub(super) fn hand_over(&self, outcome: Outcome) {
        self.outcome.set(Some(outcome));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

// === impl WaiterHandle ===

impl WaiterHandle {
    pub(super) fn new(
        waiter: Rc<Waiter>,
        target: Arc<TargetName>,
        ticket: Ticket,
        room: Rc<WaitRoom>,
    ) -> Self {
        Self { waiter, target, ticket, room }
    }

    /// What it waits for, or did at last.
    pub(crate) fn reason(&self) -> WaitedFor {
        self.waiter.hold().reason
    }

    /// The refusal for having waited too long.
    pub(crate) fn expired(&self) -> Refusal {
        let expired = Refused::Expired(self.waiter.hold());
        let elapsed = self.waiter.claim().elapsed_at(self.room.decider.time(Instant::now()));
        refusal(expired, self.waiter.routed.patience(), &self.target.model, elapsed)
    }
}

impl Future for WaiterHandle {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        if let Some(outcome) = self.waiter.outcome.take() {
            return Poll::Ready(outcome);
        }
        let mut waker = self.waiter.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for WaiterHandle {
    fn drop(&mut self) {
        self.room.leave(&self.target, self.ticket);
    }
}
