//! What a request is routed by, taken from the snapshot once and kept, whatever is configured while it waits or is
//! retried.

use std::{rc::Rc, sync::Arc, time::Duration};

use stargate_routing::{
    Algorithm, Claim, Exclusions, Method, Millis, Patience, Policy, RoutingRequest, Waiting,
};

/// What a request is routed by, from its first decision to its last.
#[derive(Clone, Debug)]
pub(crate) struct Routed {
    policy: Arc<Policy>,
    /// What the request selected by `x-routing-method`, in place of the policy's own.
    selected: Option<Rc<Method>>,
    slo: Option<Millis>,
    patience: Patience,
}

// === impl Routed ===

impl Routed {
    /// `max_wait` is how long the request says that it waits.
    pub(crate) fn new(
        policy: Arc<Policy>,
        selected: Option<Rc<Method>>,
        slo: Option<Millis>,
        max_wait: Option<Duration>,
    ) -> Self {
        let patience = Patience::new(max_wait, &policy.waiting);
        Self { policy, selected, slo, patience }
    }

    /// The time to first token that is wanted.
    pub(crate) fn slo(&self) -> Option<Millis> {
        self.slo
    }

    /// How a cluster is chosen, and who is let in.
    pub(crate) fn method(&self) -> &Method {
        self.selected.as_deref().unwrap_or(&self.policy.method)
    }

    pub(crate) fn algorithm(&self) -> &Algorithm {
        &self.method().algorithm
    }

    /// How it waits.
    pub(crate) fn waiting(&self) -> &Waiting {
        &self.policy.waiting
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// When waiting becomes pointless, from the arrival.
    pub(crate) fn limit(&self) -> Duration {
        self.patience.limit(self.slo)
    }

    /// What it is decided by: this, and what differs from decision to decision.
    pub(crate) fn claim<'a>(
        &self,
        request: RoutingRequest<'a>,
        exclusions: &'a Exclusions,
        arrived: Duration,
    ) -> Claim<'a> {
        let shed_unreachable = self.policy.waiting.shed_unreachable;
        Claim { request, exclusions, patience: self.patience, shed_unreachable, arrived }
    }
}
