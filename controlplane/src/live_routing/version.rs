//! One version of the routing configuration: a document with a number of its own, which is never reused, and where it
//! came from.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::Document;

/// Versions that are kept, the one in force included.
pub const VERSIONS_MAX: usize = 32;

/// One version of the routing configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    /// Its number, from 1.
    pub number: u64,
    /// When it was applied, in Unix milliseconds.
    pub applied_at_unix_ms: u64,
    /// Where it came from.
    pub source: Source,
    /// What it says.
    pub document: Arc<Document>,
}

/// Where a version came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The configuration that the process was started with: file, variables and flags.
    File,
    /// A PUT to the REST API.
    Rest,
    /// A rollback to this earlier version.
    Rollback(u64),
}
