//! Active health checks: is a backend there, does it answer, how far away is it.
//!
//! Each registration is checked by a task of its own (`tasks/health.rs`), so that a backend which hangs delays nobody else's
//! checks. A check looks the name up, connects, and asks for one path; the time to connect is a source of the
//! round-trip time (`probe`), the one that always works. Checks never touch in-flight counters.

mod check;
mod look_up;
mod state;

pub use check::{CheckFailure, CheckReport, CheckTarget, check};
pub use look_up::{LookUp, locate};
pub use state::{Condition, HealthState, ProbedRtt, Thresholds, Transition};
