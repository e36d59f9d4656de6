//! Stage four: decide where a request goes and take the place in the same breath, or wait for one.
//!
//! What it is decided by is taken from the snapshot once and kept (`Routed`), whatever is configured while it waits or
//! is retried. It waits where a ruling holds it ([`Ruling::Held`]), in its core's `WaitRoom`.

use std::time::{Duration, Instant};

use stargate_routing::{Exclusions, Ruling, Target};

use crate::{
    core::{
        Core,
        placing::{Placement, Routed, not_admitted, refusal, unknown_target},
        waiting::{Newcomer, Waiter, WaiterHandle},
    },
    error::{Refusal, Unserved},
    io::client::{
        Client,
        race::{Raced, race},
    },
    stages::{account::Exchange, derive::Derived, routing_method},
};

/// How long past its deadline a waiter looks after itself: only if whoever serves waiters failed.
const BACKSTOP: Duration = Duration::from_secs(1);

/// What a request that comes is to do.
pub(crate) enum Next {
    Go(Placement),
    Join(Newcomer),
}

/// Decides, and waits for a place where there is none but may be one in time.
pub(crate) async fn choose(
    core: &Core,
    client: &mut Client,
    exchange: &mut Exchange,
    derived: &Derived,
    routed: &mut Option<Routed>,
    exclusions: &Exclusions,
) -> Result<Placement, Unserved> {
    let began = Instant::now();
    let outcome = match decide(core, exchange, derived, routed, exclusions, began) {
        Ok(Next::Go(placement)) => Ok(placement),
        Ok(Next::Join(newcomer)) => wait(core, client, exchange, newcomer, began).await,
        Err(refusal) => Err(refusal.into()),
    };
    exchange.routing += began.elapsed();
    outcome
}

async fn wait(
    core: &Core,
    client: &mut Client,
    exchange: &mut Exchange,
    newcomer: Newcomer,
    began: Instant,
) -> Result<Placement, Unserved> {
    let now = core.decider.time(began);
    let limit = newcomer.waiter.deadline().saturating_sub(now) + BACKSTOP;
    let mut waiting: WaiterHandle = core.waiting.join(newcomer, now)?;
    let raced = race(&mut waiting, &mut client.watch, limit).await;
    exchange.has_waited(waiting.reason(), began.elapsed());
    match raced {
        Raced::Done(outcome) => Ok(outcome?),
        Raced::TimedOut => Err(waiting.expired().into()),
        Raced::ClientLeft => Err(Unserved::ClientLeft),
    }
}

/// The decision of a request that comes, for the first time or after an attempt that failed.
pub(crate) fn decide(
    core: &Core,
    exchange: &mut Exchange,
    derived: &Derived,
    routed: &mut Option<Routed>,
    exclusions: &Exclusions,
    now: Instant,
) -> Result<Next, Refusal> {
    let decider = &*core.decider;
    let arrived = decider.time(exchange.started);
    let now = decider.time(now);
    decider.with_snapshot(|snapshot| {
        let routing_key = derived.headers.routing_key.as_deref();
        let target = snapshot.target(routing_key, &derived.model);
        let routed = match (routed, target) {
            (Some(routed), _) => &*routed,
            (none, Some(target)) => {
                exchange.target = Some(target.name.clone());
                let routed = none.insert(route(core, target, derived)?);
                let claim = routed.claim(derived.request(routed.slo()), exclusions, arrived);
                decider
                    .admit(routed, &claim, target)
                    .map_err(|refused| not_admitted(refused, routed.method(), &target.name.model))?;
                routed
            }
            (None, None) => {
                exchange.model.clone_from(&derived.model);
                return Err(unknown_target(routing_key, &derived.model));
            }
        };
        let mut claim = routed.claim(derived.request(routed.slo()), exclusions, arrived);
        if let Some(target) = target
            && core.waiting.has_waiters(&target.name)
            && decider.has_place(routed, &claim, target, now)
        {
            // There is a place: those with better claims are asked first whether it is theirs.
            claim.request.is_waiting = core.waiting.serve_ahead(target, claim.request.priority, arrived, now);
        }
        match decider.rule(routed, &claim, target, now) {
            Ruling::Placed(placement) => Ok(Next::Go(placement)),
            Ruling::Refused(refused) => {
                Err(refusal(refused, routed.patience(), &derived.model, claim.elapsed_at(now)))
            }
            Ruling::Held(hold) => {
                let name = target.map(|target| target.name.clone()).or_else(|| exchange.target.clone());
                // Had it never had a target, it would have been refused above.
                let target = name.ok_or_else(|| unknown_target(routing_key, &derived.model))?;
                let waiter = Waiter::new(routed, &claim, hold);
                Ok(Next::Join(Newcomer { target, waiter, version: snapshot.version }))
            }
        }
    })
}

/// What a request is routed by from now on.
///
/// # Errors
/// It selects a method that it may not.
fn route(core: &Core, target: &Target, derived: &Derived) -> Result<Routed, Refusal> {
    let policy = target.policy.clone();
    let expression = derived.headers.routing_method.as_deref();
    let selected =
        expression.map(|expression| routing_method::resolve(core, &policy, expression)).transpose()?;
    let slo = derived.slo(&policy.waiting);
    Ok(Routed::new(policy, selected, slo, derived.headers.max_wait))
}
