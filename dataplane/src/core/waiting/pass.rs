//! Going through the waiters of a target in the order of service and deciding those whom an event may concern.
//!
//! Each event has its bound. A place that became free can serve one waiter, so the first that takes it ends the
//! search. Time concerns those who are due. A new snapshot concerns everybody, a slice of them at a time.

use std::time::{Duration, Instant};

use stargate_routing::{Target, Ticket};

use super::{Queue, WaitRoom, Waiter, shutting_down};
use crate::{core::Core, error::Refusal, stages::choose::Verdict};

/// Most waiters that are asked whether a free place is theirs. It may be for none of them; the others are asked
/// within 25 ms, with everybody.
const ASKED_MAX: usize = 256;
/// Most waiters that are decided without giving the core's connections their turn: about half a millisecond.
const SLICE: usize = 1024;
/// When the rest of them are decided.
const NEXT_SLICE: Duration = Duration::from_millis(1);

/// Whom a pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    /// Everybody.
    All,
    /// Those whose time has come.
    Due,
    /// Whoever can take one of so many free places.
    Freed(u32),
    /// Those who are to be served before one of this priority who arrived then.
    AheadOf(u32, Duration),
}

/// Decides everybody who may be decided otherwise than before.
pub(super) fn serve_all(core: &Core, now: Instant) {
    let room = &core.waiting;
    if room.count.get() == 0 {
        return;
    }
    if room.has_rung.take() {
        // Before the snapshot is looked at, so that a later one rings again.
        room.bell.arm();
    }
    core.with_snapshot(|snapshot| {
        let is_new = room.version.replace(snapshot.version) != snapshot.version;
        let has_closed = room.has_closed(now);
        let time = room.time(now);
        let mut queues = room.queues.borrow_mut();
        for queue in queues.values_mut().filter(|queue| !queue.waiters.is_empty()) {
            let freed = std::mem::take(&mut queue.freed);
            queue.is_stale |= is_new || has_closed;
            let is_for_all = queue.is_stale || queue.resume.is_some();
            let is_due = queue.due <= time;
            if !is_for_all && !is_due && freed == 0 {
                continue;
            }
            let target = snapshot.target(queue.name.routing_key.as_deref(), &queue.name.model);
            if let Some(target) = target {
                // It may have ended and come back.
                queue.name.clone_from(&target.name);
            }
            if is_for_all {
                pass(core, queue, target, Whom::All, now);
                continue;
            }
            if is_due {
                pass(core, queue, target, Whom::Due, now);
            }
            if freed > 0 {
                pass(core, queue, target, Whom::Freed(freed), now);
            }
        }
    });
}

/// Decides those who are to be served before a request of this priority that arrived then and has just come. Whether one
/// of them has been served in its stead.
///
/// What has just come may take a place whatever this gateway's share of the room is, as it comes alone. That right passes
/// to the first of those ahead who can use it, or whoever comes would overtake all who wait for their share.
pub(crate) fn serve_ahead(
    core: &Core,
    target: &Target,
    priority: u32,
    arrived: Instant,
    now: Instant,
) -> bool {
    let room = &core.waiting;
    let mut queues = room.queues.borrow_mut();
    let Some(queue) = queues.get_mut(&*target.name) else { return false };
    pass(core, queue, Some(target), Whom::AheadOf(priority, room.time(arrived)), now) > 0
}

/// How many of them were given places.
fn pass(core: &Core, queue: &mut Queue, target: Option<&Target>, whom: Whom, now: Instant) -> u32 {
    let room = &*core.waiting;
    let time = room.time(now);
    queue.waiters.update(time);
    let from_start = || queue.waiters.first();
    let mut next = match (whom, queue.resume.take()) {
        (Whom::All, Some(resume)) => Some(resume),
        (Whom::All, None) => {
            queue.is_stale = false;
            from_start()
        }
        (_, resume) => {
            queue.resume = resume;
            from_start()
        }
    };
    let (mut asked, mut served) = (0, 0);
    let mut due = Duration::MAX;
    while let Some(ticket) = next {
        // After a pause the one to go on with may have left.
        let Some(waiter) = queue.waiters.get(ticket).cloned() else {
            next = queue.waiters.after(ticket);
            continue;
        };
        let is_over = match whom {
            Whom::All => asked == SLICE,
            Whom::Due => false,
            Whom::Freed(places) => served == places || asked == ASKED_MAX,
            Whom::AheadOf(priority, arrived) => {
                asked == ASKED_MAX || !queue.waiters.is_ahead(ticket, priority, arrived)
            }
        };
        if is_over {
            if whom == Whom::All {
                queue.resume = Some(ticket);
                due = time + NEXT_SLICE;
            }
            break;
        }
        if whom != Whom::Due || room.due(&waiter) <= time {
            asked += 1;
            let is_waiting = served > 0 || !matches!(whom, Whom::AheadOf(..));
            if let Some(outcome) = decide_again(core, queue, target, &waiter, is_waiting, now) {
                served += u32::from(outcome.is_ok());
                take_out(room, queue, ticket, time);
                waiter.hand_over(outcome);
                next = queue.waiters.after(ticket);
                continue;
            }
        }
        due = due.min(room.due(&waiter));
        next = queue.waiters.after(ticket);
    }
    if queue.is_stale {
        // Something happened between two slices: once more, from the start.
        due = due.min(time + NEXT_SLICE);
    }
    queue.due = match whom {
        Whom::All | Whom::Due => due,
        Whom::Freed(_) | Whom::AheadOf(..) => due.min(queue.due),
    };
    served
}

fn take_out(room: &WaitRoom, queue: &mut Queue, ticket: Ticket, time: Duration) {
    if queue.waiters.remove(ticket, time).is_some() {
        room.set_count(room.count.get() - 1);
    }
}

/// The outcome of a wait, if it ends now: as of one of many that wait, or of one that comes alone.
fn decide_again(
    core: &Core,
    queue: &Queue,
    target: Option<&Target>,
    waiter: &Waiter,
    is_waiting: bool,
    now: Instant,
) -> Option<Result<crate::stages::choose::Choice, Refusal>> {
    if core.waiting.has_closed(now) {
        return Some(Err(shutting_down(&queue.name)));
    }
    let mut claim = waiter.claim();
    claim.request.is_waiting = is_waiting;
    let model = &queue.name.model;
    if now >= waiter.deadline() {
        let (until, reason) = waiter.waits();
        return Some(Err(claim.expired(until, reason, model, now)));
    }
    // Before a place is taken that would serve it too late, and could serve another in time.
    if let Some(refusal) = target.and_then(|target| claim.unreachable_slo(core, target, now)) {
        return Some(Err(refusal));
    }
    match claim.decide(core, target, model, now) {
        Verdict::Chosen(choice) => Some(Ok(choice)),
        Verdict::Refused(refusal) => Some(Err(refusal)),
        Verdict::Wait { until, reason } => {
            waiter.goes_on_waiting(until, reason);
            None
        }
    }
}
