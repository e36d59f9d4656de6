//! Active health checks.
mod path;
pub use path::HealthPath;
