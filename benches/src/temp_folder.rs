//! A folder for the logs and configurations of one measurement, gone when it ends.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

/// A folder that goes when this value does.
pub(crate) struct TempFolder(PathBuf);

// === impl TempFolder ===

impl TempFolder {
    /// A new one, named after `purpose` and this process.
    pub(crate) fn new(purpose: &str) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("stargate-{purpose}-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // What is left of it is in the system's folder for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}
