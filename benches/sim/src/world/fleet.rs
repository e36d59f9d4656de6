//! Clusters that report, come, die and change.

use std::time::Duration;

use super::{Event, World};
use crate::gateway::visible_from;

/// How long after it is there a gateway routes to a cluster, the way there not counted: a registration, and a first
/// report. As long after its end it does so no more: its connections break.
const NOTICED_AFTER: Duration = Duration::from_millis(50);

// === impl World ===

impl World<'_> {
    pub(super) fn report_due(&mut self, cluster: usize) {
        self.report(cluster);
        if let Some(interval) = self.scenario.reports.heartbeat_ms {
            self.events.after(Duration::from_secs_f64(interval / 1000.0), Event::ReportDue(cluster));
        }
    }

    pub(super) fn report(&mut self, cluster: usize) {
        if !self.clusters[cluster].is_alive {
            return;
        }
        // What an engine says of itself is as of the last time that it moved.
        if self.advance(cluster) {
            self.changed(cluster);
        }
        let state = self.engines[cluster].state();
        self.pylons[cluster].report(self.events.now(), state, self.clusters[cluster].input_tps);
        for gateway in 0..self.gateways.len() {
            if self.gateways[gateway].waiting() > 0 {
                let arrives = self.events.now() + self.ways[gateway][cluster];
                self.wake_at(gateway, visible_from(arrives));
            }
        }
    }

    pub(super) fn cluster_joins(&mut self, cluster: usize) {
        self.clusters[cluster].is_alive = true;
        self.report(cluster);
        self.tell(cluster, true);
    }

    pub(super) fn cluster_dies(&mut self, cluster: usize) {
        let now = self.events.now();
        self.clusters[cluster].is_alive = false;
        for key in self.engines[cluster].crash() {
            let Some(attempt) = self.attempts.get_mut(key) else { continue };
            if let Some(from) = attempt.took_slot_at.take() {
                self.tally.held_slot(from, now);
            }
            self.events.after(self.ways[attempt.gateway][cluster], Event::FailureAt(key));
        }
        self.schedule_engine(cluster);
        self.tell(cluster, false);
    }

    /// A cluster works so many times as fast from now on as its engine's numbers say, and its next report shows it.
    pub(super) fn speed_changes(&mut self, cluster: usize, speed: f64) {
        let state = &mut self.clusters[cluster];
        state.input_tps = state.nominal_input_tps * speed;
        self.engines[cluster].set_speed(self.events.now(), speed);
        self.moved(cluster);
    }

    fn tell(&mut self, cluster: usize, is_routable: bool) {
        for gateway in 0..self.gateways.len() {
            let after = self.ways[gateway][cluster] + NOTICED_AFTER;
            self.events.after(after, Event::Routable { gateway, cluster, is_routable });
        }
    }
}
