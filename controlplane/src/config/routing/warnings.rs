//! What is allowed in a document, but usually turns out a mistake.

use std::time::Duration;

use stargate_routing::{
    Algorithm, PrimaryAdmission, PulsarWaitAndWidenParameters, RendezvousWeight, Waiting, Widening,
};

use super::{
    document::{Document, Entry},
    place::join,
};
use crate::{config::backends::StaticBackend, ranged::Throughput};

/// What a backend completes between two reports that it sends at every change, and the round trip, with
/// something to spare: below it a queue drains unseen, and strangers take its slots;
/// what `max_queued` is for is told in docs/routing.md.
const MAX_QUEUED_MIN: u64 = 4;
/// What it completes between two reports where it sends one a second.
const MAX_QUEUED_HEARTBEAT: u64 = 12;
/// Input tokens of an ordinary prompt with its context.
const PROMPT_TOKENS: f64 = 4096.0;

impl Document {
    /// One sentence for each; `backends` are those that are known beforehand.
    pub fn warnings(&self, backends: &[StaticBackend]) -> Vec<String> {
        let mut warnings = Vec::new();
        let of = |model: &str| {
            backends
                .iter()
                .filter(|backend| backend.models.iter().any(|known| known.as_str() == model))
                .collect::<Vec<_>>()
        };
        let of_default: Vec<_> = backends
            .iter()
            .filter(|backend| backend.models.iter().any(|model| !self.models.contains_key(model)))
            .collect();
        of_entry("default", &self.default, &of_default, &mut warnings);
        for (model, entry) in &self.models {
            let path = join("models", model.as_str());
            let serving = of(model.as_str());
            if !backends.is_empty() && serving.is_empty() {
                warnings.push(format!(
                    "{path}: no static backend serves it; it applies only if one registers for it"
                ));
            }
            of_entry(&path, entry, &serving, &mut warnings);
        }
        for backend in backends {
            for model in &backend.models {
                if let Some(missing) = missing_weight(self.entry(model.as_str()), backend) {
                    warnings.push(format!(
                        "backend {:?} has no {missing}, by which {} weighs model {:?}: it gets no keys until \
                         it reports one",
                        backend.id.as_str(),
                        self.entry(model.as_str()).method.algorithm.kind().as_str(),
                        model.as_str()
                    ));
                }
            }
        }
        warnings
    }
}

/// The weight that the entry's algorithm ranks by and the backend does not have. A throughput nobody gives is
/// learned from traffic; only the highest one is not.
fn missing_weight(entry: &Entry, backend: &StaticBackend) -> Option<&'static str> {
    let (_, weight) = entry.method.algorithm.ranked_by()?;
    (weight == RendezvousWeight::MaxInputTps && backend.max_input_tps.is_none()).then_some("max_input_tps")
}

fn of_entry(path: &str, entry: &Entry, backends: &[&StaticBackend], warnings: &mut Vec<String>) {
    let mut warn = |text: String| warnings.push(format!("{path}: {text}"));
    let waiting = &entry.fields.waiting;
    let widening = match &entry.method.algorithm {
        Algorithm::WaitAndWiden(parameters) => {
            if parameters.affinity_group == 0 && !parameters.widening.affinity_wait.is_zero() {
                warn(
                    "cache_affinity_wait_ms does nothing while cache_affinity_backend_selection_count is 0"
                        .into(),
                );
            }
            &parameters.widening
        }
        Algorithm::PulsarWaitAndWiden(parameters) => {
            of_bands(parameters, backends, &mut warn);
            &parameters.widening
        }
        Algorithm::PowerOfN(_) | Algorithm::RoundRobin | Algorithm::Random | Algorithm::Pulsar(_) => {
            if waiting.default_max_wait == Waiting::MAX_WAIT && waiting.slo.is_none() {
                warn(unbounded());
            }
            return;
        }
    };
    let is_bounded = !waiting.default_max_wait.is_zero() && waiting.default_max_wait < Waiting::MAX_WAIT;
    if !is_bounded && waiting.slo.is_none() {
        warn(unbounded());
    }
    of_affinity_wait(widening, waiting, &mut warn);
}

fn unbounded() -> String {
    "requests may wait for 60 s, and under overload nearly all do, to be answered too late; set \
     default_max_wait_ms below 60000, or slo_ms"
        .into()
}

fn of_bands(
    parameters: &PulsarWaitAndWidenParameters,
    backends: &[&StaticBackend],
    warn: &mut impl FnMut(String),
) {
    let widening = &parameters.widening;
    if parameters.affinity_wait_spread > 0.0 && parameters.primary_admission == PrimaryAdmission::Eligible {
        warn(
            "cache_affinity_wait_spread makes nobody leave a busy primary while primary_admission is \
             \"eligible\": it goes with \"capacity\""
                .into(),
        );
    }
    match (parameters.primary_admission, widening.queue_slo) {
        (PrimaryAdmission::Eligible, None) => warn(
            "a full primary never overflows: without a queue SLO primary_admission = \"eligible\" takes it \
             at once, however long its queue; \"capacity\" widens when it is full"
                .into(),
        ),
        (PrimaryAdmission::Eligible, Some(slo)) => {
            let fastest = backends
                .iter()
                .filter_map(|backend| backend.last_mean_input_tps)
                .map(Throughput::get)
                .reduce(f64::max);
            let tokens = fastest.map(|tps| tps * slo.ceil().as_secs_f64());
            if let Some(tokens) = tokens.filter(|tokens| *tokens < PROMPT_TOKENS) {
                warn(format!(
                    "max_queue_time_ceil_ms = {} is {tokens:.0} tokens of queued prefill at the fastest of its \
                     backends: one ordinary prompt ahead, and a key is refused its primary; \
                     primary_admission = \"capacity\" has no such cliff",
                    slo.ceil().as_millis()
                ));
            }
        }
        (PrimaryAdmission::Capacity, _) => {}
    }
    let is_limited =
        parameters.primary_admission == PrimaryAdmission::Capacity || widening.queue_slo.is_some();
    if is_limited && widening.max_queued < MAX_QUEUED_MIN {
        warn(format!(
            "max_queued = {} is below what a backend completes before its next report is seen: its queue \
             drains unseen, and other keys take its slots; {MAX_QUEUED_MIN} where stats are pushed at every \
             change, {MAX_QUEUED_HEARTBEAT} for reports once a second",
            widening.max_queued
        ));
    }
}

fn of_affinity_wait(widening: &Widening, waiting: &Waiting, warn: &mut impl FnMut(String)) {
    let wait = widening.affinity_wait;
    let slo = waiting.slo.map(Duration::from);
    for (name, bound) in [
        ("default_max_wait_ms", Some(waiting.default_max_wait).filter(|bound| !bound.is_zero())),
        ("slo_ms", slo),
    ] {
        if let Some(bound) = bound.filter(|bound| *bound <= wait) {
            warn(format!(
                "{name} = {} ends the wait before cache_affinity_wait_ms = {} lets a request go elsewhere",
                bound.as_millis(),
                wait.as_millis()
            ));
        }
    }
}
