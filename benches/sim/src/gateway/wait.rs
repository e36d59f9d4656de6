//! Those who wait at a gateway: who is decided when, and who leaves.

use std::{cmp::Reverse, time::Duration};

use stargate_routing::Ticket;

use super::{
    Claim, Gateway, Served,
    chooser::{Room, Verdict},
};
use crate::engine::Engine;

// === impl Gateway ===

impl Gateway {
    pub(super) fn join(&mut self, mut claim: Claim, until: Duration, now: Duration, served: &mut Served) {
        let (arrived, request) = (claim.arrived, claim.request);
        if self.chooser.is_lost(&claim, now, None) {
            served.rejected.push(request);
            return;
        }
        if self.queue.is_empty() {
            self.next_sweep = now + Self::SWEEP;
        }
        claim.due.set(arrived + until);
        claim.home = self.chooser.home(&claim);
        match self.queue.insert(0, arrived, self.chooser.limit(), claim) {
            Ok(ticket) => {
                self.dues.push(Reverse((arrived + until, ticket)));
                served.joined = Some((request, ticket));
            }
            Err(claim) => served.rejected.push(claim.request),
        }
    }

    /// Those who are to be served before a request that has just come are asked first whether its place is theirs.
    pub(super) fn serve_ahead(
        &mut self,
        claim: &Claim,
        now: Duration,
        engines: &[Engine],
        served: &mut Served,
    ) {
        if !self.chooser.has_place(claim, now) {
            return;
        }
        self.queue.update(now);
        let mut next = self.queue.first();
        for _ in 0..Self::ASKED_MAX {
            let is_ahead = |ticket: &Ticket| self.queue.is_ahead(*ticket, 0, claim.arrived);
            let Some(ticket) = next.filter(is_ahead) else { return };
            next = self.queue.after(ticket);
            if !self.try_again(ticket, now, engines, served) && self.chooser.one_speaks_for_all() {
                return;
            }
        }
    }

    /// Decides everybody, in the order of service, as long as there is room that nobody has looked for in vain. In a sweep
    /// all are looked at, room or not, and those leave who wait in vain.
    pub(super) fn pass(&mut self, now: Duration, engines: &[Engine], is_sweep: bool, served: &mut Served) {
        if is_sweep {
            self.next_sweep = now + Self::SWEEP;
            self.in_vain.clear();
        }
        let mut has_room = self.has_new_room();
        if !has_room && !is_sweep && self.takes_shortcuts {
            return;
        }
        let mut promise = self.takes_shortcuts.then(|| self.chooser.promise());
        let mut next = self.queue.first();
        while let Some(ticket) = next.filter(|_| has_room || is_sweep || !self.takes_shortcuts) {
            next = self.queue.after(ticket);
            let Some(claim) = self.queue.get(ticket) else { continue };
            if (has_room || is_sweep) && self.chooser.is_lost(claim, now, promise.as_ref()) {
                self.take_out(ticket, now, served);
            } else if !self.takes_shortcuts || (has_room && self.chooser.may_find(claim, &self.room, now)) {
                if self.try_again(ticket, now, engines, served) {
                    has_room = self.has_new_room();
                    // With the place that was taken, what was promised before may be too much.
                    promise = promise.map(|_| self.chooser.promise());
                } else {
                    has_room &= !self.chooser.one_speaks_for_all();
                }
            }
        }
        if has_room {
            // What room there is now was for none of them; only time makes it theirs, and that is waited for.
            self.chooser.room(&mut self.in_vain);
        }
    }

    /// Whether a cluster has room that the last pass over everybody did not find.
    fn has_new_room(&mut self) -> bool {
        let mut room = std::mem::take(&mut self.room);
        self.chooser.room(&mut room);
        self.in_vain.resize(room.len(), Room::default());
        let mut has_new = false;
        for (now, before) in room.iter().zip(&mut self.in_vain) {
            has_new |= (now.home && !before.home) || (now.open && !before.open);
            *before = Room { home: before.home && now.home, open: before.open && now.open };
        }
        self.room = room;
        has_new
    }

    /// Decides those whose time has come.
    pub(super) fn serve_due(&mut self, now: Duration, engines: &[Engine], served: &mut Served) {
        while let Some(Reverse((due, ticket))) = self.dues.peek().copied() {
            if due > now {
                return;
            }
            self.dues.pop();
            match self.queue.get(ticket) {
                None => {}
                Some(claim) if self.chooser.is_lost(claim, now, None) => self.take_out(ticket, now, served),
                Some(_) => {
                    self.try_again(ticket, now, engines, served);
                }
            }
        }
    }

    /// Decides a waiter again. Whether it waits no more.
    fn try_again(&mut self, ticket: Ticket, now: Duration, engines: &[Engine], served: &mut Served) -> bool {
        let Some(claim) = self.queue.get(ticket) else { return false };
        match self.chooser.choose(claim, true, now, engines) {
            Verdict::Sent(sent) => {
                served.sent.extend(self.queue.remove(ticket, now).map(|claim| (claim, sent)));
                true
            }
            Verdict::Refused => {
                self.take_out(ticket, now, served);
                true
            }
            Verdict::Wait(until) => {
                let due = claim.arrived + until;
                if claim.due.replace(due) != due {
                    self.dues.push(Reverse((due, ticket)));
                }
                false
            }
        }
    }

    fn take_out(&mut self, ticket: Ticket, now: Duration, served: &mut Served) {
        served.rejected.extend(self.queue.remove(ticket, now).map(|claim| claim.request));
    }
}
