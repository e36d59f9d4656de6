//! `routing.json` in the state directory: the versions that are kept, written whole or not at all.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    error::StartError,
    version::{Source, VERSIONS_MAX, Version},
};
use crate::config::{Document, Routing};

/// What the file holds, in its only format so far.
const FORMAT: u32 = 1;
const FILE_NAME: &str = "routing.json";

/// The state file.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
    path: PathBuf,
}

/// What is kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    /// What the process that wrote it was started with.
    pub(super) file: Arc<Document>,
    /// The versions, oldest first; at least one.
    pub(super) versions: VecDeque<Version>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm<D> {
    format: u32,
    file: D,
    versions: Vec<VersionForm<D>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionForm<D> {
    version: u64,
    applied_at_unix_ms: u64,
    source: Source,
    document: D,
}

// === impl Store ===

impl Store {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), path: directory.join(FILE_NAME) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is kept; `None` when nothing ever was.
    pub(super) fn read(&self) -> Result<Option<Stored>, StartError> {
        let fail = |problem: String| StartError::State { path: self.path.clone(), problem };
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail(format!("cannot be read: {error}"))),
        };
        parse(&text).map(Some).map_err(|problem| {
            fail(format!("cannot be used: {problem}; remove the file to start from the configuration alone"))
        })
    }

    /// Writes the file anew: whoever reads it, also after a power cut, finds either what was there or this.
    pub(crate) fn write(&self, stored: &Stored) -> io::Result<()> {
        let form = FileForm {
            format: FORMAT,
            file: &*stored.file,
            versions: stored
                .versions
                .iter()
                .map(|version| VersionForm {
                    version: version.number,
                    applied_at_unix_ms: version.applied_at_unix_ms,
                    source: version.source,
                    document: &*version.document,
                })
                .collect(),
        };
        fs::create_dir_all(&self.directory)?;
        let draft = self.path.with_extension("json.new");
        let mut file = File::create(&draft)?;
        file.write_all(&serde_json::to_vec_pretty(&form)?)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&draft, &self.path)?;
        // The new name is on disk once its directory is.
        File::open(&self.directory)?.sync_all()
    }
}

fn parse(text: &str) -> Result<Stored, String> {
    let form: FileForm<Routing> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if form.format != FORMAT {
        return Err(format!("found format {}, expected {FORMAT}", form.format));
    }
    let document = |routing: &Routing, place: String| match routing.read() {
        Ok(document) => Ok(Arc::new(document)),
        Err(violation) => Err(format!(
            "{place}.{}: found {}, allowed: {}",
            violation.key, violation.found, violation.allowed
        )),
    };
    let file = document(&form.file, "file".into())?;
    let mut versions = VecDeque::new();
    for (index, version) in form.versions.iter().enumerate() {
        if versions.back().is_some_and(|before: &Version| before.number >= version.version) {
            return Err(format!(
                "versions[{index}].version: found {}, which is not above the one before",
                version.version
            ));
        }
        versions.push_back(Version {
            number: version.version,
            applied_at_unix_ms: version.applied_at_unix_ms,
            source: version.source,
            document: document(&version.document, format!("versions[{index}].document"))?,
        });
    }
    if versions.is_empty() || versions.len() > VERSIONS_MAX {
        return Err(format!("versions: found {}, expected 1 to {VERSIONS_MAX}", versions.len()));
    }
    Ok(Stored { file, versions })
}
