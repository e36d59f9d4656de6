//! One run: clients, gateways, engines and the ways between them, in virtual time.
//!
//! A request goes from its client to a gateway of the client's region at no cost, waits there or is sent, travels half a
//! round trip to the engine, and its tokens travel back as long. What happens at a moment is handled before time goes
//! on, in the order in which it was scheduled.

mod attempts;
mod fleet;
mod setup;
mod under_way;

use std::{collections::BTreeMap, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use slab::Slab;
use stargate_routing::{ClusterUid, Exclusions, Running, Ticket};

use self::under_way::UnderWay;
use super::{
    bound::Bound,
    clients::{Ask, Source},
    engine::Engine,
    events::Events,
    gateway::{Asking, Gateway, Seen, Served},
    model::{AttemptKey, Happening, Job},
    outcome::Outcome,
    pylon::Pylon,
    scenario::{Policy, Scenario},
    tally::Tally,
};

/// What a run is called in its outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) scenario: &'a str,
    pub(super) policy: &'a str,
    pub(super) point: &'a BTreeMap<String, String>,
    pub(super) seed: u64,
}

struct World<'a> {
    scenario: &'a Scenario,
    source: Source<'a>,
    events: Events<Event>,
    rng: fastrand::Rng,
    engines: Vec<Engine>,
    pylons: Vec<Pylon>,
    clusters: Vec<ClusterState>,
    gateways: Vec<Gateway>,
    /// By gateway: when it is woken, if that is scheduled.
    wakes_at: Vec<Option<Duration>>,
    /// One way, by gateway and cluster.
    ways: Vec<Vec<Duration>>,
    requests: Slab<Request>,
    /// Counts requests: what comes with an event of a request that is over is not taken for another's.
    requests_begun: u64,
    attempts: UnderWay<Attempt>,
    happened: Vec<Happening>,
    tally: Tally,
}

/// A cluster besides its engine.
struct ClusterState {
    region: usize,
    is_alive: bool,
    /// Of its engine at speed 1.
    nominal_input_tps: f64,
    /// That it reports.
    input_tps: f64,
    /// When its engine is let move on, if that is scheduled.
    engine_due: Option<Duration>,
    /// Whether a report of a change is on its way out.
    is_report_due: bool,
}

/// A request from its client's first try to its end.
struct Request {
    number: u64,
    ask: Ask,
    /// First try.
    asked_at: Duration,
    /// This try.
    arrived: Duration,
    retries_left: u32,
    gateway: usize,
    attempts: u32,
    excluded: Vec<usize>,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Being decided, or between two tries.
    Nowhere,
    Waiting(Ticket),
    At(AttemptKey),
}

/// A request at an engine, or on its way there or back.
struct Attempt {
    /// `None` once the client or the gateway has given up on it.
    request: Option<usize>,
    gateway: usize,
    cluster: usize,
    running: Option<Running>,
    sequence: Option<u64>,
    took_slot_at: Option<Duration>,
    has_begun: bool,
    first_token_at: Option<Duration>,
    job: Job,
}

#[derive(Clone, Copy)]
enum Event {
    Arrival,
    Retry { request: usize, number: u64 },
    AtEngine(AttemptKey),
    EngineDue(usize),
    FirstTokenAt(AttemptKey),
    AnswerAt(AttemptKey),
    FailureAt(AttemptKey),
    CancelAt(AttemptKey),
    ReportDue(usize),
    ChangeReportDue(usize),
    Wake(usize),
    Timeout { request: usize, number: u64 },
    ClusterJoins(usize),
    ClusterDies(usize),
    SpeedChanges { cluster: usize, speed: f64 },
    Routable { gateway: usize, cluster: usize, is_routable: bool },
    Second,
}

/// A client that was refused waits so long before it tries again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Runs a scenario under a policy.
pub(super) fn run(
    run: Run<'_>,
    scenario: &Scenario,
    policy: &Policy,
    bound: &Bound,
) -> anyhow::Result<Outcome> {
    let cpu_time = thread_cpu_time();
    let mut world = World::new(scenario, policy, bound, run.seed)?;
    let end = world.tally.end();
    while let Some(event) = world.events.next(end) {
        world.handle(event);
    }
    let slots = world.engines.iter().map(Engine::slots).sum();
    for attempt in world.attempts.iter() {
        if let Some(from) = attempt.took_slot_at {
            world.tally.held_slot(from, end);
        }
    }
    let bound_per_s = bound.warm_per_s(scenario);
    let named = (run.scenario, run.policy, run.seed);
    let cpu_time = thread_cpu_time().saturating_sub(cpu_time);
    Ok(world.tally.into_outcome(named, run.point.clone(), bound_per_s, slots, cpu_time))
}

fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

// === impl World ===

impl World<'_> {
    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrival => self.arrival(),
            Event::Retry { request, number } => self.retry(request, number),
            Event::AtEngine(key) => self.at_engine(key),
            Event::EngineDue(cluster) => self.engine_due(cluster),
            Event::FirstTokenAt(key) => self.first_token_at(key),
            Event::AnswerAt(key) => self.answer_at(key),
            Event::FailureAt(key) => self.failure_at(key),
            Event::CancelAt(key) => self.cancel_at(key),
            Event::ReportDue(cluster) => self.report_due(cluster),
            Event::ChangeReportDue(cluster) => {
                self.clusters[cluster].is_report_due = false;
                self.report(cluster);
            }
            Event::Wake(gateway) => self.wake(gateway),
            Event::Timeout { request, number } => self.timeout(request, number),
            Event::ClusterJoins(cluster) => self.cluster_joins(cluster),
            Event::ClusterDies(cluster) => self.cluster_dies(cluster),
            Event::SpeedChanges { cluster, speed } => self.speed_changes(cluster, speed),
            Event::Routable { gateway, cluster, is_routable } => {
                self.gateways[gateway].set_routable(cluster, is_routable);
                self.freed(gateway);
            }
            Event::Second => {
                let waiting = self.gateways.iter().map(Gateway::waiting).sum();
                self.tally.waiting(self.events.now(), waiting);
                self.events.after(Duration::from_secs(1), Event::Second);
            }
        }
    }

    fn schedule_arrival(&mut self) {
        if let Some(pause) = self.source.next_pause(self.events.now(), &mut self.rng) {
            self.events.after(pause, Event::Arrival);
        }
    }

    fn arrival(&mut self) {
        let now = self.events.now();
        let ask = self.source.next(now, &mut self.rng);
        self.tally.offered(now, &ask);
        self.requests_begun += 1;
        let request = self.requests.insert(Request {
            number: self.requests_begun,
            ask,
            asked_at: now,
            arrived: now,
            retries_left: self.scenario.clients.retries,
            gateway: 0,
            attempts: 0,
            excluded: Vec::new(),
            place: Place::Nowhere,
        });
        self.ask(request);
        if self.source.workers().is_none() {
            self.schedule_arrival();
        }
    }

    fn retry(&mut self, request: usize, number: u64) {
        if self.requests.get(request).is_some_and(|known| known.number == number) {
            self.ask(request);
        }
    }

    /// A client sends a request to a gateway.
    fn ask(&mut self, request: usize) {
        let now = self.events.now();
        let asked = &mut self.requests[request];
        asked.gateway = self.rng.usize(0..self.gateways.len());
        asked.arrived = now;
        asked.excluded.clear();
        let timeout = Duration::from_secs_f64(self.scenario.clients.timeout_ms / 1000.0);
        self.events.after(timeout, Event::Timeout { request, number: asked.number });
        self.decide(request);
    }

    /// Has the gateway of a request decide it.
    fn decide(&mut self, request: usize) {
        let now = self.events.now();
        let asked = &self.requests[request];
        let mut exclusions = Exclusions::default();
        for cluster in &asked.excluded {
            // One request does not fail so often that there were no room.
            let _ = exclusions.exclude_cluster(ClusterUid(*cluster as u64));
        }
        let gateway = asked.gateway;
        let asking =
            Asking::new(request, asked.arrived, asked.ask.prompt, exclusions, asked.excluded.clone());
        let seen = Seen { pylons: &self.pylons, engines: &self.engines };
        let served = self.gateways[gateway].arrived(asking, now, &seen);
        self.act(gateway, served);
    }

    fn wake(&mut self, gateway: usize) {
        let now = self.events.now();
        if self.wakes_at[gateway] != Some(now) {
            // It was woken earlier, and will be again when that is due.
            return;
        }
        self.wakes_at[gateway] = None;
        let seen = Seen { pylons: &self.pylons, engines: &self.engines };
        let served = self.gateways[gateway].wake(now, &seen);
        self.act(gateway, served);
    }

    /// A gateway's own attempt has got its first token or has ended, or a cluster has come.
    fn freed(&mut self, gateway: usize) {
        let seen = Seen { pylons: &self.pylons, engines: &self.engines };
        let served = self.gateways[gateway].freed(self.events.now(), &seen);
        self.act(gateway, served);
    }

    /// Does what a gateway has decided.
    fn act(&mut self, gateway: usize, served: Served) {
        if let Some((request, ticket)) = served.joined {
            self.requests[request].place = Place::Waiting(ticket);
        }
        for (request, sent) in served.sent {
            self.send(gateway, request, sent);
        }
        for request in served.rejected {
            self.requests[request].place = Place::Nowhere;
            self.refused(request);
        }
        self.schedule_wake(gateway);
    }

    /// Has a gateway woken as soon as something may change for those who wait there.
    fn schedule_wake(&mut self, gateway: usize) {
        let Some(due) = self.gateways[gateway].next_due() else { return };
        let seen = Seen { pylons: &self.pylons, engines: &self.engines };
        let report = self.gateways[gateway].next_report(&seen);
        self.wake_at(gateway, report.map_or(due, |report| report.min(due)));
    }

    fn wake_at(&mut self, gateway: usize, at: Duration) {
        let now = self.events.now();
        let at = at.max(now);
        if self.wakes_at[gateway].is_none_or(|known| at < known) {
            self.wakes_at[gateway] = Some(at);
            self.events.after_others(at.saturating_sub(now), gateway, Event::Wake(gateway));
        }
    }

    fn timeout(&mut self, request: usize, number: u64) {
        let now = self.events.now();
        let timeout = Duration::from_secs_f64(self.scenario.clients.timeout_ms / 1000.0);
        let Some(asked) = self.requests.get_mut(request) else { return };
        // A later try has a timeout of its own.
        if asked.number != number || asked.arrived + timeout > now {
            return;
        }
        match std::mem::replace(&mut asked.place, Place::Nowhere) {
            Place::Nowhere => return,
            Place::Waiting(ticket) => self.gateways[asked.gateway].leave(ticket, now),
            Place::At(key) => self.give_up(key),
        }
        self.tally.timed_out(now);
        self.try_again_or_end(request);
    }

    /// A gateway has no place for a request, or gives up on it.
    fn refused(&mut self, request: usize) {
        self.tally.rejected(self.events.now());
        self.try_again_or_end(request);
    }

    fn try_again_or_end(&mut self, request: usize) {
        let asked = &mut self.requests[request];
        if asked.retries_left > 0 {
            asked.retries_left -= 1;
            let event = Event::Retry { request, number: asked.number };
            self.events.after(RETRY_PAUSE, event);
        } else {
            self.end(request, false);
        }
    }

    /// A request is over.
    fn end(&mut self, request: usize, is_answered: bool) {
        let request = self.requests.remove(request);
        self.source.over(&request.ask, is_answered, &mut self.rng);
        if self.source.workers().is_some() {
            // Refused at once, a worker would ask again at the same moment for ever.
            let pause = if is_answered { Duration::ZERO } else { RETRY_PAUSE };
            self.events.after(pause, Event::Arrival);
        }
    }
}

#[cfg(test)]
mod tests;
