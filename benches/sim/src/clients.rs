//! What clients ask for: when the next request comes, of which session, and what its prompt is.

use std::{collections::VecDeque, path::Path, time::Duration};

use anyhow::{Context, ensure};

use super::{
    model::Prompt,
    scenario::{Arrivals, Clients, Growth, Popularity},
};

/// A request as a client sends it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) prompt: Prompt,
    pub(super) output_tokens: u32,
    /// Where the session is among those that are alive, to tell how each fares; `None` for one of its own.
    pub(super) place: Option<u32>,
}

/// The source of all requests of a run.
pub(super) struct Source<'a> {
    clients: &'a Clients,
    /// Requests a second at load 1.
    capacity_per_s: f64,
    sessions: Vec<Session>,
    /// By session: the sum of the weights up to it. Empty where all weigh the same.
    weights: Vec<f64>,
    /// Numbers that no session has had yet.
    next_session: u32,
    trace: VecDeque<Traced>,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    number: u32,
    /// Of its first prompt, or of all of them.
    prompt_tokens: u32,
    /// Of its next prompt, where they grow.
    grown_tokens: u32,
    in_flight: u32,
}

#[derive(Clone, Copy, Debug)]
struct Traced {
    at: Duration,
    session: u32,
    prompt_tokens: u32,
    output_tokens: u32,
}

/// How often a session is looked for whose last turn has been answered.
const PICKS: usize = 8;

// === impl Source ===

impl<'a> Source<'a> {
    /// `capacity_per_s` is what loads are shares of.
    pub(super) fn new(
        clients: &'a Clients,
        capacity_per_s: f64,
        rng: &mut fastrand::Rng,
    ) -> anyhow::Result<Self> {
        let trace = match &clients.arrivals.trace {
            Some(path) => read_trace(Path::new(path)).with_context(|| path.clone())?,
            None => VecDeque::new(),
        };
        let weights = match clients.popularity {
            Popularity::Zipf(exponent) => {
                let weights = (1..=clients.sessions).map(|rank| f64::from(rank).powf(-exponent));
                let sum = |total: &mut f64, weight| {
                    *total += weight;
                    Some(*total)
                };
                weights.scan(0.0, sum).collect()
            }
            Popularity::Uniform | Popularity::Distinct => Vec::new(),
        };
        let mut source =
            Self { clients, capacity_per_s, sessions: Vec::new(), weights, next_session: 0, trace };
        let count = if matches!(clients.popularity, Popularity::Distinct) { 0 } else { clients.sessions };
        for _ in 0..count {
            let mut session = source.new_session(rng);
            if let Some(growth) = &clients.growth {
                // They do not all begin with the run.
                let span = growth.prompt_tokens_max.saturating_sub(session.prompt_tokens);
                session.grown_tokens += rng.u32(0..=span);
            }
            source.sessions.push(session);
        }
        Ok(source)
    }

    /// How many clients send the next request when the last one has ended.
    pub(super) fn workers(&self) -> Option<u32> {
        self.clients.arrivals.workers
    }

    /// How long after `now` the next request comes; `None` when none does by itself.
    pub(super) fn next_pause(&mut self, now: Duration, rng: &mut fastrand::Rng) -> Option<Duration> {
        if let Some(next) = self.trace.front() {
            return Some(next.at.saturating_sub(now));
        }
        let (rate, until) = self.rate_at(now)?;
        let pause = Duration::from_secs_f64((-(1.0 - rng.f64()).ln() / rate.max(1e-9)).min(1e6));
        match until {
            // Without memory: what is left of a pause is as good as a new one.
            Some(until) if now + pause > until => {
                Some(until.saturating_sub(now) + self.next_pause(until, rng)?)
            }
            _ => Some(pause),
        }
    }

    /// The request that comes now.
    pub(super) fn next(&mut self, now: Duration, rng: &mut fastrand::Rng) -> Ask {
        if let Some(traced) = self.trace.pop_front() {
            let Traced { session, prompt_tokens, output_tokens, .. } = traced;
            let prompt = self.prompt(session, prompt_tokens);
            return Ask { prompt, output_tokens, place: None };
        }
        let output_tokens = self.clients.output_tokens.draw(rng);
        if matches!(self.clients.popularity, Popularity::Distinct) {
            let session = self.new_session(rng);
            let prompt = self.prompt(session.number, session.prompt_tokens);
            return Ask { prompt, output_tokens, place: None };
        }
        let place = self.pick(now, rng);
        let session = &mut self.sessions[place];
        session.in_flight += 1;
        let session = *session;
        let prompt = match self.clients.growth {
            Some(_) => self.grown_prompt(&session),
            None => self.prompt(session.number, session.prompt_tokens),
        };
        Ask { prompt, output_tokens, place: Some(place as u32) }
    }

    /// A request is over; `is_answered` when it got its whole answer.
    pub(super) fn over(&mut self, ask: &Ask, is_answered: bool, rng: &mut fastrand::Rng) {
        let Some(place) = ask.place else { return };
        let session = &mut self.sessions[place as usize];
        session.in_flight -= 1;
        let Some(Growth { turn_tokens, prompt_tokens_max }) = self.clients.growth else { return };
        // Of turns that overlap the first answer is the one that the session goes on with.
        if !is_answered || session.number != ask.prompt.session || session.grown_tokens != ask.prompt.tokens()
        {
            return;
        }
        session.grown_tokens += ask.output_tokens + turn_tokens;
        if session.grown_tokens > prompt_tokens_max {
            let in_flight = session.in_flight;
            let begun = self.new_session(rng);
            self.sessions[place as usize] = Session { in_flight, ..begun };
        }
    }

    fn rate_at(&self, now: Duration) -> Option<(f64, Option<Duration>)> {
        let Arrivals { rate, load, stages, .. } = &self.clients.arrivals;
        if let Some(rate) = rate {
            return Some((*rate, None));
        }
        if let Some(load) = load {
            return Some((load * self.capacity_per_s, None));
        }
        let next = stages.iter().position(|stage| Duration::from_secs_f64(stage.from_s) > now);
        let until = next.map(|next| Duration::from_secs_f64(stages[next].from_s));
        let stage = stages[..next.unwrap_or(stages.len())].last();
        if stage.is_none() && until.is_none() {
            return None;
        }
        Some((stage.map_or(0.0, |stage| stage.load * self.capacity_per_s), until))
    }

    fn pick(&self, now: Duration, rng: &mut fastrand::Rng) -> usize {
        let mut place = self.pick_any(now, rng);
        if self.clients.growth.is_some() {
            for _ in 1..PICKS {
                if self.sessions[place].in_flight == 0 {
                    break;
                }
                place = self.pick_any(now, rng);
            }
        }
        place
    }

    fn pick_any(&self, now: Duration, rng: &mut fastrand::Rng) -> usize {
        if let Some(hot) = self.clients.hot {
            let is_hot = (hot.from_s..hot.until_s).contains(&now.as_secs_f64());
            if is_hot && rng.f64() < hot.share {
                return rng.usize(0..hot.sessions as usize);
            }
        }
        match self.weights.last() {
            None => rng.usize(0..self.sessions.len()),
            Some(total) => {
                let at = rng.f64() * total;
                self.weights.partition_point(|sum| *sum <= at).min(self.sessions.len() - 1)
            }
        }
    }

    fn new_session(&mut self, rng: &mut fastrand::Rng) -> Session {
        let prompt_tokens = self.clients.prompt_tokens.draw(rng);
        let number = self.next_session;
        self.next_session += 1;
        Session { number, prompt_tokens, grown_tokens: prompt_tokens, in_flight: 0 }
    }

    fn prompt(&self, session: u32, tokens: u32) -> Prompt {
        let shared = (f64::from(tokens) * self.clients.shared) as u32;
        let group_tokens = self.clients.group_tokens.min(shared);
        Prompt {
            group: session % self.clients.groups,
            session,
            group_tokens,
            session_tokens: shared - group_tokens,
            own_tokens: tokens - shared,
            is_continued: false,
        }
    }

    fn grown_prompt(&self, session: &Session) -> Prompt {
        let group_tokens = self.clients.group_tokens.min(session.grown_tokens);
        Prompt {
            group: session.number % self.clients.groups,
            session: session.number,
            group_tokens,
            session_tokens: session.grown_tokens - group_tokens,
            own_tokens: 0,
            is_continued: true,
        }
    }
}

fn read_trace(path: &Path) -> anyhow::Result<VecDeque<Traced>> {
    let text = std::fs::read_to_string(path)?;
    let mut traced = VecDeque::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = || {
            format!("line {}: found {line:?}, allowed: at_s,session,prompt_tokens,output_tokens", number + 1)
        };
        let mut fields = line.split(',').map(str::trim);
        let mut field = || fields.next().with_context(place);
        let at =
            field()?.parse().ok().and_then(|at| Duration::try_from_secs_f64(at).ok()).with_context(place)?;
        let mut whole = || field()?.parse::<u32>().with_context(place);
        let entry = Traced { at, session: whole()?, prompt_tokens: whole()?, output_tokens: whole()? };
        ensure!(entry.prompt_tokens > 0 && entry.output_tokens > 0, "{}", place());
        ensure!(
            traced.back().is_none_or(|last: &Traced| last.at <= at),
            "line {}: before the one above",
            number + 1
        );
        traced.push_back(entry);
    }
    Ok(traced)
}

#[cfg(test)]
mod tests;
