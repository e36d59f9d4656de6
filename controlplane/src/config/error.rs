//! A configuration error and the place that it came from.

use std::{fmt, io, path::PathBuf};

use super::violation::Violation;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A value, a key or the syntax is wrong.
    #[error("{origin}: {}{problem}", key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default())]
    Value {
        /// Where it was said.
        origin: Origin,
        /// Path of the key, where one is concerned.
        key: Option<String>,
        /// What was found and what is allowed.
        problem: String,
    },
}

/// Where a value was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the file, at this line and column from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1; 0 when the fault has no one place.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// In an environment variable.
    Variable(String),
    /// On the command line.
    Flag(String),
    /// Nowhere: it is a default.
    Default,
}

// === impl ConfigError ===

impl ConfigError {
    pub(super) fn violation(origin: Origin, violation: Violation) -> Self {
        Self::Value {
            origin,
            key: Some(violation.key),
            problem: format!("found {}, allowed: {}", violation.found, violation.allowed),
        }
    }
}

// === impl Origin ===

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line: 0, .. } => write!(f, "{}", path.display()),
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
            Self::Default => f.write_str("default"),
        }
    }
}
