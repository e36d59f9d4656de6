//! The REST API of the control plane, for operators, backends and probes.
//!
//! `routes.rs` lists every path with the handler that answers it, one file a resource. Nothing authenticates callers,
//! which is why the admin listener stays on loopback unless the configuration says otherwise. A body is limited, an
//! error says what is wrong and where, a panic costs its request only.

mod backends;
mod body;
mod clusters;
mod dataplane;
mod error;
mod explain;
mod json_path;
mod probes;
mod ranking;
mod room;
mod routes;
mod routing;
mod server;
mod snapshot;
mod targets;

pub use error::ApiError;
pub use routes::router;
pub use server::serve;
