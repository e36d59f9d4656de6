//! Stage four: decide where a request goes and take the place in the same breath, or wait for one.
//!
//! A decision is [`Claim::decide`], for a request that has just come and for one that waits alike. What it is
//! decided by is taken from the snapshot once and kept, whatever is configured while the request waits or is
//! retried.

use std::{
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use stargate_routing::{
    AdmissionRefusal, Backend, ClusterUid, Decision, Exclusions, Method, Millis, Policy, RoutingRequest,
    Seconds, Selected, Target, TargetName, UnavailableReason, Waiting, admit, best_ttft, decide_and_enter,
    has_place,
};

use crate::{
    core::{
        Core,
        reserved::Reserved,
        waiting::{Waiter, pass},
    },
    error::{ErrorCode, Refusal, Rejection, Unserved},
    io::client::{
        Client,
        race::{Raced, race},
    },
    observation::{Selection, WaitedFor},
    stages::{account::Exchange, derive::Derived, routing_method},
};

/// How long past its deadline a waiter looks after itself: only if whoever serves waiters failed.
const BACKSTOP: Duration = Duration::from_secs(1);

/// A backend chosen, and a place in it.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) backend: Arc<Backend>,
    pub(crate) cluster: ClusterUid,
    pub(crate) cluster_id: Arc<str>,
    pub(crate) reserved: Reserved,
    pub(crate) selection: Selection,
    pub(crate) expected_queue: Option<Duration>,
}

/// What a request is routed by, from its first decision to its last.
#[derive(Clone, Debug)]
pub(crate) struct Routed {
    policy: Arc<Policy>,
    /// What the request selected by `x-routing-method`, in place of the policy's own.
    selected: Option<Rc<Method>>,
    slo: Option<Millis>,
    patience: Patience,
}

/// How long a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Counted from its arrival.
    pub(crate) deadline: Duration,
    source: PatienceSource,
}

/// Who says how long a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatienceSource {
    /// `x-max-wait-ms`.
    Request,
    /// `default_max_wait_ms` of its model.
    Model,
    /// Nobody: a wait whose end is known is waited for, and nothing else.
    Nobody,
}

/// All that a decision needs, but for the snapshot and the time.
#[derive(Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) routed: &'a Routed,
    /// What it asks for; its `elapsed` is set by each decision.
    pub(crate) request: RoutingRequest<'a>,
    pub(crate) exclusions: &'a Exclusions,
    pub(crate) arrived: Instant,
}

/// What came of a decision.
pub(crate) enum Verdict {
    Chosen(Choice),
    /// Decide again at `until`, counted from the arrival, or when something changes.
    Wait {
        until: Duration,
        reason: WaitedFor,
    },
    Refused(Refusal),
}

/// What came of the first decision.
pub(crate) enum First {
    Chosen(Choice),
    /// With the version of the snapshot that was decided on.
    Wait(Arc<TargetName>, Rc<Waiter>, u64),
    Refused(Refusal),
}

/// Decides, and waits for a place where there is none but may be one in time.
pub(crate) async fn choose(
    core: &Core,
    client: &mut Client,
    exchange: &mut Exchange,
    derived: &Derived,
    routed: &mut Option<Routed>,
    exclusions: &Exclusions,
) -> Result<Choice, Unserved> {
    let began = Instant::now();
    let end = match first_decision(core, exchange, derived, routed, exclusions, began) {
        First::Chosen(choice) => Ok(choice),
        First::Refused(refusal) => Err(refusal),
        First::Wait(target, waiter, version) => {
            let left = waiter.deadline().saturating_duration_since(began) + BACKSTOP;
            match core.waiting.join(core, target, waiter, version, began) {
                Err(refusal) => Err(refusal),
                Ok(mut waiting) => {
                    let raced = race(&mut waiting, &mut client.watch, left).await;
                    exchange.has_waited(waiting.reason(), began.elapsed());
                    match raced {
                        Raced::Done(outcome) => outcome,
                        Raced::TimedOut => Err(waiting.expired()),
                        Raced::ClientLeft => {
                            exchange.routing += began.elapsed();
                            return Err(Unserved::ClientLeft);
                        }
                    }
                }
            }
        }
    };
    exchange.routing += began.elapsed();
    end.map_err(Unserved::Refused)
}

pub(crate) fn first_decision(
    core: &Core,
    exchange: &mut Exchange,
    derived: &Derived,
    routed: &mut Option<Routed>,
    exclusions: &Exclusions,
    now: Instant,
) -> First {
    let routing_key = derived.headers.routing_key.as_deref();
    let arrived = exchange.started;
    core.with_snapshot(|snapshot| {
        let target = snapshot.target(routing_key, &derived.model);
        let is_new = routed.is_none();
        let routed = match (routed, target) {
            (Some(routed), _) => &*routed,
            (none, Some(target)) => {
                exchange.target = Some(target.name.clone());
                match Routed::new(core, target, derived) {
                    Ok(routed) => none.insert(routed),
                    Err(refusal) => return First::Refused(refusal),
                }
            }
            (None, None) => {
                exchange.model.clone_from(&derived.model);
                return First::Refused(unknown_target(routing_key, &derived.model));
            }
        };
        let mut claim = Claim { routed, request: derived.request(routed.slo), exclusions, arrived };
        if let Some(target) = target {
            if is_new && let Err(refusal) = claim.admit(core, target) {
                return First::Refused(refusal);
            }
            if core.waiting.has_waiters(&target.name) && claim.has_place(core, target, now) {
                // There is a place: those with better claims are asked first whether it is theirs.
                claim.request.is_waiting =
                    pass::serve_ahead(core, target, claim.request.priority, arrived, now);
            }
        }
        match claim.decide(core, target, &derived.model, now) {
            Verdict::Chosen(choice) => First::Chosen(choice),
            Verdict::Refused(refusal) => First::Refused(refusal),
            Verdict::Wait { until, reason } => {
                if let Some(refusal) = target.and_then(|target| claim.unreachable_slo(core, target, now)) {
                    return First::Refused(refusal);
                }
                let name = target.map(|target| target.name.clone()).or_else(|| exchange.target.clone());
                match name {
                    Some(name) => First::Wait(name, Waiter::new(&claim, until, reason), snapshot.version),
                    // Had it never had a target, it would have been refused above.
                    None => First::Refused(unknown_target(routing_key, &derived.model)),
                }
            }
        }
    })
}

/// The refusal of a request whose target nobody serves.
pub(crate) fn unknown_target(routing_key: Option<&str>, model: &str) -> Refusal {
    let scope = if routing_key.is_some() { " for this routing key" } else { "" };
    let message = format!("nobody serves the model `{model}`{scope}; GET /v1/models lists what is served");
    Refusal::new(ErrorCode::NoEligibleCandidates, message)
}

// === impl Routed ===

impl Routed {
    /// Fails when the request selects a method that it may not.
    fn new(core: &Core, target: &Target, derived: &Derived) -> Result<Self, Refusal> {
        let policy = target.policy.clone();
        let expression = derived.headers.routing_method.as_deref();
        let selected =
            expression.map(|expression| routing_method::resolve(core, &policy, expression)).transpose()?;
        let slo = derived.slo(&policy.waiting);
        let patience = Patience::new(derived.headers.max_wait, &policy.waiting);
        Ok(Self { policy, selected, slo, patience })
    }

    /// How a cluster is chosen, and who is let in.
    fn method(&self) -> &Method {
        self.selected.as_deref().unwrap_or(&self.policy.method)
    }

    /// How it waits.
    pub(crate) fn waiting(&self) -> &Waiting {
        &self.policy.waiting
    }

    /// When waiting becomes pointless, from the arrival.
    pub(crate) fn limit(&self) -> Duration {
        self.slo.map_or(self.patience.deadline, |slo| self.patience.deadline.min(slo.into()))
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }
}

// === impl Patience ===

impl Patience {
    fn new(asked: Option<Duration>, waiting: &Waiting) -> Self {
        let (deadline, source) = match asked {
            Some(asked) => (asked, PatienceSource::Request),
            None if waiting.default_max_wait > Duration::ZERO => {
                (waiting.default_max_wait, PatienceSource::Model)
            }
            None => (Waiting::MAX_WAIT, PatienceSource::Nobody),
        };
        Self { deadline: deadline.min(Waiting::MAX_WAIT), source }
    }

    /// Whether the request waits also where nobody knows for how long it will have to.
    fn has_budget(self) -> bool {
        self.source != PatienceSource::Nobody
    }
}

// === impl Claim ===

impl Claim<'_> {
    /// Decides, and takes the place. `target` is `None` when nobody serves it any more.
    pub(crate) fn decide(&self, core: &Core, target: Option<&Target>, model: &str, now: Instant) -> Verdict {
        let Some(target) = target else {
            return self.unavailable(UnavailableReason::NoActiveBackend, model, now);
        };
        let algorithm = &self.routed.method().algorithm;
        let decide = |request: &RoutingRequest<'_>| {
            let state = &mut core.decisions.borrow_mut();
            decide_and_enter(target, algorithm, request, self.exclusions, state, core.elapsed_at(now))
        };
        let request = self.request_at(now);
        let (mut decision, mut running) = decide(&request);
        if request.is_waiting && matches!(&decision, Decision::Unavailable(reason) if self.is_final(*reason))
        {
            // It waits for nothing any more. A place that is there, but another gateway's, is better than a refusal.
            (decision, running) = decide(&RoutingRequest { is_waiting: false, ..request });
        }
        let selected = match decision {
            Decision::Selected(selected) => selected,
            Decision::Wait(wait) => {
                debug_assert!(wait.until > now.saturating_duration_since(self.arrived), "it would not end");
                let reason = WaitedFor::Wait(wait.reason);
                return self.wait(wait.until, reason, model, now);
            }
            Decision::Unavailable(reason) => return self.unavailable(reason, model, now),
        };
        let Selected { cluster, backend, rank, is_fallback, after_kv_skip, queue_delay } = selected;
        let cluster = &target.clusters[cluster.0];
        // It is there whenever a backend was selected.
        let Some(running) = running else {
            return self.unavailable(UnavailableReason::NoActiveBackend, model, now);
        };
        Verdict::Chosen(Choice {
            backend,
            cluster: cluster.uid,
            cluster_id: cluster.cluster_id.clone(),
            reserved: Reserved::new(core, running, &target.name),
            selection: Selection { algorithm: algorithm.kind(), rank, is_fallback, after_kv_skip },
            expected_queue: queue_delay,
        })
    }

    /// The refusal of a request that cannot get its first token within its SLO any more, whatever becomes free.
    pub(crate) fn unreachable_slo(&self, core: &Core, target: &Target, now: Instant) -> Option<Refusal> {
        let slo = Duration::from(self.routed.slo.filter(|_| self.routed.waiting().shed_unreachable)?);
        let request = self.request_at(now);
        let algorithm = &self.routed.method().algorithm;
        let best: Seconds = best_ttft(target, algorithm, &request, self.exclusions, &core.loads)?;
        // Longer than a `Duration` holds is longer than any SLO.
        let best = best.to_duration().unwrap_or(Duration::MAX);
        if request.elapsed.saturating_add(best) <= slo {
            return None;
        }
        let message = format!(
            "the model `{}` is too busy for this request: {:?} after its arrival its first token takes {best:?} \
             more at best, and its SLO (x-request-slo-ms, or slo_ms of the model) is {slo:?}",
            target.name.model, request.elapsed
        );
        let refusal = Refusal::rejection(ErrorCode::SloUnreachable, Rejection::SloUnreachable, message);
        // Once so much of the work ahead is done, a new request would be in time.
        Some(refusal.retry_after(best.saturating_sub(slo)))
    }

    /// The refusal of a request that has waited as long as it may.
    pub(crate) fn expired(&self, until: Duration, reason: WaitedFor, model: &str, now: Instant) -> Refusal {
        let Patience { deadline, source } = self.routed.patience;
        let says = match source {
            PatienceSource::Request => "x-max-wait-ms of the request",
            PatienceSource::Model => "default_max_wait_ms of the model",
            PatienceSource::Nobody => "the longest that any request waits",
        };
        let (code, why) = match reason {
            WaitedFor::Unavailable(reason) => (code_of(reason), why(reason)),
            WaitedFor::Wait(_) => (ErrorCode::NoCapacity, "no cluster that it may go to by now has a place"),
        };
        let message =
            format!("the model `{model}` cannot serve this request within {deadline:?} ({says}): {why}");
        let elapsed = now.saturating_duration_since(self.arrived);
        Refusal::rejection(code, Rejection::WaitExpired, message).retry_after(until.saturating_sub(elapsed))
    }

    fn admit(&self, core: &Core, target: &Target) -> Result<(), Refusal> {
        let method = self.routed.method();
        admit(target, method, &self.request, self.exclusions, &core.loads).map_err(|refused| {
            let model = &target.name.model;
            let message = match refused {
                AdmissionRefusal::AffinityKeyRequired => format!(
                    "the model `{model}` is configured to require an affinity key: send \
                     x-cache-affinity-key, x-multi-turn-session-id or `prompt_cache_key` in the body"
                ),
                AdmissionRefusal::InputTokensRequired => {
                    format!("the model `{model}` is configured to require the header x-input-tokens")
                }
                AdmissionRefusal::InputWorkLimitExceeded => format!(
                    "the model `{model}` is too busy: the input queued and this request's own take its clusters \
                     longer than max_input_work_seconds ({})",
                    self.routed.method().admission.max_input_work_seconds.unwrap_or_default()
                ),
                AdmissionRefusal::InputWorkCapacityUnavailable => format!(
                    "the model `{model}` is limited by max_input_work_seconds, but no cluster that this request \
                     may go to reports a throughput to tell its work by"
                ),
            };
            Refusal::rejection(refused.into(), Rejection::Admission(refused), message)
        })
    }

    /// Whether a decision now would find a place. Takes none, and nobody's turn.
    fn has_place(&self, core: &Core, target: &Target, now: Instant) -> bool {
        let algorithm = &self.routed.method().algorithm;
        let state = &mut core.decisions.borrow_mut();
        has_place(target, algorithm, &self.request_at(now), self.exclusions, state)
    }

    fn request_at(&self, now: Instant) -> RoutingRequest<'_> {
        RoutingRequest { elapsed: now.saturating_duration_since(self.arrived), ..self.request }
    }

    fn wait(&self, until: Duration, reason: WaitedFor, model: &str, now: Instant) -> Verdict {
        if now.saturating_duration_since(self.arrived) >= self.routed.patience.deadline {
            return Verdict::Refused(self.expired(until, reason, model, now));
        }
        Verdict::Wait { until, reason }
    }

    /// Whether a request that gets this answer is refused, and not to wait until it is another.
    fn is_final(&self, reason: UnavailableReason) -> bool {
        // What failed within this request does not come back within it, and what a cluster reports of itself
        // hardly ever changes.
        let can_change = matches!(reason, UnavailableReason::NoActiveBackend | UnavailableReason::NoCapacity);
        !can_change || !self.routed.patience.has_budget()
    }

    fn unavailable(&self, reason: UnavailableReason, model: &str, now: Instant) -> Verdict {
        if !self.is_final(reason) {
            return self.wait(self.routed.patience.deadline, WaitedFor::Unavailable(reason), model, now);
        }
        let message = format!("the model `{model}` cannot be served now: {}", why(reason));
        Verdict::Refused(Refusal::new(code_of(reason), message))
    }
}

fn why(reason: UnavailableReason) -> &'static str {
    match reason {
        UnavailableReason::NoActiveBackend => "none of its backends is active",
        UnavailableReason::AllExcluded => "every backend has failed for this request",
        UnavailableReason::NoCapacity => "every cluster is full",
        UnavailableReason::NoEligibleCandidate => "no cluster reports what the routing algorithm needs",
    }
}

fn code_of(reason: UnavailableReason) -> ErrorCode {
    match reason {
        UnavailableReason::NoCapacity => ErrorCode::NoCapacity,
        UnavailableReason::NoActiveBackend
        | UnavailableReason::AllExcluded
        | UnavailableReason::NoEligibleCandidate => ErrorCode::NoActiveBackend,
    }
}
