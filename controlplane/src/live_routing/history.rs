//! The versions that are kept and the policies of the one in force, as a value: a change makes another one of it,
//! which its owner keeps, publishes and only then takes for the one in force.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    change::{Applied, Change, Precondition},
    error::{ChangeError, StartError},
    store::{Store, Stored},
    version::{Source, VERSIONS_MAX, Version},
};
use crate::{
    config::{Config, Document, Policies},
    names::ModelName,
};

/// All versions that are kept, and the policies of the one in force.
#[derive(Clone, Debug)]
pub struct LiveRouting {
    /// Oldest first; the last one is in force, so it is never empty.
    versions: VecDeque<Version>,
    policies: Policies,
    /// What the process was started with.
    file: Arc<Document>,
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
        let mut models: Vec<Arc<str>> = new.models(old).map(ModelName::shared).chain(known).collect();
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
