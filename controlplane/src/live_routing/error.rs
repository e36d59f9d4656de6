//! Why the routing configuration is not changed, and why there is none to start with.

use std::path::PathBuf;

use crate::config::Violation;

/// Why the routing configuration is not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Another version is in force than the caller knows.
    #[error("version {current} is in force, not {}", expected.map_or_else(|| "any of those named".to_owned(), |version| version.to_string()))]
    Conflict {
        /// The one in force.
        current: u64,
        /// The one that the caller named, if one.
        expected: Option<u64>,
    },
    /// That version is not kept.
    #[error("version {version} is not kept; kept are {first} to {last}")]
    NoSuchVersion {
        /// The one asked for.
        version: u64,
        /// The oldest.
        first: u64,
        /// The newest.
        last: u64,
    },
    /// There is none before the first.
    #[error("version {current} is the only one that is kept")]
    NothingBefore {
        /// The one in force.
        current: u64,
    },
    /// It could not be written to the state directory.
    #[error("{}: cannot be written: {source}", path.display())]
    NotKept {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Why there is no routing configuration to start with.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration was not validated.
    #[error("routing.{}: found {}, allowed: {}", .0.key, .0.found, .0.allowed)]
    Document(Violation),
    /// The state file cannot be read or written.
    #[error("{}: {problem}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}
