//! A gateway of one core: what it knows, who waits at it, and what it decides.
//!
//! Ours decide by `stargate-routing`: its decisions, its rules of waiting and the order in which those who wait are decided,
//! its reservations and all. Baselines choose by themselves, see the same effective stats, have their requests counted by the
//! same code, and theirs wait by the same rules. What a core's tasks do when something happens, [`Gateway`] does at once.

mod chooser;
mod deciding;
mod foresight;
mod knowledge;

use std::{cell::Cell, time::Duration};

use stargate_routing::{Exclusions, Hold, Line, Patience, Running, Ticket, Waiting, Waits};

use self::{chooser::Asked, foresight::Home};
pub(super) use self::{
    chooser::{Chooser, Decider},
    knowledge::{Known, Seen, visible_from},
};
use super::{engine::Engine, model::Prompt};

/// A request at its gateway.
#[derive(Debug)]
pub(super) struct Asking {
    /// Its number in the world.
    request: usize,
    arrived: Duration,
    prompt: Prompt,
    key: [u8; 4],
    exclusions: Exclusions,
    /// The clusters that `exclusions` names, by number: what baselines tell them by.
    excluded: Vec<usize>,
    /// While it waits: how it is held, and for how long at most.
    waits: Cell<Option<(Hold, Patience)>>,
    /// Where its key is at home, once that has been asked.
    home: Cell<Option<Home>>,
}

/// Where a request was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) cluster: usize,
    /// `None` where the gateway does not count what it has sent.
    pub(super) running: Option<Running>,
    pub(super) sequence: Option<u64>,
    pub(super) is_overflow: bool,
}

/// What came of those whom a gateway has decided: requests by their number in the world.
#[derive(Debug, Default)]
pub(super) struct Served {
    pub(super) sent: Vec<(usize, Sent)>,
    /// Requests that were refused or given up on.
    pub(super) rejected: Vec<usize>,
    /// A request that waits from now on, and its place.
    pub(super) joined: Option<(usize, Ticket)>,
}

pub(super) struct Gateway {
    chooser: Chooser,
    line: Line<Asking>,
    /// When all waiters are decided, whatever has happened.
    next_tick: Duration,
}

// === impl Asking ===

impl Asking {
    pub(super) fn new(
        request: usize,
        arrived: Duration,
        prompt: Prompt,
        exclusions: Exclusions,
        excluded: Vec<usize>,
    ) -> Self {
        Self {
            request,
            arrived,
            prompt,
            key: prompt.session.to_le_bytes(),
            exclusions,
            excluded,
            waits: Cell::new(None),
            home: Cell::new(None),
        }
    }
}

impl Waits for Asking {
    fn due(&self) -> Duration {
        self.waits.get().map_or(Duration::MAX, |(hold, patience)| self.arrived + patience.due(hold))
    }
}

// === impl Served ===

impl Served {
    fn end(&mut self, request: usize, outcome: Result<Sent, stargate_routing::Refused>) {
        match outcome {
            Ok(sent) => self.sent.push((request, sent)),
            Err(_) => self.rejected.push(request),
        }
    }
}

// === impl Gateway ===

impl Gateway {
    /// Between two decisions of everybody who waits, as on a core.
    const TICK: Duration = Duration::from_millis(25);

    pub(super) fn new(chooser: Chooser) -> Self {
        let Waiting { order, max_waiters, .. } = *chooser.waiting();
        Self { chooser, line: Line::new(order, max_waiters as usize), next_tick: Duration::ZERO }
    }

    /// A request arrives, or comes back from an attempt that failed.
    pub(super) fn arrived(&mut self, asking: Asking, now: Duration, world: &Seen<'_>) -> Served {
        let mut served = Served::default();
        let has_changed = self.look(now, world);
        let mut is_waiting = false;
        if !self.line.is_empty() {
            if has_changed {
                self.line.refresh();
            }
            if self.chooser.has_place(&asking, now) {
                let Self { line, chooser, .. } = self;
                let ask = |other: &Asking, is_one_of_many: bool| {
                    chooser.ask(other, is_one_of_many, now, world.engines)
                };
                let end = |other: Asking, outcome| served.end(other.request, outcome);
                is_waiting = line.serve_ahead(0, asking.arrived, now, ask, end);
            }
        }
        match self.chooser.ask_first(&asking, is_waiting, now, world.engines) {
            Asked::Ended(outcome) => served.end(asking.request, outcome),
            Asked::Held(hold) => self.join(asking, hold, now, &mut served),
        }
        served
    }

    /// Something may have changed for those who wait.
    pub(super) fn wake(&mut self, now: Duration, world: &Seen<'_>) -> Served {
        let mut served = Served::default();
        if self.line.is_empty() {
            return served;
        }
        if self.look(now, world) || now >= self.next_tick {
            self.line.refresh();
        }
        if now >= self.next_tick {
            self.next_tick = now + Self::TICK;
        }
        self.serve(now, world.engines, &mut served);
        served
    }

    /// A place has become free here, as far as this gateway is told: an attempt of its own has got its first token, or has
    /// ended.
    pub(super) fn freed(&mut self, now: Duration, world: &Seen<'_>) -> Served {
        let mut served = Served::default();
        if !self.line.is_empty() {
            if self.look(now, world) {
                self.line.refresh();
            }
            self.line.freed(1);
            self.serve(now, world.engines, &mut served);
        }
        served
    }

    /// An attempt at a cluster has ended, however it did.
    pub(super) fn ended(&mut self, cluster: usize) {
        self.chooser.ended(cluster);
    }

    /// The client of a waiter has left.
    pub(super) fn leave(&mut self, ticket: Ticket, now: Duration) {
        self.line.leave(ticket, now);
    }

    /// A cluster has come or gone, as far as this gateway knows.
    pub(super) fn set_routable(&mut self, cluster: usize, is_routable: bool) {
        self.chooser.set_routable(cluster, is_routable);
        self.line.refresh();
    }

    pub(super) fn waiting(&self) -> usize {
        self.line.len()
    }

    /// When [`Self::wake`] is to be called next, if no report comes before; `None` while nobody waits.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let due = self.line.next_due()?;
        [due, self.next_tick].into_iter().chain(self.chooser.next_due()).min()
    }

    /// When the first report becomes visible here that has not been seen.
    pub(super) fn next_report(&self, world: &Seen<'_>) -> Option<Duration> {
        self.chooser.next_report(world)
    }

    /// Has everybody decided who may be, without telling by less work that it waits on. For a test: it changes nothing.
    #[cfg(test)]
    pub(super) fn decide_without_foresight(&mut self) {
        self.chooser.has_foresight = false;
    }

    fn join(&mut self, asking: Asking, hold: Hold, now: Duration, served: &mut Served) {
        if self.line.is_empty() {
            self.next_tick = now + Self::TICK;
        }
        let request = asking.request;
        asking.waits.set(Some((hold, self.chooser.patience())));
        match self.line.join(0, asking.arrived, self.chooser.limit(), asking) {
            Ok(ticket) => served.joined = Some((request, ticket)),
            Err(_) => served.rejected.push(request),
        }
    }

    /// Whether anything is known now that was not when those who wait were decided.
    fn look(&mut self, now: Duration, world: &Seen<'_>) -> bool {
        self.chooser.look(now, world) | self.chooser.advance(now)
    }

    fn serve(&mut self, now: Duration, engines: &[Engine], served: &mut Served) {
        let Self { line, chooser, .. } = self;
        let ask = |asking: &Asking, is_one_of_many: bool| chooser.ask(asking, is_one_of_many, now, engines);
        line.serve(now, ask, |asking, outcome| served.end(asking.request, outcome));
    }
}
