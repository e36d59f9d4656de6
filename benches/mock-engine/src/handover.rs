//! Which attempts the engine's stats include, by gateway and core: a publisher's side of docs/handover.md.
//!
//! An attempt is noted in the step that counts it in the stats, or that refuses it for good, so a report made
//! between two steps says the same of both. What is below the highest number noted and has not been noted itself
//! is on its way, or lost: these are the exceptions. They are given up, and then count as included, when there are
//! too many or they have been missing for too long: a gateway whose attempt was lost has seen that for itself.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

/// Most gateways that are remembered; beyond, the one that was silent longest is forgotten.
const GATEWAYS_MAX: usize = 64;

/// Most cores of a gateway; attempts of further ones are never reported as included, which is safe.
const CORES_MAX: usize = 1024;

/// Most exceptions of a core.
const EXCEPTIONS_MAX: usize = 256;

/// An attempt that takes longer than this to arrive does not arrive.
const MISSING_TIME_MAX: Duration = Duration::from_secs(10);

/// Names an attempt: `<gateway>.<core>.<sequence>`, as `x-stargate-attempt` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    gateway: u32,
    core: u16,
    sequence: u64,
}

/// What has been noted of all gateways.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    gateways: HashMap<u32, Gateway>,
}

#[derive(Debug)]
struct Gateway {
    last_noted: Instant,
    cores: BTreeMap<u16, Core>,
}

#[derive(Debug, Default)]
struct Core {
    highest: u64,
    /// Below `highest`, in order; therefore also ordered by `since`.
    missing: VecDeque<Missing>,
}

#[derive(Clone, Copy, Debug)]
struct Missing {
    sequence: u64,
    since: Instant,
}

// === impl Stamp ===

impl Stamp {
    /// Reads a header's value; `None` where it is no stamp.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let mut parts = str::from_utf8(value).ok()?.split('.');
        let (gateway, core, sequence) = (parts.next()?, parts.next()?, parts.next()?);
        let is_whole = parts.next().is_none()
            && gateway.len() == 8
            && gateway.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && [core, sequence].iter().all(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        let stamp = Self {
            gateway: u32::from_str_radix(gateway, 16).ok()?,
            core: core.parse().ok()?,
            sequence: sequence.parse().ok()?,
        };
        (is_whole && stamp.sequence > 0).then_some(stamp)
    }
}

// === impl Handover ===

impl Handover {
    /// Notes an attempt that the stats count from now on, or never will.
    pub(crate) fn note(&mut self, stamp: Stamp, now: Instant) {
        if self.gateways.len() >= GATEWAYS_MAX && !self.gateways.contains_key(&stamp.gateway) {
            let silent =
                self.gateways.iter().min_by_key(|(_, gateway)| gateway.last_noted).map(|(id, _)| *id);
            self.gateways.remove(&silent.expect("there are many"));
        }
        let new = || Gateway { last_noted: now, cores: BTreeMap::new() };
        let gateway = self.gateways.entry(stamp.gateway).or_insert_with(new);
        gateway.last_noted = now;
        if gateway.cores.len() < CORES_MAX || gateway.cores.contains_key(&stamp.core) {
            gateway.cores.entry(stamp.core).or_default().note(stamp.sequence, now);
        }
    }

    /// Forgets everything. For an engine that is about to register anew: gateways number their attempts at the new
    /// registration from 1 again.
    pub(crate) fn forget(&mut self) {
        self.gateways.clear();
    }

    /// `attempts` of the stats that are made in the same step.
    pub(crate) fn report(&mut self, now: Instant) -> Value {
        let gateways = self.gateways.iter_mut().map(|(id, gateway)| {
            let cores = gateway.cores.iter_mut().map(|(id, core)| (id.to_string(), core.report(now)));
            (format!("{id:08x}"), Value::Object(cores.collect()))
        });
        Value::Object(gateways.collect::<Map<_, _>>())
    }
}

// === impl Core ===

impl Core {
    fn note(&mut self, sequence: u64, now: Instant) {
        if let Ok(index) = self.missing.binary_search_by_key(&sequence, |missing| missing.sequence) {
            self.missing.remove(index);
            return;
        }
        if sequence <= self.highest {
            // It was noted or given up, and no number is used twice: the gateway has begun to number anew.
            *self = Self::default();
        }
        // What would be given up at once need not be looked at.
        let first = sequence.saturating_sub(EXCEPTIONS_MAX as u64).max(self.highest + 1);
        self.missing.extend((first..sequence).map(|sequence| Missing { sequence, since: now }));
        let surplus = self.missing.len().saturating_sub(EXCEPTIONS_MAX);
        self.missing.drain(..surplus);
        self.highest = sequence;
    }

    fn report(&mut self, now: Instant) -> Value {
        let is_lost = |missing: &Missing| now.saturating_duration_since(missing.since) > MISSING_TIME_MAX;
        let lost = self.missing.partition_point(is_lost);
        self.missing.drain(..lost);
        let except: Vec<u64> = self.missing.iter().map(|missing| missing.sequence).collect();
        json!({"through": self.highest, "except": except})
    }
}

#[cfg(test)]
mod tests;
