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

/// Folders whose faults are shown only, until they are mended. One that has none left is a fault itself.
const TO_MEND: [&str; 3] = ["controlplane", "dataplane", "dataplane/routing"];

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
    let home = |fault: &Fault| {
        TO_MEND.into_iter().filter(|folder| Path::new(&fault.place).starts_with(folder)).max()
    };
    let (to_mend, mut failing): (Vec<_>, Vec<_>) =
        faults.into_iter().partition(|fault| home(fault).is_some());
    for Fault { place, what } in &to_mend {
        println!("to mend: {place}: {what}");
    }
    let mended =
        TO_MEND.into_iter().filter(|folder| !to_mend.iter().any(|fault| home(fault) == Some(folder)));
    failing.extend(mended.map(|folder| Fault {
        place: folder.to_owned(),
        what: "nothing is left to mend: take it out of the list in xtask/src/structure/mod.rs".to_owned(),
    }));
    for Fault { place, what } in &failing {
        eprintln!("fault: {place}: {what}");
    }
    ensure!(failing.is_empty(), "{} faults in the repository's plan", failing.len());
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
