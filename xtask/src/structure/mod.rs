//! `cargo xtask structure`: whether the repository's plan holds. References lead somewhere, the crates' dependencies
//! point one way, and the rooms of a crate do not need one another in circles.
//!
//! Fast and without building anything, so that CI begins with it.

mod graph;
mod imports;
mod layers;
mod references;
mod rooms;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::workspace::{cargo, host, output, root};

/// Something wrong below a folder, relative to the root.
#[derive(Debug)]
struct Fault {
    place: String,
    what: String,
}

/// Checks all; shows every fault before it fails.
pub(crate) fn check() -> Result<()> {
    // What other platforms need is neither built nor fetched here.
    let metadata = ["metadata", "--locked", "--format-version", "1", "--filter-platform", &host()?];
    let metadata = output(cargo().args(metadata)).context("cargo metadata --locked fails")?;
    let metadata = serde_json::from_str(&metadata)?;
    let mut faults = references::faults(root())?;
    faults.extend(
        layers::faults(&metadata).into_iter().map(|what| Fault { place: "Cargo.toml".to_owned(), what }),
    );
    for (package, source) in sources(&metadata) {
        let place = package.strip_prefix(root()).unwrap_or(&package).display().to_string();
        for circle in rooms::circles(&source)? {
            if circle.is_of_folders {
                faults.push(Fault { place: place.clone(), what: circle.to_string() });
            } else {
                println!("{place}: of single files only: {circle}");
            }
        }
    }
    for Fault { place, what } in &faults {
        eprintln!("fault: {place}: {what}");
    }
    ensure!(faults.is_empty(), "{} faults in the repository's plan", faults.len());
    Ok(())
}

/// Folders of our packages, each with those in which its library and its programs begin.
fn sources(metadata: &Value) -> BTreeSet<(PathBuf, PathBuf)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let folder = |path: &Value| path.as_str().and_then(|path| Path::new(path).parent()).map(Path::to_owned);
    let members = list(&metadata["workspace_members"]);
    let mut sources = BTreeSet::new();
    for package in list(&metadata["packages"]).iter().filter(|package| members.contains(&package["id"])) {
        let is_code =
            |target: &Value| list(&target["kind"]).iter().any(|kind| kind == "lib" || kind == "bin");
        for target in list(&package["targets"]).iter().filter(|target| is_code(target)) {
            sources.extend(folder(&package["manifest_path"]).zip(folder(&target["src_path"])));
        }
    }
    sources
}
