//! The kernel programs: what builds them, what is embedded of them in the daemon, and that the two belong together.
//!
//! The object is committed, with a record of what it was built from, so that a user of this workspace needs no BPF
//! toolchain. Whoever changes `ebpf/` builds it anew with `cargo xtask build-ebpf`.

mod build;
mod digest;
mod embedded;
mod requirements;
mod setup;
mod sources;
mod toolchain;

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

pub(crate) use self::{build::object as built_object, setup::set_up};
use self::{
    build::{build, tools},
    embedded::{OBJECT, Record},
    requirements::Requirements,
};
use crate::workspace::root;

/// What to do about the kernel programs.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Change nothing; fail when the embedded object is not what the sources make, as far as can be told here.
    #[arg(long)]
    check: bool,
}

/// Builds them, or checks what is embedded.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.check { check().map(drop) } else { build_and_embed() }
}

/// The check of CI, which has a toolchain: what is embedded is checked, and a fresh object is left for the tests.
pub(crate) fn check_and_build() -> Result<()> {
    match check()? {
        Rebuilt::Yes => Ok(()),
        Rebuilt::No(reason) => bail!("the kernel programs were not built: {reason}"),
    }
}

/// Whether the object that was built here is, byte for byte, the one that is embedded.
pub(crate) fn built_is_embedded() -> Result<bool> {
    let read = |path: PathBuf| fs::read(&path).with_context(|| format!("{}", path.display()));
    Ok(read(built_object())? == read(root().join(OBJECT))?)
}

/// Whether there is a fresh object now.
enum Rebuilt {
    Yes,
    No(String),
}

/// Builds the object and puts it, with its record, where the daemon embeds it from.
fn build_and_embed() -> Result<()> {
    let (compiler, linker) = tools()?;
    println!("{compiler}; {}", linker.version);
    let object = build(&compiler, &linker)?;
    let needs = Requirements::of(&object)?;
    let record = Record::new(&object, &compiler, &linker)?;
    let path = root().join(OBJECT);
    let same = fs::read(&path).is_ok_and(|embedded| embedded == object);
    if !same {
        fs::write(&path, &object).with_context(|| format!("{}", path.display()))?;
    }
    record.write()?;
    let state = if same { "unchanged" } else { "new" };
    println!("{OBJECT}: {} bytes, {state}; needs {needs}", object.len());
    println!("{}", built_object().display());
    Ok(())
}

/// Checks the embedded object as far as this machine can: by its record, and, with the tools that the record names, byte
/// for byte against a fresh build.
fn check() -> Result<Rebuilt> {
    let record = Record::read()?;
    let embedded = record.verify()?;
    let needs = Requirements::of(&embedded)?;
    println!("{OBJECT}: built from these sources; needs {needs}");
    let (compiler, linker) = match tools() {
        Ok(tools) => tools,
        Err(error) => {
            println!("not built anew: {error:#}");
            return Ok(Rebuilt::No(format!("{error:#}")));
        }
    };
    println!("{compiler}; {}", linker.version);
    let fresh = build(&compiler, &linker)?;
    // Must be fit for the same kernels, whatever built it.
    Requirements::of(&fresh)?;
    if !record.names(&compiler, &linker) {
        println!(
            "built anew, but not compared: the embedded object is by {}; {}",
            record.compiler, record.linker
        );
    } else if fresh == embedded {
        println!("built anew: the same {} bytes", fresh.len());
    } else {
        bail!(
            "{OBJECT} is not what these sources make ({}, embedded {}): run `cargo xtask build-ebpf` and commit what it \
             changes",
            digest::of(&fresh),
            record.object
        );
    }
    println!("{}", built_object().display());
    Ok(Rebuilt::Yes)
}
