//! The routing configuration that is in force, the versions before it, and how the next one comes in.
//!
//! A version is a whole document with a number of its own, which is never reused. A change is kept first
//! (where there is a state directory), then published to all cores as a part of one snapshot, then answered.
//! Requests that are under way keep what they started with.

mod change;
mod error;
mod history;
mod store;
mod version;

pub use change::{Applied, Change, Precondition};
pub use error::{ChangeError, StartError};
pub use history::LiveRouting;
pub use store::Store;
pub use version::{Source, VERSIONS_MAX, Version};

#[cfg(test)]
mod tests;
