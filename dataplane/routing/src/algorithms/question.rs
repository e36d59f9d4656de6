//! What is decided about: the same for every algorithm.

use super::round_robin::cursor::RoundRobinCursor;
use crate::{
    RoutingRequest, core_loads::unflushed::Unflushed, ranking::fleet::Fleet, request::eligible::Eligible,
};

/// A request, and where it may go.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) fleet: Fleet<'a>,
    pub(crate) round_robin: &'a RoundRobinCursor,
    /// Of the clusters those that the request may still go to, at least one.
    pub(crate) eligible: &'a Eligible,
    pub(crate) request: &'a RoutingRequest<'a>,
    /// Their load as this core knows it.
    pub(crate) unflushed: &'a Unflushed,
}
