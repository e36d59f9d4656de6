//! One run: clients, gateways and engines in virtual time, and what came of it.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::{
    engine::{Begun, Engine, Report},
    events::Events,
    gateway::{Asked, Gateway, Terms},
};

/// What a run is made of.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) seed: u64,
    pub(super) gateways: usize,
    pub(super) clusters: usize,
    /// Requests that an engine runs at once.
    pub(super) slots: usize,
    /// How long a request takes a slot: uniform from half to one and a half of this.
    pub(super) mean_service: Duration,
    /// There and back, between every gateway and every engine.
    pub(super) rtt: Duration,
    pub(super) reporting: Reporting,
    /// Requests a second, as a share of what all slots together serve.
    pub(super) load: f64,
    /// Sessions of the clients; each request is of a random one.
    pub(super) keys: u64,
    /// Not counted, while everything fills up.
    pub(super) warmup: Duration,
    /// Counted.
    pub(super) measured: Duration,
}

/// When engines report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reporting {
    /// At an interval, each engine at a moment of its own.
    Every(Duration),
    /// After every change, those within this time together.
    OnChange(Duration),
}

/// A request on its way to an engine and in it.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) gateway: usize,
    /// Names it at its gateway.
    pub(super) attempt: u64,
    /// Its stamp: its number among the gateway's attempts at the engine.
    pub(super) sequence: Option<u64>,
    pub(super) tokens: u64,
    pub(super) lasts: Duration,
    /// When it came to its gateway.
    pub(super) arrived: Duration,
}

/// What a run came to, over the measured time.
pub(super) struct Tally {
    /// Requests offered.
    pub(super) offered: u64,
    /// Requests that arrived at an engine.
    pub(super) sent: u64,
    /// Of these, those that found no free slot while another engine had one.
    pub(super) misrouted: u64,
    /// Of these, those that found no free slot.
    pub(super) queued: u64,
    /// Requests that ended.
    pub(super) completed: u64,
    /// Requests that were given up on.
    pub(super) rejected: u64,
    /// Share of the slots that were taken, over time.
    pub(super) busy: f64,
    /// From a request's arrival at its gateway to its begin in an engine, in µs.
    pub(super) begin_us: Histogram<u64>,
}

enum Event {
    Arrival,
    AtEngine(usize, Job),
    Ended(usize, Job),
    AnswerAt(usize, u64),
    ReportDue(usize),
    ReportAt { gateway: usize, cluster: usize, report: Report },
    PublicationDue(usize),
    Poll(usize),
}

/// The longest time to a request's begin that is told apart: an hour.
const BEGIN_US_MAX: u64 = 3_600_000_000;

/// How many input tokens a request has: enough for estimates to differ from nothing.
const TOKENS: u64 = 1_000;

struct World<'a> {
    setup: &'a Setup,
    events: Events<Event>,
    rng: fastrand::Rng,
    engines: Vec<Engine>,
    gateways: Vec<Gateway>,
    /// Whether a report of a change is on its way out of an engine.
    is_report_due: Vec<bool>,
    is_polling: Vec<bool>,
    tally: Tally,
    slot_time: Duration,
}

/// Runs `setup` under `terms`.
pub(super) fn run(setup: &Setup, terms: &Terms) -> Tally {
    let mut rng = fastrand::Rng::with_seed(setup.seed);
    let gateways =
        (0..setup.gateways).map(|number| Gateway::new(number, setup, terms, rng.u64(..))).collect();
    let mut world = World {
        events: Events::new(),
        engines: (0..setup.clusters).map(|_| Engine::new(setup.slots)).collect(),
        gateways,
        is_report_due: vec![false; setup.clusters],
        is_polling: vec![false; setup.gateways],
        tally: Tally::new(),
        slot_time: Duration::ZERO,
        setup,
        rng,
    };
    world.events.after(Duration::ZERO, Event::Arrival);
    if let Reporting::Every(interval) = setup.reporting {
        for cluster in 0..setup.clusters {
            let phase = interval.mul_f64(cluster as f64 / setup.clusters as f64);
            world.events.after(phase, Event::ReportDue(cluster));
        }
    }
    while let Some(event) = world.events.next(setup.warmup + setup.measured) {
        world.handle(event);
    }
    let slots = (setup.slots * setup.clusters) as f64;
    world.tally.busy = world.slot_time.as_secs_f64() / (slots * setup.measured.as_secs_f64());
    world.tally
}

// === impl World ===

impl World<'_> {
    fn handle(&mut self, event: Event) {
        let is_measured = self.events.now() >= self.setup.warmup;
        match event {
            Event::Arrival => self.arrival(is_measured),
            Event::AtEngine(cluster, job) => self.at_engine(cluster, job, is_measured),
            Event::Ended(cluster, job) => {
                self.tally.completed += u64::from(is_measured);
                self.events.after(self.one_way(), Event::AnswerAt(job.gateway, job.attempt));
                if let Some(begun) = self.engines[cluster].end() {
                    self.begin(cluster, begun, is_measured);
                }
                self.changed(cluster);
            }
            Event::AnswerAt(gateway, attempt) => {
                self.gateways[gateway].answered(attempt);
                self.serve(gateway, false, is_measured);
            }
            Event::ReportDue(cluster) => {
                self.is_report_due[cluster] = false;
                let report = self.engines[cluster].report();
                for gateway in 0..self.gateways.len() {
                    let event = Event::ReportAt { gateway, cluster, report: report.clone() };
                    self.events.after(self.one_way(), event);
                }
                if let Reporting::Every(interval) = self.setup.reporting {
                    self.events.after(interval, Event::ReportDue(cluster));
                }
            }
            Event::ReportAt { gateway, cluster, report } => {
                if self.gateways[gateway].reported(cluster, &report) {
                    self.events.after(Gateway::PUBLISH_INTERVAL, Event::PublicationDue(gateway));
                }
            }
            Event::PublicationDue(gateway) => {
                self.gateways[gateway].publish();
                self.serve(gateway, false, is_measured);
            }
            Event::Poll(gateway) => {
                self.is_polling[gateway] = false;
                self.serve(gateway, true, is_measured);
            }
        }
    }

    fn arrival(&mut self, is_measured: bool) {
        let setup = self.setup;
        let now = self.events.now();
        self.tally.offered += u64::from(is_measured);
        let asked = Asked {
            arrived: now,
            key: self.rng.u64(0..setup.keys),
            tokens: TOKENS,
            lasts: setup.mean_service.mul_f64(0.5 + self.rng.f64()),
        };
        let gateway = self.rng.usize(0..setup.gateways);
        self.gateways[gateway].arrived(asked);
        self.serve(gateway, false, is_measured);
        let rate = setup.load * (setup.clusters * setup.slots) as f64 / setup.mean_service.as_secs_f64();
        let pause = -(1.0 - self.rng.f64()).ln() / rate;
        self.events.after(Duration::from_secs_f64(pause), Event::Arrival);
    }

    /// Has a gateway decide those who wait there.
    fn serve(&mut self, gateway: usize, all: bool, is_measured: bool) {
        let now = self.events.now();
        let one_way = self.one_way();
        let served = self.gateways[gateway].serve(now, all);
        for (cluster, job) in served.sent {
            self.events.after(one_way, Event::AtEngine(cluster, job));
        }
        self.tally.rejected += if is_measured { served.rejected } else { 0 };
        if self.gateways[gateway].has_waiters() && !self.is_polling[gateway] {
            self.is_polling[gateway] = true;
            self.events.after(Gateway::POLL, Event::Poll(gateway));
        }
    }

    fn at_engine(&mut self, cluster: usize, job: Job, is_measured: bool) {
        let finds_slot = self.engines[cluster].has_free_slot();
        if is_measured {
            self.tally.sent += 1;
            self.tally.queued += u64::from(!finds_slot);
            let is_avoidable = !finds_slot && self.engines.iter().any(Engine::has_free_slot);
            self.tally.misrouted += u64::from(is_avoidable);
        }
        if let Some(begun) = self.engines[cluster].arrive(job) {
            self.begin(cluster, begun, is_measured);
        }
        self.changed(cluster);
    }

    fn begin(&mut self, cluster: usize, begun: Begun, is_measured: bool) {
        let Begun { job, lasts } = begun;
        let (from, to) = (self.setup.warmup, self.setup.warmup + self.setup.measured);
        let now = self.events.now();
        self.slot_time += (now + lasts).min(to).saturating_sub(now.max(from));
        if is_measured {
            self.tally.begin_us.saturating_record(now.saturating_sub(job.arrived).as_micros() as u64);
        }
        self.events.after(lasts, Event::Ended(cluster, job));
    }

    fn changed(&mut self, cluster: usize) {
        if let Reporting::OnChange(coalesce) = self.setup.reporting
            && !std::mem::replace(&mut self.is_report_due[cluster], true)
        {
            self.events.after(coalesce, Event::ReportDue(cluster));
        }
    }

    fn one_way(&self) -> Duration {
        self.setup.rtt / 2
    }
}

// === impl Tally ===

impl Tally {
    fn new() -> Self {
        Self {
            offered: 0,
            sent: 0,
            misrouted: 0,
            queued: 0,
            completed: 0,
            rejected: 0,
            busy: 0.0,
            begin_us: Histogram::new_with_max(BEGIN_US_MAX, 3).expect("bounds that are allowed"),
        }
    }

    /// Misrouted requests as a share of those sent.
    pub(super) fn misrouted_share(&self) -> f64 {
        self.misrouted as f64 / self.sent.max(1) as f64
    }
}

#[cfg(test)]
mod tests;
