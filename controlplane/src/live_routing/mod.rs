//! The routing configuration that is in force, the versions before it, and how the next one comes in.
//!
//! A version is a whole document with a number of its own, which is never reused. A change is kept first
//! (where there is a state directory), then published to all cores as a part of one snapshot, then answered.
//! Requests that are under way keep what they started with.

mod store;

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use crate::config::{Config, Document, Policies, Violation};
pub use store::Store;
use store::Stored;

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

/// All versions that are kept, and the policies of the one in force.
#[derive(Clone, Debug)]
pub struct LiveRouting {
    /// Oldest first; the last one is in force, so it is never empty.
    versions: VecDeque<Version>,
    policies: Policies,
    /// What the process was started with.
    file: Arc<Document>,
}

/// What a change comes to.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The version that is in force afterwards.
    pub version: Version,
    /// Whether anything changed.
    pub is_new: bool,
    /// Whether models without an entry are treated otherwise than before.
    pub is_default_changed: bool,
    /// Models that are treated otherwise than before, as far as they are known.
    pub models: Vec<Arc<str>>,
}

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

/// What a caller demands of the version in force before it changes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    #[default]
    None,
    /// That it is one of these.
    OneOf(Vec<u64>),
}

/// What is to be in force.
#[derive(Clone, Debug)]
pub enum Change {
    /// This document.
    Put(Arc<Document>),
    /// A version that was; `None` is the one before.
    RollBack(Option<u64>),
}

// === impl LiveRouting ===

impl LiveRouting {
    /// What is in force at the start of the process.
    ///
    /// Without a state directory it is what the process was started with. With one, the version that was in
    /// force last goes on, unless what the process is started with has changed since that was written: then
    /// the operator has said something new, and it becomes the next version.
    ///
    /// # Errors
    /// The state file is damaged, or the directory cannot be used.
    pub fn start(config: &Config) -> Result<(Self, Option<Store>), StartError> {
        let file = Arc::new(config.routing.read().map_err(StartError::Document)?);
        if config.admin.state_dir.as_os_str().is_empty() {
            return Ok((Self::first(file), None));
        }
        let store = Store::new(&config.admin.state_dir);
        let live = match store.read()? {
            None => Self::first(file),
            Some(stored) => Self::after(stored, file, &store),
        };
        store.write(&live.stored()).map_err(|error| StartError::State {
            path: store.path().to_owned(),
            problem: error.to_string(),
        })?;
        Ok((live, Some(store)))
    }

    fn first(file: Arc<Document>) -> Self {
        let version = Version {
            number: 1,
            applied_at_unix_ms: unix_ms(),
            source: Source::File,
            document: file.clone(),
        };
        Self { policies: Policies::of(&file, None), versions: VecDeque::from([version]), file }
    }

    fn after(stored: Stored, file: Arc<Document>, store: &Store) -> Self {
        let Stored { file: file_before, versions } = stored;
        let policies = versions.back().map(|version| Policies::of(&version.document, None));
        let mut live = Self { policies: policies.unwrap_or_default(), versions, file: file.clone() };
        let current = live.current().clone();
        if *file_before != *file && *current.document != *file {
            live = live.with(Source::File, file);
            tracing::info!(
                version = live.current().number,
                "the routing configuration that this process was started with has changed, and replaces \
                 version {} of {}",
                current.number,
                store.path().display()
            );
        } else if *current.document != *file {
            tracing::warn!(
                version = current.number,
                "routing is as in {}, which was changed through the REST API after [routing] of the \
                 configuration, and differs from it",
                store.path().display()
            );
        }
        live
    }

    /// The version in force.
    ///
    /// # Panics
    /// Never: there is always one.
    pub fn current(&self) -> &Version {
        self.versions.back().expect("a version is in force")
    }

    /// All versions that are kept, oldest first.
    pub fn versions(&self) -> impl DoubleEndedIterator<Item = &Version> {
        self.versions.iter()
    }

    /// What holds for each model.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// What `change` comes to, without making it.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is written here.
    pub fn plan(&self, change: Change, precondition: &Precondition) -> Result<Self, ChangeError> {
        let current = self.current().number;
        if let Precondition::OneOf(expected) = precondition
            && !expected.contains(&current)
        {
            let expected = if let [one] = expected[..] { Some(one) } else { None };
            return Err(ChangeError::Conflict { current, expected });
        }
        match change {
            Change::Put(document) if document == self.current().document => Ok(self.clone()),
            Change::Put(document) => Ok(self.with(Source::Rest, document)),
            Change::RollBack(number) => {
                let found = match number {
                    Some(number) => self.versions.iter().find(|version| version.number == number),
                    None => self.versions.iter().rev().nth(1),
                };
                let found = found.ok_or_else(|| match (number, self.versions.front()) {
                    (Some(version), Some(first)) => {
                        ChangeError::NoSuchVersion { version, first: first.number, last: current }
                    }
                    _ => ChangeError::NothingBefore { current },
                })?;
                Ok(self.with(Source::Rollback(found.number), found.document.clone()))
            }
        }
    }

    /// What differs from `before`; `known` are models that requests can be for now.
    pub fn applied(&self, before: &Self, known: impl Iterator<Item = Arc<str>>) -> Applied {
        let (new, old) = (&self.policies, &before.policies);
        let mut models: Vec<Arc<str>> =
            new.models(old).map(crate::names::ModelName::shared).chain(known).collect();
        models.sort_unstable();
        models.dedup();
        models.retain(|model| new.policy(model) != old.policy(model));
        Applied {
            version: self.current().clone(),
            is_new: self.current().number != before.current().number,
            is_default_changed: new.has_other_default(old),
            models,
        }
    }

    /// With one more version.
    fn with(&self, source: Source, document: Arc<Document>) -> Self {
        let mut versions = self.versions.clone();
        if versions.len() >= VERSIONS_MAX {
            versions.pop_front();
        }
        let policies = Policies::of(&document, Some(&self.policies));
        let number = self.current().number + 1;
        versions.push_back(Version { number, applied_at_unix_ms: unix_ms(), source, document });
        Self { versions, policies, file: self.file.clone() }
    }

    pub(crate) fn stored(&self) -> Stored {
        Stored { file: self.file.clone(), versions: self.versions.clone() }
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as u64
}

#[cfg(test)]
mod tests;
