//! How a request gets a place in a cluster: what it is decided by, the decision, the place that it then holds, and what it
//! is told when it gets none. Whoever gets none now but may later is `waiting`'s.

mod decider;
mod no_place;
mod placement;
mod reserved;
mod routed;
pub(super) mod vacancies;

pub(crate) use self::{
    decider::Decider,
    no_place::{not_admitted, refusal, shutting_down, too_many_waiters, unknown_target},
    placement::Placement,
    reserved::Reserved,
    routed::Routed,
};
