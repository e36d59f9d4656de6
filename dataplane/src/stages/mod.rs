//! The stages that a request goes through on a core, a file each, in this order: accept, receive, derive, choose,
//! attempt (again where that is safe), relay, account.
//!
//! `connection` runs them for one client connection, request after request, and `proxied` those of a request for
//! an engine. A stage gets what it needs from those before it as values, and reaches back to none of them. What all
//! requests of a core share is `core`'s; how bytes come and go is `io`'s and `http`'s.

pub(crate) mod accept;
pub(crate) mod account;
pub(crate) mod answer;
pub(crate) mod attempt;
pub(crate) mod attempts;
pub(crate) mod choose;
pub(crate) mod connection;
pub(crate) mod derive;
pub(crate) mod local;
pub(crate) mod proxied;
pub(crate) mod receive;
pub(crate) mod refuse;
pub(crate) mod relay;
pub(crate) mod routing_method;
pub(crate) mod terms;
pub(crate) mod upstream_request;
