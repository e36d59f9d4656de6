//! What engines can do at best and at worst: requests a second with every shared prefix cached, and with none.
//!
//! Each kind of engine is run alone, with requests of the scenario's clients and always enough of them. The sum over the
//! fleet is the fluid bound: no routing completes more.

use std::{collections::BTreeMap, time::Duration};

use super::{
    clients::Source,
    engine::EngineSpec,
    model::{AttemptKey, Job, Prompt, What},
    scenario::{Arrivals, Clients, Popularity, Scenario},
};

/// By name of the engine, requests a second at speed 1.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    warm: BTreeMap<String, f64>,
    cold: BTreeMap<String, f64>,
}

/// Sessions that an engine's cache certainly holds.
const SESSIONS: u32 = 8;
/// Requests beyond the slots that it has at any time.
const SPARE: u64 = 8;
const WARMUP: Duration = Duration::from_secs(120);
const MEASURED: Duration = Duration::from_secs(600);

// === impl Bound ===

impl Bound {
    pub(super) fn of(scenario: &Scenario) -> anyhow::Result<Self> {
        let mut bound = Self { warm: BTreeMap::new(), cold: BTreeMap::new() };
        for (name, spec) in &scenario.engines {
            bound.warm.insert(name.clone(), alone(spec, &scenario.clients, true)?);
            bound.cold.insert(name.clone(), alone(spec, &scenario.clients, false)?);
        }
        Ok(bound)
    }

    /// What the whole fleet does with every shared prefix cached, on average over the measured time.
    pub(super) fn warm_per_s(&self, scenario: &Scenario) -> f64 {
        Self::sum(&self.warm, scenario)
    }

    /// What the whole fleet does with no prefix cached, on average over the measured time.
    pub(super) fn cold_per_s(&self, scenario: &Scenario) -> f64 {
        Self::sum(&self.cold, scenario)
    }

    fn sum(rates: &BTreeMap<String, f64>, scenario: &Scenario) -> f64 {
        let (from, to) = (scenario.warmup_s, scenario.warmup_s + scenario.measured_s);
        let groups = scenario.clusters.iter().map(|group| {
            let mut changes: Vec<(f64, f64)> = vec![(group.from_s, group.speed)];
            changes.extend(group.speeds.iter().map(|change| (change.from_s, change.speed)));
            let end = group.until_s.unwrap_or(to).min(to);
            let ends = changes.iter().skip(1).map(|change| change.0).chain([end]);
            let work = changes.iter().zip(ends);
            let work: f64 =
                work.map(|((at, speed), until)| speed * (until.min(end) - at.max(from)).max(0.0)).sum();
            group.count as f64 * rates[&group.engine] * work / (to - from)
        });
        groups.sum()
    }
}

fn alone(spec: &EngineSpec, clients: &Clients, is_warm: bool) -> anyhow::Result<f64> {
    let mut rng = fastrand::Rng::with_seed(1);
    let clients = Clients {
        arrivals: Arrivals { workers: Some(1), ..Arrivals::default() },
        sessions: SESSIONS,
        popularity: if is_warm && !matches!(clients.popularity, Popularity::Distinct) {
            Popularity::Uniform
        } else {
            clients.popularity
        },
        hot: None,
        ..clients.clone()
    };
    let mut source = Source::new(&clients, 0.0, &mut rng)?;
    let mut engine = spec.build();
    let mut asks = BTreeMap::new();
    let (mut now, mut ended, mut happened, mut next) = (Duration::ZERO, 0_u64, Vec::new(), 0_u32);
    while now < WARMUP + MEASURED {
        while (asks.len() as u64) < engine.slots() + SPARE {
            let ask = source.next(now, &mut rng);
            let prompt = if is_warm { ask.prompt } else { unlike_any(ask.prompt, next) };
            engine.arrive(now, Job { attempt: AttemptKey(next), prompt, output_tokens: ask.output_tokens });
            engine.advance(now, &mut happened);
            asks.insert(next, ask);
            next += 1;
        }
        for happening in happened.drain(..) {
            if happening.what == What::Ended
                && let Some(ask) = asks.remove(&happening.attempt.0)
            {
                ended += u64::from(now >= WARMUP);
                source.over(&ask, true, &mut rng);
            }
        }
        let Some(due) = engine.next_due() else { break };
        now = due;
        engine.advance(now, &mut happened);
    }
    Ok(ended as f64 / MEASURED.as_secs_f64())
}

/// A prompt of the same length of which no cache holds anything.
fn unlike_any(prompt: Prompt, number: u32) -> Prompt {
    Prompt {
        group: u32::MAX - number,
        session: u32::MAX - number,
        group_tokens: 0,
        session_tokens: 0,
        own_tokens: prompt.tokens(),
        is_continued: false,
    }
}

#[cfg(test)]
mod tests;
