//! A document as it is written, of TOML, JSON or a file; read as a whole or not at all.

use std::{fs, io::Read, path::Path};

use serde::{Deserialize, Deserializer, Serialize};

use super::{
    document::Document,
    policies::Policies,
    raw::{self, Table},
};
use crate::config::{
    error::{ConfigError, Origin},
    violation::Violation,
};

/// Largest document that is read from a file.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A document as it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Routing(Table);

// === impl Routing ===

impl Routing {
    /// What the document says.
    ///
    /// # Errors
    /// The first fault; its key is a path within the document.
    pub fn read(&self) -> Result<Document, Violation> {
        Document::read(&self.0)
    }

    /// Of the text of a TOML document: the content of `[routing]`.
    ///
    /// # Errors
    /// What is wrong with the syntax, in one line.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string().trim_end().replace('\n', " "))
    }

    /// Of the text of a JSON document.
    ///
    /// # Errors
    /// What is wrong with the syntax, in one line.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The document in a file: TOML where its name ends in `.toml`, else JSON.
    ///
    /// # Errors
    /// The file cannot be read, or is not a document.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let fail = |source| ConfigError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let file = fs::File::open(path).map_err(fail)?;
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(fail)?;
        let problem = if text.len() as u64 > FILE_BYTES_MAX {
            Err(format!("it has over {FILE_BYTES_MAX} bytes"))
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            Self::from_toml(&text)
        } else {
            Self::from_json(&text)
        };
        let origin = || Origin::File { path: path.to_owned(), line: 0, column: 0 };
        let routing =
            problem.map_err(|problem| ConfigError::Value { origin: origin(), key: None, problem })?;
        routing.read().map_err(|violation| ConfigError::violation(origin(), violation))?;
        Ok(routing)
    }

    /// What holds for each model.
    ///
    /// # Errors
    /// As [`Routing::read`].
    pub fn policies(&self) -> Result<Policies, Violation> {
        self.read().map(|document| Policies::of(&document, None))
    }
}

impl<'de> Deserialize<'de> for Routing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        raw::deserialize_table(deserializer).map(Self)
    }
}
