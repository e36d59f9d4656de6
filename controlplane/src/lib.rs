//! The control plane: registers backends, checks and measures them, aggregates what they report, and
//! publishes routing snapshots; serves the REST API and the metrics.
//!
//! What happens to a change, one module each: config and [`api`] take it in, [`registry`] holds it,
//! [`aggregate`](mod@aggregate) and [`publish`] make a snapshot of it; in return `observe` accounts for what
//! the data plane did with it. The border to the data plane is only that: snapshots one way, observations the
//! other. Nothing here knows HTTP/1 framing or the data plane's runtime.

pub mod aggregate;
pub mod api;
pub mod backend_url;
pub mod config;
pub mod engine;
pub mod health;
pub mod health_path;
pub mod learn;
pub mod live_routing;
mod metrics;
pub mod names;
mod observe;
pub mod plane;
pub mod publish;
pub mod ranged;
pub mod registry;
mod routing_changes;
mod shared;
mod tasks;

pub use plane::ControlPlane;
