//! The virtual environment in which the tests run the official `openai` client.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::workspace::{apt_install, output, root, run, target_dir};

/// Makes `<target>/venv` with the packages of `tests/requirements.txt`, unless it is there. The test that uses it
/// looks for the same copy of the requirements.
pub(crate) fn prepare_test_environment() -> Result<()> {
    let requirements = root().join("tests/requirements.txt");
    let venv = target_dir().join("venv");
    let stamp = venv.join("requirements.txt");
    if same_content(&requirements, &stamp) {
        return Ok(());
    }
    create(&venv)?;
    run(pip(&venv).arg("-r").arg(&requirements))?;
    fs::copy(&requirements, &stamp).with_context(|| format!("{}", stamp.display()))?;
    Ok(())
}

/// Installs one package into a virtual environment of its own; returns the folder of its programs.
pub(crate) fn install_tool(venv: &Path, package: &str) -> Result<PathBuf> {
    create(venv)?;
    run(pip(venv).arg(package))?;
    Ok(venv.join("bin"))
}

/// Creates a virtual environment, with Debian's packages for that where they are missing.
fn create(venv: &Path) -> Result<()> {
    let make = || {
        let mut python = Command::new("python3");
        python.args(["-m", "venv"]).arg(venv);
        python
    };
    if output(&mut make()).is_none() {
        apt_install(&["python3", "python3-venv"])?;
        run(&mut make())?;
    }
    Ok(())
}

fn pip(venv: &Path) -> Command {
    let mut pip = Command::new(venv.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip
}

fn same_content(a: &Path, b: &Path) -> bool {
    fs::read(a).ok().is_some_and(|a| fs::read(b).ok() == Some(a))
}
