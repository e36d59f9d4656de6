//! What a core decides by: the current snapshot, what it has sent, and its clock.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use stargate_routing::{
    AdmissionRefusal, Claim, CoreLoads, Deciding, DecisionState, Hold, Ruling, Snapshot, Taken, Target, admit,
};

use super::{
    placement::Placement,
    reserved::Reserved,
    routed::Routed,
    vacancies::{TargetKey, Vacancies},
};
use crate::{
    SharedSnapshot,
    core::{levels::Levels, wakeup::Wakeup},
};

/// Decides for one core.
#[derive(Debug)]
pub(crate) struct Decider {
    /// What times are counted from.
    started: Instant,
    levels: Arc<Levels>,
    snapshot: RefCell<arc_swap::Cache<SharedSnapshot, Arc<Snapshot>>>,
    state: RefCell<DecisionState>,
    /// What this core has sent to clusters.
    pub(crate) loads: Rc<CoreLoads>,
    /// Wakes the task that tells the other cores.
    pub(crate) load_changed: Rc<Wakeup>,
    /// Tells those who wait what has become free.
    pub(crate) vacancies: Rc<Vacancies>,
}

// === impl Decider ===

impl Decider {
    pub(crate) fn new(loads: CoreLoads, snapshot: SharedSnapshot, levels: Arc<Levels>, now: Instant) -> Self {
        let state = DecisionState::new().with_loads(loads);
        Self {
            started: now,
            levels,
            snapshot: RefCell::new(arc_swap::Cache::new(snapshot)),
            loads: state.loads().clone(),
            state: RefCell::new(state),
            load_changed: Rc::default(),
            vacancies: Rc::default(),
        }
    }

    /// Looks at the current snapshot. What is taken out of it must not hold on to the whole.
    pub(crate) fn with_snapshot<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> T {
        let mut snapshot = self.snapshot.borrow_mut();
        let snapshot = snapshot.load();
        if self.levels.snapshot_version.get() != snapshot.version {
            self.levels.snapshot_version.set(snapshot.version);
            self.loads.follow(snapshot);
            self.load_changed.wake();
        }
        look(snapshot)
    }

    /// A moment as it counts here: since the core's start.
    pub(crate) fn time(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.started)
    }

    /// Lets a request in that is to be routed like this, or says why not.
    pub(crate) fn admit(
        &self,
        routed: &Routed,
        claim: &Claim<'_>,
        target: &Target,
    ) -> Result<(), AdmissionRefusal> {
        admit(target, routed.method(), &claim.request, claim.exclusions, &self.loads)
    }

    /// Whether a decision now would find a place. Takes none, and nobody's turn.
    pub(crate) fn has_place(
        &self,
        routed: &Routed,
        claim: &Claim<'_>,
        target: &Target,
        now: Duration,
    ) -> bool {
        let request = claim.request_at(now);
        self.deciding(routed, Some(target), now, |deciding| deciding.has_place(&request, claim.exclusions))
    }

    /// Rules on a request that comes, and takes its place. `target` is `None` when nobody serves it any more.
    pub(crate) fn rule(
        &self,
        routed: &Routed,
        claim: &Claim<'_>,
        target: Option<&Target>,
        now: Duration,
    ) -> Ruling<Placement> {
        self.deciding(routed, target, now, |deciding| {
            claim.rule(deciding, now).map(|taken| self.placement(routed, taken))
        })
    }

    /// Rules again on one that was held, and takes its place.
    pub(crate) fn rule_again(
        &self,
        routed: &Routed,
        claim: &Claim<'_>,
        held: Hold,
        target: Option<&Target>,
        now: Duration,
    ) -> Ruling<Placement> {
        self.deciding(routed, target, now, |deciding| {
            claim.rule_again(held, deciding, now).map(|taken| self.placement(routed, taken))
        })
    }

    fn deciding<'t, T>(
        &self,
        routed: &'t Routed,
        target: Option<&'t Target>,
        now: Duration,
        decide: impl FnOnce(&mut Deciding<'_>) -> T,
    ) -> T {
        let state = &mut *self.state.borrow_mut();
        decide(&mut Deciding { target, algorithm: routed.algorithm(), state, now })
    }

    fn placement(&self, routed: &Routed, taken: Taken<'_>) -> Placement {
        let Taken { target, selected, running } = taken;
        let key = TargetKey::of(&target.name);
        let reserved = Reserved::new(running, key, self.vacancies.clone(), self.load_changed.clone());
        Placement::new(target, selected, reserved, routed.algorithm().kind())
    }
}
