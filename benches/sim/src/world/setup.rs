//! A world at time 0: engines, gateways, the ways between them, and what is bound to happen.

use std::time::Duration;

use slab::Slab;

use super::{ClusterState, Event, RETRY_PAUSE, UnderWay, World};
use crate::{
    bound::Bound,
    clients::Source,
    engine::Engine,
    events::Events,
    gateway::{Chooser, Decider, Gateway, Known},
    pylon::Pylon,
    scenario::{Clusters, Policy, Scenario},
    tally::Tally,
};

// === impl World ===

impl<'a> World<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        policy: &Policy,
        bound: &Bound,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let source = Source::new(&scenario.clients, bound.warm_per_s(scenario), &mut rng)?;
        let (mut engines, mut clusters, mut events) = (Vec::new(), Vec::new(), Events::new());
        for group in scenario.clusters.iter().flat_map(|group| std::iter::repeat_n(group, group.count)) {
            schedule(group, clusters.len(), &mut events);
            let spec = &scenario.engines[&group.engine];
            let mut engine = spec.build();
            engine.set_speed(Duration::ZERO, group.speed);
            engines.push(engine);
            let nominal_input_tps = spec.reported_input_tps();
            clusters.push(ClusterState {
                region: scenario.region(&group.region).unwrap_or_default(),
                is_alive: group.from_s == 0.0,
                nominal_input_tps,
                input_tps: nominal_input_tps * group.speed,
                engine_due: None,
                is_report_due: false,
            });
        }
        let regions = regions_of_gateways(scenario);
        let slo = seconds(scenario.clients.slo_ms / 1000.0);
        let rtt = |from: usize, to: usize| seconds(scenario.network.rtt_ms[from][to] / 1000.0);
        let deciders = Decider::of_gateways(policy, clusters.len(), regions.len(), rng.u64(..));
        let mut gateways = Vec::new();
        for (gateway, (region, decider)) in regions.iter().zip(deciders).enumerate() {
            let known = |(cluster, engine): (&ClusterState, &Engine)| Known {
                gateway,
                slots: engine.slots(),
                input_tps: cluster.input_tps,
                rtt: rtt(*region, cluster.region),
                is_routable: cluster.is_alive,
            };
            let known: Vec<Known> = clusters.iter().zip(&engines).map(known).collect();
            gateways.push(Gateway::new(Chooser::new(policy, decider, &known, slo, rng.u64(..))));
        }
        let way = |from: &usize| clusters.iter().map(|cluster| rtt(*from, cluster.region) / 2).collect();
        let ways: Vec<Vec<Duration>> = regions.iter().map(way).collect();
        let longest_way = ways.iter().flatten().max().copied().unwrap_or_default() + RETRY_PAUSE;
        let pylon = |_| Pylon::new(gateways.len(), scenario.reports.hand_over, longest_way);
        let mut world = Self {
            pylons: (0..clusters.len()).map(pylon).collect(),
            wakes_at: vec![None; gateways.len()],
            tally: Tally::new(seconds(scenario.warmup_s), seconds(scenario.measured_s), slo),
            scenario,
            source,
            events,
            rng,
            engines,
            clusters,
            gateways,
            ways,
            requests: Slab::new(),
            requests_begun: 0,
            attempts: UnderWay::new(),
            happened: Vec::new(),
        };
        world.begin();
        Ok(world)
    }

    fn begin(&mut self) {
        match self.source.workers() {
            Some(workers) => {
                for _ in 0..workers {
                    self.events.after(Duration::ZERO, Event::Arrival);
                }
            }
            None => self.schedule_arrival(),
        }
        if let Some(interval) = self.scenario.reports.heartbeat_ms {
            let interval = seconds(interval / 1000.0);
            for cluster in 0..self.clusters.len() {
                let phase = interval.mul_f64(self.rng.f64());
                self.events.after(phase, Event::ReportDue(cluster));
            }
        }
        self.events.after(Duration::from_secs(1), Event::Second);
    }
}

/// What the scenario says will happen to a cluster.
fn schedule(group: &Clusters, cluster: usize, events: &mut Events<Event>) {
    if group.from_s > 0.0 {
        events.after(seconds(group.from_s), Event::ClusterJoins(cluster));
    }
    if let Some(until) = group.until_s {
        events.after(seconds(until), Event::ClusterDies(cluster));
    }
    for change in &group.speeds {
        events.after(seconds(change.from_s), Event::SpeedChanges { cluster, speed: change.speed });
    }
}

/// Gateways are where clients are.
fn regions_of_gateways(scenario: &Scenario) -> Vec<usize> {
    let regions: Vec<usize> = match &scenario.clients.region {
        Some(region) => scenario.region(region).into_iter().collect(),
        None => (0..scenario.network.regions.len()).collect(),
    };
    let per_region = scenario.gateways.per_region;
    regions.into_iter().flat_map(|region| std::iter::repeat_n(region, per_region)).collect()
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}
