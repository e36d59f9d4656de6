//! Attempts: from a gateway to an engine, and what comes back.

use std::time::Duration;

use super::{Attempt, Event, Place, World};
use crate::{
    engine::Engine,
    gateway::Sent,
    model::{AttemptKey, Happening, Job, What},
};

// === impl World ===

impl World<'_> {
    pub(super) fn send(&mut self, gateway: usize, request: usize, sent: Sent) {
        let now = self.events.now();
        let asked = &mut self.requests[request];
        self.tally.sent(now, asked.attempts == 0, sent.is_overflow);
        asked.attempts += 1;
        let (prompt, output_tokens) = (asked.ask.prompt, asked.ask.output_tokens);
        let key = self.attempts.begin(|attempt| Attempt {
            request: Some(request),
            gateway,
            cluster: sent.cluster,
            running: sent.running,
            sequence: sent.sequence,
            took_slot_at: None,
            has_begun: false,
            first_token_at: None,
            job: Job { attempt, prompt, output_tokens },
        });
        asked.place = Place::At(key);
        self.events.after(self.ways[gateway][sent.cluster], Event::AtEngine(key));
    }

    pub(super) fn at_engine(&mut self, key: AttemptKey) {
        let now = self.events.now();
        let Some(&mut Attempt { gateway, cluster, sequence, job, .. }) = self.attempts.get_mut(key) else {
            return;
        };
        if !self.clusters[cluster].is_alive {
            self.events.after(self.ways[gateway][cluster], Event::FailureAt(key));
            return;
        }
        let finds_slot = self.engines[cluster].has_free_slot();
        let is_avoidable = !finds_slot && self.engines.iter().any(Engine::has_free_slot);
        self.tally.arrived(now, finds_slot, is_avoidable);
        self.pylons[cluster].arrived(gateway, sequence);
        self.engines[cluster].arrive(now, job);
        self.moved(cluster);
    }

    pub(super) fn engine_due(&mut self, cluster: usize) {
        if self.clusters[cluster].engine_due == Some(self.events.now()) {
            self.clusters[cluster].engine_due = None;
            self.moved(cluster);
        }
    }

    /// An engine's state has changed, or is about to.
    pub(super) fn moved(&mut self, cluster: usize) {
        self.advance(cluster);
        self.changed(cluster);
    }

    /// Lets an engine do what is due, and sees to what comes of it. Whether anything did.
    pub(super) fn advance(&mut self, cluster: usize) -> bool {
        let now = self.events.now();
        let mut happened = std::mem::take(&mut self.happened);
        self.engines[cluster].advance(now, &mut happened);
        let has_happened = !happened.is_empty();
        for Happening { attempt: key, what } in happened.drain(..) {
            let Some(attempt) = self.attempts.get_mut(key) else { continue };
            let way = self.ways[attempt.gateway][cluster];
            match what {
                What::Began { cached_tokens } => {
                    attempt.took_slot_at = Some(now);
                    // After a preemption it begins again, but that is no other prompt.
                    if !std::mem::replace(&mut attempt.has_begun, true) {
                        self.tally.began(now, attempt.job.prompt.tokens(), cached_tokens);
                    }
                }
                What::FirstToken => self.events.after(way, Event::FirstTokenAt(key)),
                What::Ended => {
                    if let Some(from) = attempt.took_slot_at.take() {
                        self.tally.held_slot(from, now);
                    }
                    self.events.after(way, Event::AnswerAt(key));
                }
            }
        }
        self.happened = happened;
        self.schedule_engine(cluster);
        has_happened
    }

    pub(super) fn schedule_engine(&mut self, cluster: usize) {
        let now = self.events.now();
        let due = self.engines[cluster].next_due();
        if self.clusters[cluster].engine_due != due {
            self.clusters[cluster].engine_due = due;
            if let Some(due) = due {
                self.events.after(due.saturating_sub(now), Event::EngineDue(cluster));
            }
        }
    }

    pub(super) fn first_token_at(&mut self, key: AttemptKey) {
        let now = self.events.now();
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        attempt.first_token_at = Some(now);
        let gateway = attempt.gateway;
        if let Some(running) = &mut attempt.running {
            running.first_byte();
        }
        if let Some(request) = attempt.request {
            self.tally.first_token(now, now.saturating_sub(self.requests[request].asked_at));
        }
        self.freed(gateway);
    }

    pub(super) fn answer_at(&mut self, key: AttemptKey) {
        let now = self.events.now();
        let Some(attempt) = self.attempts.end(key) else { return };
        let Attempt { gateway, cluster, running, request, first_token_at, .. } = attempt;
        let Some(request) = request else { return };
        drop(running);
        self.gateways[gateway].ended(cluster);
        let asked = &self.requests[request];
        let ttft = first_token_at.unwrap_or(now).saturating_sub(asked.asked_at);
        self.tally.completed(now, &asked.ask, ttft, now.saturating_sub(asked.asked_at));
        self.end(request, true);
        self.freed(gateway);
    }

    /// An attempt has failed: a request that has got no token yet goes elsewhere.
    pub(super) fn failure_at(&mut self, key: AttemptKey) {
        let Some(attempt) = self.attempts.end(key) else { return };
        let Attempt { gateway, cluster, running, request, first_token_at, .. } = attempt;
        let Some(request) = request else { return };
        drop(running);
        self.gateways[gateway].ended(cluster);
        self.requests[request].place = Place::Nowhere;
        if first_token_at.is_some() {
            self.refused(request);
        } else {
            self.requests[request].excluded.push(cluster);
            self.decide(request);
        }
        self.freed(gateway);
    }

    /// The gateway lets an attempt go whose client has left; the engine sees it half a round trip later.
    pub(super) fn give_up(&mut self, key: AttemptKey) {
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        attempt.request = None;
        drop(attempt.running.take());
        let (gateway, cluster) = (attempt.gateway, attempt.cluster);
        self.gateways[gateway].ended(cluster);
        self.events.after(self.ways[gateway][cluster], Event::CancelAt(key));
        self.freed(gateway);
    }

    /// An engine is told that nobody waits for an attempt any more; its answer may be on its way.
    pub(super) fn cancel_at(&mut self, key: AttemptKey) {
        let now = self.events.now();
        let Some(&mut Attempt { cluster, .. }) = self.attempts.get_mut(key) else { return };
        if self.engines[cluster].cancel(now, key) {
            if let Some(from) = self.attempts.end(key).and_then(|attempt| attempt.took_slot_at) {
                self.tally.held_slot(from, now);
            }
            self.moved(cluster);
        }
    }

    pub(super) fn changed(&mut self, cluster: usize) {
        let Some(together) = self.scenario.reports.on_change_ms else { return };
        if !std::mem::replace(&mut self.clusters[cluster].is_report_due, true) {
            self.events.after(Duration::from_secs_f64(together / 1000.0), Event::ChangeReportDue(cluster));
        }
    }
}
