//! The one decision function.

use crate::{Decision, Exclusions, RoutingRequest, Target, UnavailableReason};

/// Chooses a cluster of `target` and a backend inside it. Allocates nothing.
pub fn decide(
    target: &Target,
    request: &RoutingRequest<'_>,
    exclusions: &Exclusions,
    rng: &mut fastrand::Rng,
) -> Decision {
    let _ = (target, request, exclusions, rng);
    Decision::Unavailable(UnavailableReason::NoActiveBackend)
}
