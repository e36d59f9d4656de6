//! The object that the daemon embeds, and the record beside it.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::{
    digest, sources,
    toolchain::{Compiler, Linker},
};
use crate::workspace::root;

/// The object, from the root of the workspace.
pub(super) const OBJECT: &str = "dataplane/src/rtt/kernel/backend_rtt.o";

/// Its record.
const RECORD: &str = "dataplane/src/rtt/kernel/backend_rtt.toml";

const HEAD: &str = "# What backend_rtt.o is. `cargo xtask build-ebpf` writes both; `cargo test` and CI hold it to the sources.\n";

/// What the record says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Hash of all that it was built from.
    pub(super) sources: String,
    /// Hash of the object.
    pub(super) object: String,
    /// The compiler that built it.
    pub(super) compiler: String,
    /// The linker.
    pub(super) linker: String,
}

// === impl Record ===

impl Record {
    /// Of an object that was just built.
    pub(super) fn new(object: &[u8], compiler: &Compiler, linker: &Linker) -> Result<Self> {
        Ok(Self {
            sources: sources::hash(root())?,
            object: digest::of(object),
            compiler: compiler.identity(),
            linker: linker.version.clone(),
        })
    }

    /// The one in the workspace.
    pub(super) fn read() -> Result<Self> {
        let text = fs::read_to_string(root().join(RECORD)).with_context(|| RECORD.to_owned())?;
        let table: toml::Table = text.parse().with_context(|| RECORD.to_owned())?;
        let value = |key: &str| {
            let value = table.get(key).and_then(toml::Value::as_str);
            value.map(str::to_owned).with_context(|| format!("{RECORD} has no `{key}`"))
        };
        Ok(Self {
            sources: value("sources")?,
            object: value("object")?,
            compiler: value("compiler")?,
            linker: value("linker")?,
        })
    }

    /// Puts it into the workspace.
    pub(super) fn write(&self) -> Result<()> {
        let Self { sources, object, compiler, linker } = self;
        let text = format!(
            "{HEAD}sources = \"{sources}\"\nobject = \"{object}\"\ncompiler = \"{compiler}\"\nlinker = \"{linker}\"\n"
        );
        fs::write(root().join(RECORD), text).with_context(|| RECORD.to_owned())
    }

    /// Whether these tools are those that it names.
    pub(super) fn names(&self, compiler: &Compiler, linker: &Linker) -> bool {
        self.compiler == compiler.identity() && self.linker == linker.version
    }

    /// Holds it to the sources and to the object; returns the object.
    pub(super) fn verify(&self) -> Result<Vec<u8>> {
        let now = sources::hash(root())?;
        ensure!(
            self.sources == now,
            "{OBJECT} is stale: it was built from {}, and ebpf/ (with its manifests, locked crates and build) is {now}. \
             Run `cargo xtask build-ebpf` (after `setup-ebpf`) and commit what it changes",
            self.sources
        );
        let object = fs::read(root().join(OBJECT)).with_context(|| OBJECT.to_owned())?;
        let hash = digest::of(&object);
        ensure!(
            self.object == hash,
            "{OBJECT} is not the file that its record tells of: {hash}, not {}. Run `cargo xtask build-ebpf`",
            self.object
        );
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ebpf::requirements::Requirements;

    /// Fails plain `cargo test` when somebody changed the kernel program and did not build it.
    #[test]
    fn the_embedded_object_is_built_from_the_sources_that_are_here() {
        if let Err(error) = Record::read().and_then(|record| record.verify()) {
            panic!("{error:#}");
        }
    }

    #[test]
    fn the_embedded_object_asks_no_more_of_a_kernel_than_is_promised() {
        let object = fs::read(root().join(OBJECT)).expect("the object");
        let needs = Requirements::of(&object).expect("an object that can be judged");
        assert_eq!(needs.linux, (5, 8), "{needs}");
        assert!(object.len() < 32 * 1024, "it has grown to {} bytes", object.len());
    }
}
