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

use stargate_routing::{Exclusions, RoutingRequest, TargetName, Ticket};

use super::WaitRoom;
use crate::{
    error::Refusal,
    observation::WaitedFor,
    stages::choose::{Choice, Claim, Routed},
};

/// What a wait comes to.
type Outcome = Result<Choice, Refusal>;

/// A request that waits.
pub(crate) struct Waiter {
    routed: Routed,
    /// Without its affinity key, which is below.
    request: RoutingRequest<'static>,
    affinity_key: Option<Box<[u8]>>,
    exclusions: Exclusions,
    arrived: Instant,
    /// When, counted from the arrival, the decision may be another with nothing else changed.
    until: Cell<Duration>,
    reason: Cell<WaitedFor>,
    outcome: Cell<Option<Outcome>>,
    waker: RefCell<Option<Waker>>,
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
        write!(formatter, "Waiter(for {:?} until {:?})", self.reason.get(), self.until.get())
    }
}

impl Waiter {
    /// A request whose decision is to wait until `until` for `reason`.
    pub(crate) fn new(claim: &Claim<'_>, until: Duration, reason: WaitedFor) -> Rc<Self> {
        let RoutingRequest { input_tokens, input_tokens_given, affinity_key, priority, slo, elapsed, .. } =
            claim.request;
        Rc::new(Self {
            routed: claim.routed.clone(),
            request: RoutingRequest {
                input_tokens,
                input_tokens_given,
                affinity_key: None,
                priority,
                slo,
                elapsed,
                is_waiting: true,
            },
            affinity_key: affinity_key.map(Box::from),
            exclusions: claim.exclusions.clone(),
            arrived: claim.arrived,
            until: Cell::new(until),
            reason: Cell::new(reason),
            outcome: Cell::new(None),
            waker: RefCell::default(),
        })
    }

    pub(super) fn claim(&self) -> Claim<'_> {
        Claim {
            routed: &self.routed,
            request: RoutingRequest { affinity_key: self.affinity_key.as_deref(), ..self.request },
            exclusions: &self.exclusions,
            arrived: self.arrived,
        }
    }

    pub(super) fn routed(&self) -> &Routed {
        &self.routed
    }

    pub(super) fn priority(&self) -> u32 {
        self.request.priority
    }

    pub(super) fn arrived(&self) -> Instant {
        self.arrived
    }

    /// When it has waited as long as it may.
    pub(crate) fn deadline(&self) -> Instant {
        self.arrived + self.routed.patience().deadline
    }

    /// When it is to be decided again, whatever happens.
    pub(super) fn due(&self) -> Instant {
        self.deadline().min(self.arrived.checked_add(self.until.get()).unwrap_or_else(|| self.deadline()))
    }

    /// Until when it waits for what, by its last decision.
    pub(super) fn waits(&self) -> (Duration, WaitedFor) {
        (self.until.get(), self.reason.get())
    }

    pub(super) fn goes_on_waiting(&self, until: Duration, reason: WaitedFor) {
        self.until.set(until);
        self.reason.set(reason);
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
        self.waiter.reason.get()
    }

    /// The refusal for having waited too long.
    pub(crate) fn expired(&self) -> Refusal {
        let (until, reason) = self.waiter.waits();
        self.waiter.claim().expired(until, reason, &self.target.model, Instant::now())
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
        self.room.leave(&self.target, self.ticket, Instant::now());
    }
}
